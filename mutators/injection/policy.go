package injection

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/check"
)

// Sidecars is the policy on sidecar injection. The injections are applied in order.
type Sidecars []Spec

// Spec is an injection as the policy has it: what new pods get, unless they have it already.
type Spec struct {
	_ struct{} `schema:"either=containers|initContainers|volumes|imagePullSecrets|env|volumeMounts"`

	Name             string `json:"name" doc:"shown in warnings and refusals" schema:"required,is=dns-label"`
	config.Selection `json:",inline"`
	OS               string                        `json:"os,omitempty" doc:"operating system of the pods: spec.os.name, or else the node selector kubernetes.io/os, or else linux" schema:"enum=linux|windows|any" default:"linux"`
	HostNetwork      *bool                         `json:"hostNetwork,omitempty" doc:"whether the pods use the network of their node" default:"all pods"`
	OwnerKinds       []string                      `json:"ownerKinds,omitempty" doc:"kinds of the controllers of the pods, such as ReplicaSet, that of a Deployment; Pod for pods without one" default:"all pods"`
	ExceptOwnerKinds []string                      `json:"exceptOwnerKinds,omitempty" doc:"kinds of controllers whose pods are left out"`
	OptOutAnnotation string                        `json:"optOutAnnotation,omitempty" doc:"key of an annotation; a pod that has it with the value true is left out" schema:"is=label-key" default:"pods cannot opt out"`
	InitContainers   []corev1.Container            `json:"initContainers,omitempty" doc:"init containers that are added; with restartPolicy Always they are native sidecars"`
	InitPosition     Position                      `json:"initPosition" doc:"where init containers are inserted; a native sidecar serves only the init containers after it" default:"first"`
	Containers       []corev1.Container            `json:"containers,omitempty" doc:"containers that are added"`
	Position         Position                      `json:"position" doc:"where containers are inserted; kubectl logs and exec take the first container by default" default:"last"`
	Volumes          []corev1.Volume               `json:"volumes,omitempty" doc:"volumes that are added"`
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty" doc:"pull secrets that are added; they must be in the namespace of the pod"`
	Env              []corev1.EnvVar               `json:"env,omitempty" doc:"variables that are set in every container that is not injected, before its own" schema:"most=500"`
	VolumeMounts     []corev1.VolumeMount          `json:"volumeMounts,omitempty" doc:"mounts that are added to the same containers"`
}

// Section is the section sidecars.
var Section = config.Section[Sidecars]{Name: "sidecars", Check: Sidecars.check, Trial: Sidecars.trial,
	Tag: `doc:"what new pods get, unless they have it already: containers, volumes, pull secrets, variables"`}

// check returns all problems of the section.
func (s Sidecars) check(at *field.Path) (problems field.ErrorList) {
	containers, parts := 0, 0
	for _, injection := range s {
		containers += len(injection.Containers) + len(injection.InitContainers)
		parts += len(injection.Volumes) + len(injection.ImagePullSecrets) + len(injection.Env) + len(injection.VolumeMounts)
	}
	if containers > admit.MaxContainers {
		problems = append(problems, &field.Error{Type: field.ErrorTypeTooMany, Field: at.String(), BadValue: containers,
			Detail: fmt.Sprintf("a pod may have at most %d containers", admit.MaxContainers)})
	}
	if parts > config.MaxElements {
		problems = append(problems, &field.Error{Type: field.ErrorTypeTooMany, Field: at.String(), BadValue: parts, Detail: fmt.Sprintf(
			"all injections together may have at most %d volumes, pull secrets, variables and mounts; put variables into a ConfigMap", config.MaxElements)})
	}
	return append(problems, check.Named(s, at, func(e *Spec) string { return e.Name }, (*Spec).check)...)
}

// check returns all problems of the injection.
func (in *Spec) check(at *field.Path) (problems field.ErrorList) {
	problems = append(problems, check.LabelName(in.Name, at.Child("name"))...)
	problems = append(problems, in.Selection.Check(at)...)
	if known := []string{linux, "windows", anyOS}; in.OS != "" && !slices.Contains(known, in.OS) {
		problems = append(problems, field.NotSupported(at.Child("os"), in.OS, known))
	}
	if in.OptOutAnnotation != "" {
		problems = append(problems, check.Key(in.OptOutAnnotation, at.Child("optOutAnnotation"))...)
	}
	if len(in.Containers)+len(in.InitContainers)+len(in.Volumes)+len(in.ImagePullSecrets)+len(in.Env)+len(in.VolumeMounts) == 0 {
		problems = append(problems, field.Required(at, "injects nothing; write containers, initContainers, volumes, imagePullSecrets, env or volumeMounts"))
	}
	problems = append(problems, in.checkContainers(at)...)
	problems = append(problems, in.checkParts(at)...)
	return problems
}

func (in *Spec) checkContainers(at *field.Path) (problems field.ErrorList) {
	seen := map[string]bool{}
	for _, list := range []struct {
		at         *field.Path
		containers []corev1.Container
	}{{at.Child("containers"), in.Containers}, {at.Child("initContainers"), in.InitContainers}} {
		for i, c := range list.containers {
			problems = append(problems, check.LabelName(c.Name, list.at.Index(i).Child("name"))...)
			problems = append(problems, checkTexts(&c, list.at.Index(i))...)
			problems = append(problems, in.checkWindows(c.SecurityContext, list.at.Index(i).Child("securityContext"))...)
			if seen[c.Name] {
				problems = append(problems, field.Duplicate(list.at.Index(i).Child("name"), c.Name))
			}
			seen[c.Name] = true
		}
	}
	for i, c := range in.Containers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			problems = append(problems, field.Invalid(at.Child("containers").Index(i).Child("restartPolicy"), *c.RestartPolicy,
				"a native sidecar is an init container: move it to initContainers"))
		}
	}
	problems = append(problems, in.Position.check(at.Child("position"))...)
	return append(problems, in.InitPosition.check(at.Child("initPosition"))...)
}

// checkWindows checks the security context of a container that goes into pods for Windows.
func (in *Spec) checkWindows(context *corev1.SecurityContext, at *field.Path) field.ErrorList {
	if in.OS == "" || in.OS == linux || context == nil {
		return nil
	}
	if *context != (corev1.SecurityContext{RunAsNonRoot: context.RunAsNonRoot, WindowsOptions: context.WindowsOptions}) {
		return field.ErrorList{field.Forbidden(at,
			"in pods for Windows it may have only runAsNonRoot and windowsOptions; remove its other fields, or write os: linux")}
	}
	return nil
}

// checkTexts checks the placeholders of a container.
func checkTexts(c *corev1.Container, at *field.Path) (problems field.ErrorList) {
	rest := c.DeepCopy()
	for path, text := range texts(rest, at) {
		problems = append(problems, checkPlaceholders(*text, path)...)
		*text = ""
	}
	return append(problems, checkNoPlaceholder(rest, at)...)
}

// checkParts checks what an injection adds besides containers. Like that of containers, the check leaves to an API server what is not
// of usher: see trial.
func (in *Spec) checkParts(at *field.Path) (problems field.ErrorList) {
	problems = check.Named(in.Volumes, at.Child("volumes"), func(v *corev1.Volume) string { return v.Name },
		func(v *corev1.Volume, at *field.Path) field.ErrorList {
			return check.LabelName(v.Name, at.Child("name"))
		})
	for i, v := range in.Volumes {
		problems = append(problems, checkNoPlaceholder(v, at.Child("volumes").Index(i))...)
	}
	problems = append(problems, check.Named(in.ImagePullSecrets, at.Child("imagePullSecrets"),
		func(s *corev1.LocalObjectReference) string { return s.Name },
		func(s *corev1.LocalObjectReference, at *field.Path) field.ErrorList {
			return check.ObjectName(s.Name, at.Child("name"))
		})...)
	problems = append(problems, check.Named(in.Env, at.Child("env"), func(v *corev1.EnvVar) string { return v.Name },
		func(*corev1.EnvVar, *field.Path) field.ErrorList { return nil })...)
	env := corev1.Container{Env: in.Env}
	for path, text := range texts(&env, at) {
		problems = append(problems, checkPlaceholders(*text, path)...)
	}
	for i, m := range in.VolumeMounts {
		if slices.ContainsFunc(in.VolumeMounts[:i], func(other corev1.VolumeMount) bool { return other.MountPath == m.MountPath }) {
			problems = append(problems, field.Duplicate(at.Child("volumeMounts").Index(i).Child("mountPath"), m.MountPath))
		}
	}
	return append(problems, checkNoPlaceholder(in.VolumeMounts, at.Child("volumeMounts"))...)
}

func checkPlaceholders(text string, at *field.Path) field.ErrorList {
	if _, err := ParseText(text); err != nil {
		return field.ErrorList{field.Invalid(at, text, err.Error())}
	}
	return nil
}

// checkNoPlaceholder returns a problem if a placeholder is where none is read.
func checkNoPlaceholder(part any, at *field.Path) field.ErrorList {
	if raw, err := json.Marshal(part); err == nil && strings.Contains(string(raw), placeholderStart) {
		return field.ErrorList{field.Forbidden(at, "placeholders are read only in command, args and the values of env")}
	}
	return nil
}

// texts returns the texts of a container in which placeholders are read, to read and to write, with their paths.
func texts(c *corev1.Container, at *field.Path) iter.Seq2[*field.Path, *string] {
	return func(yield func(*field.Path, *string) bool) {
		for i := range c.Command {
			if !yield(at.Child("command").Index(i), &c.Command[i]) {
				return
			}
		}
		for i := range c.Args {
			if !yield(at.Child("args").Index(i), &c.Args[i]) {
				return
			}
		}
		for i := range c.Env {
			if !yield(at.Child("env").Index(i).Child("value"), &c.Env[i].Value) {
				return
			}
		}
	}
}
