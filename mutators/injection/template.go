package injection

import (
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// Template is a container of the policy, which may have placeholders.
type Template struct {
	container corev1.Container
	texts     []Text // from the function texts, in order; nil if no text has a placeholder
}

func templates(containers []corev1.Container) []Template {
	all := make([]Template, len(containers))
	for i, c := range containers {
		all[i] = newTemplate(c)
	}
	return all
}

func newTemplate(c corev1.Container) Template {
	t := Template{container: c}
	constant := true
	for _, text := range texts(&c, nil) {
		parsed, err := ParseText(*text)
		if err != nil {
			panic("injection: a policy that was not checked: " + err.Error())
		}
		t.texts = append(t.texts, parsed)
		constant = constant && parsed.Constant()
	}
	if constant {
		t.texts = nil
	}
	return t
}

// Name returns the container's name.
func (t *Template) Name() string { return t.container.Name }

// Image returns the container's image.
func (t *Template) Image() string { return t.container.Image }

// Native reports whether the container is a native sidecar, if it is an init container.
func (t *Template) Native() bool {
	return t.container.RestartPolicy != nil && *t.container.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Fill returns the container with its placeholders replaced by values of the pod. The result must not be changed. An
// error is the user's: a value that must not be in a command.
func (t *Template) Fill(req *admit.Request, pod *admit.Pod) (corev1.Container, error) {
	if t.texts == nil {
		return t.container, nil
	}
	filled, i := *t.container.DeepCopy(), 0
	for _, text := range texts(&filled, nil) {
		value, err := t.texts[i].Expand(func(p Placeholder) (string, error) { return valueOf(p, req, pod) })
		if err != nil {
			return corev1.Container{}, err
		}
		*text, i = value, i+1
	}
	return filled, nil
}

// plain matches the values that may be inserted: valid names and label values. A mutating webhook sees an object that
// is not validated yet, and the name of an owner never is, so a value could bring a shell's characters or a reference of
// Kubernetes into a command, which sees the variables of the sidecar.
var plain = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]{0,252})?$`)

// valueOf returns the value of a placeholder; empty for an owner or a label that the pod does not have.
func valueOf(p Placeholder, req *admit.Request, pod *admit.Pod) (string, error) {
	value, at := found(p, req, pod)
	if !plain.MatchString(value) {
		return "", field.Invalid(at, value,
			"is inserted into a sidecar: use at most 253 letters, digits, '-', '_' and '.', with a letter or a digit first")
	}
	return value, nil
}

// found returns the value of a placeholder and its field path.
func found(p Placeholder, req *admit.Request, pod *admit.Pod) (string, *field.Path) {
	if key, ok := p.Label(); ok {
		return pod.Label(key), admit.LabelPath(key)
	}
	switch p {
	case NamespacePlaceholder:
		return req.Namespace, admit.NamespacePath
	case OwnerPlaceholder:
		owner, _ := pod.Controller()
		return owner.Name, admit.OwnersPath
	}
	if name := pod.Name(); name != "" {
		return name, admit.NamePath
	}
	return pod.GenerateName(), admit.GenerateNamePath
}
