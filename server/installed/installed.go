// Package installed reads how usher is run in a cluster.
package installed

import (
	"context"
	"errors"
	"fmt"
	slashpath "path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/cluster/reader"
)

// Usher describes how an installed usher is run.
type Usher struct {
	Arguments []string // of its container
	Image     string
	Idle      bool // the Deployment has no replicas
	// Name and Text are those of its policy file, which is a key of a ConfigMap; all are empty if it has none, or if it does
	// not come from a ConfigMap.
	Name           string
	ConfigMap, Key string
	Text           []byte
}

// ErrNoPolicy is returned if the ConfigMap with the policy, or its key, does not exist.
var ErrNoPolicy = errors.New("usher's Deployment mounts a policy that does not exist")

// Find reads the Deployment of usher, which has the name of its Service, and its policy from the ConfigMap that is mounted.
func Find(ctx context.Context, source reader.Source, namespace, name string) (u Usher, err error) {
	deployment, err := reader.One[appsv1.Deployment](source.Get(ctx, reader.NewKind("apps", "v1", "Deployment", "deployments"), namespace, name))
	if err != nil {
		return u, err
	}
	pod := deployment.Spec.Template.Spec
	container := containerOf(pod)
	u.Arguments, u.Image, u.Idle = argumentsOf(container), container.Image, deployment.Spec.Replicas != nil && *deployment.Spec.Replicas == 0
	u.ConfigMap, u.Key = mounted(pod, container, u.Flag("config"))
	if u.ConfigMap == "" {
		return u, nil
	}
	u.Name = fmt.Sprintf("ConfigMap %s/%s, %s", namespace, u.ConfigMap, u.Key)
	from, err := reader.One[corev1.ConfigMap](source.Get(ctx, reader.NewKind("", "v1", "ConfigMap", "configmaps"), namespace, u.ConfigMap))
	switch {
	case errors.Is(err, reader.ErrNotFound):
		return u, fmt.Errorf("%w: ConfigMap %s/%s %w", ErrNoPolicy, namespace, u.ConfigMap, reader.ErrNotFound)
	case err != nil:
		return u, err
	}
	text, has := from.Data[u.Key]
	if !has {
		return u, fmt.Errorf("%w: the ConfigMap %s/%s has no key %s", ErrNoPolicy, namespace, u.ConfigMap, u.Key)
	}
	u.Text = []byte(text)
	return u, nil
}

// containerOf returns the container that serves, or else the first with a policy or gates.
func containerOf(pod corev1.PodSpec) (found corev1.Container) {
	for _, c := range slices.Backward(pod.Containers) {
		u := Usher{Arguments: argumentsOf(c)}
		if slices.Contains(u.Arguments, "serve") {
			return c
		}
		if u.Flag("config")+u.Flag("feature-gates") != "" {
			found = c
		}
	}
	return found
}

func argumentsOf(c corev1.Container) []string { return slices.Concat(c.Command, c.Args) }

// Flag returns the value of a flag, or "".
func (u Usher) Flag(name string) string {
	for i, argument := range u.Arguments {
		if value, is := strings.CutPrefix(argument, "--"+name+"="); is {
			return value
		}
		if argument == "--"+name && i+1 < len(u.Arguments) {
			return u.Arguments[i+1]
		}
	}
	return ""
}

// mounted returns the ConfigMap and the key that a file of a container is from; "" if it is from none.
func mounted(pod corev1.PodSpec, container corev1.Container, file string) (configMap, key string) {
	for _, mount := range container.VolumeMounts {
		within, found := strings.CutPrefix(file, strings.TrimSuffix(mount.MountPath, "/")+"/")
		if file == mount.MountPath && mount.SubPath != "" {
			within, found = mount.SubPath, true
		}
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name && v.ConfigMap != nil })
		if !found || i < 0 {
			continue
		}
		from := pod.Volumes[i].ConfigMap
		for _, item := range from.Items {
			if item.Path == within {
				return from.Name, item.Key
			}
		}
		return from.Name, slashpath.Clean(within)
	}
	return "", ""
}
