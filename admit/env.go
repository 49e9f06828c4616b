package admit

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit/document"
)

// Env is the variables that a container's env sets, by name.
type Env map[string]document.Raw

// Env returns the variables that the container's env sets.
func (c *Container) Env() Env {
	env := Env{}
	for _, v := range c.root.Get("env").RawElements() {
		if name := v.Member("name").Text(); !env[name].Exists() {
			env[name] = v
		}
	}
	return env
}

// Has reports whether a variable is set.
func (e Env) Has(name string) bool { return e[name].Exists() }

// Differs reports whether a variable of the name of want is set to something else, like Container.Differs.
func (e Env) Differs(want corev1.EnvVar) bool {
	if !e.Has(want.Name) {
		return false
	}
	own, err := document.Parse(e[want.Name].Bytes())
	if err != nil {
		return true
	}
	defer own.Release()
	return len(own.Root().Differs(want, resources)) > 0
}

// AddEnv sets those of some variables that the container's env does not set. They come first, in their order, so that the
// container's own values may refer to them; but those whose values refer to a variable of the container come last. Variables
// from envFrom are not known here: env takes precedence over them.
func (c *Container) AddEnv(all []corev1.EnvVar) {
	refers := slices.ContainsFunc(all, func(v corev1.EnvVar) bool { return strings.Contains(v.Value, "$(") })
	has, own := c.HasEnv, Env(nil)
	if refers || len(all) > 1 {
		own = c.Env()
		has = own.Has
	}
	var last []corev1.EnvVar
	for _, v := range all {
		switch {
		case has(v.Name):
		case refers && own.references(v.Value):
			own[v.Name] = document.Raw{} // what refers to it comes last, too
			last = append(last, v)
		default:
			c.insertEnv(v, true)
		}
	}
	for _, v := range last {
		c.insertEnv(v, false)
	}
}

// references reports whether Kubernetes replaces a part of a value by one of the variables.
func (e Env) references(value string) bool {
	for _, rest, _ := strings.Cut(value, "$"); rest != ""; _, rest, _ = strings.Cut(value, "$") {
		if value = rest[1:]; rest[0] != '(' {
			continue // "$$" is a dollar sign that begins no reference
		}
		name, after, closed := strings.Cut(value, ")")
		if _, known := e[name]; known && closed {
			return true
		}
		value = after
	}
	return false
}

func (c *Container) insertEnv(v corev1.EnvVar, first bool) {
	env, plain := c.root.Get("env"), v.ValueFrom == nil
	name, value := document.TextMember{Key: "name", Text: v.Name}, document.TextMember{Key: "value", Text: v.Value}
	switch {
	case plain && first:
		env.PrependTexts(name, value)
	case plain:
		env.AppendTexts(name, value)
	case first:
		env.Prepend(v)
	default:
		env.Append(v)
	}
}
