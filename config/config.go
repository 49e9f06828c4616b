// Package config is the policy file: what usher enforces and adds, as plain values.
package config

import (
	_ "embed"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
)

// Policy is the whole policy file. What the file does not say, usher does not do: a section that is left out does nothing.
type Policy struct {
	// Names refuses pods by their name.
	Names *Names `json:"names,omitempty"`
	// Lifespan turns a label into tolerations.
	Lifespan *Lifespan `json:"lifespan,omitempty"`
	// Env is set in every container that does not set it itself.
	Env []Variable `json:"env,omitempty"`
	// Overcommit amplifies nodes.
	Overcommit *Overcommit `json:"overcommit,omitempty"`
	// NodeAmplification amplifies nodes for the colocation suite, and bounds what others ask for.
	NodeAmplification *NodeAmplification `json:"nodeAmplification,omitempty"`
	// Binding says who may bind pods to nodes.
	Binding *Binding `json:"binding,omitempty"`
	// Modes says how seriously a step is taken, by its name. Default: enforce.
	Modes admit.Modes `json:"modes,omitempty"`
}

// Names is the policy on names.
type Names struct {
	// Denied are words that no pod's name may contain.
	Denied []string `json:"denied"`
}

// Lifespan is the policy on how long a node must still live for a pod to run there.
type Lifespan struct {
	// Label is the pod label that asks for a number of days.
	Label string `json:"label"`
	// Taint is the key of the node taint that says how many days are left.
	Taint string `json:"taint"`
	// Max is the largest number of days, 1 to 100.
	Max int `json:"max"`
}

// Variable is an environment variable.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Overcommit is the policy on amplifying nodes.
type Overcommit struct {
	// Pools are tried in order; the first whose selector matches a node's labels decides.
	Pools []Pool `json:"pools"`
}

// Pool is a set of nodes and how they are amplified.
type Pool struct {
	Name string `json:"name"`
	// Selector picks nodes by their labels; empty: all nodes.
	Selector metav1.LabelSelector `json:"selector"`
	// Ratios are decimal strings of at least 1, for cpu and memory.
	Ratios map[corev1.ResourceName]string `json:"ratios"`
	// MaxRatio bounds every ratio of the pool; left out: no bound.
	MaxRatio string `json:"maxRatio,omitempty"`
	// Capacity says what becomes of status.capacity. Default: keep.
	Capacity Capacity `json:"capacity,omitempty"`
}

// Capacity is what amplification does to status.capacity.
type Capacity string

const (
	// Keep leaves capacity alone: it stays the witness of the hardware.
	Keep Capacity = "keep"
	// Raise raises capacity with allocatable, so that what the system reserves stays the same number.
	Raise Capacity = "raise"
)

//go:embed default.yaml
var defaultYAML []byte

// DefaultYAML is the policy that is in force without --config, as a file.
func DefaultYAML() []byte { return defaultYAML }
