// Package usage answers what elastic quotas have left, and what pods would take of them.
package usage

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster/reader"
)

// Question asks what the quotas of a namespace have left, for a user who may read little else.
type Question struct {
	Source    reader.Source // with the rights of the user
	Namespace string
	Gates     gate.Set
	Pods      []PlannedPods // which the user would create
}

// PlannedPods are pods that would be created: all alike.
type PlannedPods struct {
	Of      string // the object of the manifest, such as "Deployment web"
	Pod     *corev1.Pod
	Count   int64
	Unknown string // why it is not known what they take; empty: it is
}

// Usage is the answer to a Question. What is nil is not known.
type Usage struct {
	Namespace string       `json:"namespace"`
	Quotas    []QuotaUsage `json:"quotas"`
	Takes     []QuotaTake  `json:"takes,omitempty"`
	// Notes are facts, and Unknown says what could not be found out.
	Notes   []string `json:"notes,omitempty"`
	Unknown []string `json:"unknown,omitempty"`
}

// QuotaUsage is what a quota has left.
type QuotaUsage struct {
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Parent    string          `json:"parent,omitempty"`
	AsOf      *time.Time      `json:"asOf,omitempty"` // when usher wrote the numbers; what has not changed is not written again
	Resources []ResourceUsage `json:"resources,omitempty"`
}

// ResourceUsage is what a quota has left of a resource.
type ResourceUsage struct {
	Name      corev1.ResourceName `json:"name"`
	Used      *string             `json:"used"`
	Reserved  *string             `json:"reserved"`
	Limit     *string             `json:"limit"` // of the quota itself; nil: none
	Left      *string             `json:"left"`
	LeftMost  bool                `json:"leftAtMost,omitempty"` // less may be left, by the limit of By
	Unlimited bool                `json:"unlimited,omitempty"`  // by no quota on the path
	By        string              `json:"by,omitempty"`         // whose limit leaves that
}

// QuotaTake is what planned pods would take of a quota.
type QuotaTake struct {
	Of        []string       `json:"of"`
	Pods      int64          `json:"pods"`
	Quota     string         `json:"quota,omitempty"` // empty: none limits them, or it is not known
	Fits      string         `json:"fits"`            // yes, no or not known
	Why       string         `json:"why,omitempty"`
	Resources []ResourceTake `json:"resources,omitempty"`
}

// ResourceTake is what planned pods would take of a resource.
type ResourceTake struct {
	Name  corev1.ResourceName `json:"name"`
	Takes string              `json:"takes"`
	Fits  string              `json:"fits"` // yes, no or not known
	By    string              `json:"by,omitempty"`
}

// The values of Fits.
const (
	FitsYes     = "yes"
	FitsNo      = "no"
	FitsUnknown = "not known"
)
