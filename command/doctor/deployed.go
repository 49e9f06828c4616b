package doctor

import (
	"context"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/cluster/reader"
)

// Deployed is how usher is run in a cluster: what its Deployment says.
type Deployed struct {
	Args []string
	// Policy is the content of its policy file; nil if it has none, or if it does not come from a ConfigMap.
	Policy []byte
	// Err is why that is not known. reader.ErrNotFound: usher is run in another way.
	Err error
}

// FindDeployed reads the Deployment of usher, which has the name of its Service, and its policy.
func FindDeployed(ctx context.Context, source reader.Source, namespace, name string) (d Deployed) {
	deployment, err := reader.One[appsv1.Deployment](source.Get(ctx, reader.NewKind("apps", "v1", "Deployment", "deployments"), namespace, name))
	if err != nil {
		return Deployed{Err: err}
	}
	for _, c := range deployment.Spec.Template.Spec.Containers {
		if !slices.Contains(c.Args, "serve") {
			continue
		}
		d.Args = c.Args
		if file := d.Flag("config"); file != "" {
			d.Policy, d.Err = mountedFile(ctx, source, namespace, deployment.Spec.Template.Spec, c, file)
		}
	}
	return d
}

// Flag returns the value of a flag, or "".
func (d Deployed) Flag(name string) string {
	for i, arg := range d.Args {
		if value, is := strings.CutPrefix(arg, "--"+name+"="); is {
			return value
		}
		if arg == "--"+name && i+1 < len(d.Args) {
			return d.Args[i+1]
		}
	}
	return ""
}

// mountedFile returns the content of a file of a container that comes from a ConfigMap.
func mountedFile(ctx context.Context, source reader.Source, namespace string, pod corev1.PodSpec, c corev1.Container,
	file string) ([]byte, error) {
	for _, mount := range c.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name && v.ConfigMap != nil })
		if i < 0 || path.Clean(mount.MountPath) != path.Dir(file) {
			continue
		}
		from, err := reader.One[corev1.ConfigMap](source.Get(ctx, reader.NewKind("", "v1", "ConfigMap", "configmaps"), namespace,
			pod.Volumes[i].ConfigMap.Name))
		if err != nil {
			return nil, err
		}
		if text, has := from.Data[path.Base(file)]; has {
			return []byte(text), nil
		}
	}
	return nil, nil
}
