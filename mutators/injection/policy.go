package injection

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/check"
)

// Sidecars is the policy on sidecar injection. The injections are applied in order.
type Sidecars []Spec

// Spec is an injection as the policy has it: what new pods get, unless they have it already.
type Spec struct {
	// Name is shown in warnings and refusals.
	Name string `json:"name"`
	// Selection selects the pods.
	config.Selection `json:",inline"`
	// OptOutAnnotation is the key of the annotation by which a pod is left out, with the value "true". Empty: pods
	// cannot opt out.
	OptOutAnnotation string `json:"optOutAnnotation,omitempty"`
	// InitContainers are added to the pod's init containers. Those with restartPolicy Always are native sidecars.
	InitContainers []corev1.Container `json:"initContainers,omitempty"`
	// InitPosition is where init containers are inserted. Default: first, because a native sidecar only serves the init
	// containers after it.
	InitPosition Position `json:"initPosition"`
	// Containers are added to the pod's containers.
	Containers []corev1.Container `json:"containers,omitempty"`
	// Position is where containers are inserted. Default: last, because the first container is the one that kubectl logs and
	// kubectl exec take by default.
	Position Position `json:"position"`
	// Volumes are added to the pod's volumes.
	Volumes []corev1.Volume `json:"volumes,omitempty"`
	// ImagePullSecrets are added to the pod's. The secrets must be in the pod's namespace.
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// Env is set in every container and init container that is not itself injected.
	Env []corev1.EnvVar `json:"env,omitempty"`
	// VolumeMounts are added to the same containers.
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`
}

// Section is the section sidecars.
var Section = config.Section[Sidecars]{Name: "sidecars", Check: Sidecars.check}

// check returns all problems of the section.
func (s Sidecars) check(at *field.Path) (problems field.ErrorList) {
	problems = check.Named(s, at, func(e *Spec) string { return e.Name }, (*Spec).check)
	containers := 0
	for _, injection := range s {
		containers += len(injection.Containers) + len(injection.InitContainers)
	}
	if containers > admit.MaxContainers {
		problems = append(problems, &field.Error{Type: field.ErrorTypeTooMany, Field: at.String(), BadValue: containers,
			Detail: fmt.Sprintf("a pod may have at most %d containers", admit.MaxContainers)})
	}
	return problems
}

// check returns all problems of the injection.
func (in *Spec) check(at *field.Path) (problems field.ErrorList) {
	problems = append(problems, check.LabelName(in.Name, at.Child("name"))...)
	problems = append(problems, in.Selection.Check(at)...)
	if in.OptOutAnnotation != "" {
		for _, problem := range validation.IsQualifiedName(in.OptOutAnnotation) {
			problems = append(problems, field.Invalid(at.Child("optOutAnnotation"), in.OptOutAnnotation, problem))
		}
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
			problems = append(problems, checkContainer(&c, list.at.Index(i))...)
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

// checkContainer checks what the API server would refuse in every pod, as far as it is likely to be wrong.
func checkContainer(c *corev1.Container, at *field.Path) (problems field.ErrorList) {
	problems = append(problems, check.LabelName(c.Name, at.Child("name"))...)
	if strings.TrimSpace(c.Image) == "" {
		problems = append(problems, field.Required(at.Child("image"), "such as registry.example.com/team/proxy:1.2"))
	}
	problems = append(problems, checkVariables(c.Env, at.Child("env"))...)
	problems = append(problems, checkMounts(c.VolumeMounts, at.Child("volumeMounts"))...)
	rest := c.DeepCopy()
	for path, text := range texts(rest, at) {
		problems = append(problems, checkPlaceholders(*text, path)...)
		*text = ""
	}
	return append(problems, checkNoPlaceholder(rest, at)...)
}

// checkParts checks what an injection adds besides containers.
func (in *Spec) checkParts(at *field.Path) (problems field.ErrorList) {
	volumes, secrets := map[string]bool{}, map[string]bool{}
	for i, v := range in.Volumes {
		path := at.Child("volumes").Index(i)
		problems = append(problems, check.LabelName(v.Name, path.Child("name"))...)
		problems = append(problems, checkNoPlaceholder(v, path)...)
		if volumes[v.Name] {
			problems = append(problems, field.Duplicate(path.Child("name"), v.Name))
		}
		volumes[v.Name] = true
	}
	for i, s := range in.ImagePullSecrets {
		path := at.Child("imagePullSecrets").Index(i).Child("name")
		for _, problem := range validation.IsDNS1123Subdomain(s.Name) {
			problems = append(problems, field.Invalid(path, s.Name, problem))
		}
		if secrets[s.Name] {
			problems = append(problems, field.Duplicate(path, s.Name))
		}
		secrets[s.Name] = true
	}
	problems = append(problems, checkVariables(in.Env, at.Child("env"))...)
	env := corev1.Container{Env: in.Env}
	for path, text := range texts(&env, at) {
		problems = append(problems, checkPlaceholders(*text, path)...)
	}
	problems = append(problems, checkMounts(in.VolumeMounts, at.Child("volumeMounts"))...)
	return append(problems, checkNoPlaceholder(in.VolumeMounts, at.Child("volumeMounts"))...)
}

func checkVariables(env []corev1.EnvVar, at *field.Path) (problems field.ErrorList) {
	seen := map[string]bool{}
	for i, v := range env {
		for _, problem := range validation.IsEnvVarName(v.Name) {
			problems = append(problems, field.Invalid(at.Index(i).Child("name"), v.Name, problem))
		}
		if seen[v.Name] {
			problems = append(problems, field.Duplicate(at.Index(i).Child("name"), v.Name))
		}
		if v.Value != "" && v.ValueFrom != nil {
			problems = append(problems, field.Invalid(at.Index(i).Child("valueFrom"), "{...}", "there is a value, too; write one of them"))
		}
		seen[v.Name] = true
	}
	return problems
}

func checkMounts(mounts []corev1.VolumeMount, at *field.Path) (problems field.ErrorList) {
	seen := map[string]bool{}
	for i, m := range mounts {
		problems = append(problems, check.LabelName(m.Name, at.Index(i).Child("name"))...)
		if m.MountPath == "" {
			problems = append(problems, field.Required(at.Index(i).Child("mountPath"), "the path in the container"))
		} else if seen[m.MountPath] {
			problems = append(problems, field.Duplicate(at.Index(i).Child("mountPath"), m.MountPath))
		}
		seen[m.MountPath] = true
	}
	return problems
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
