package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	slashpath "path"
	"strings"

	"usher.dev/usher/cluster/reader"
)

// installation is what is read of the Deployment of an installed usher.
type installation struct {
	Spec struct {
		Template struct {
			Spec struct {
				Containers []struct {
					Args, Command []string
					VolumeMounts  []struct{ Name, MountPath, SubPath string }
				}
				Volumes []struct {
					Name      string
					ConfigMap *struct {
						Name  string
						Items []struct{ Key, Path string }
					}
				}
			}
		}
	}
}

// flag returns the value of a flag of the first container that has it.
func (i *installation) flag(name string) (value string, container int) {
	for n, c := range i.Spec.Template.Spec.Containers {
		arguments := append(c.Command[:len(c.Command):len(c.Command)], c.Args...)
		for k, argument := range arguments {
			if argument == name && k+1 < len(arguments) {
				return arguments[k+1], n
			}
			if value, found := strings.CutPrefix(argument, name+"="); found {
				return value, n
			}
		}
	}
	return "", -1
}

// configMap returns the ConfigMap and the key that a file of a container is from.
func (i *installation) configMap(file string, container int) (name, key string) {
	spec := i.Spec.Template.Spec
	for _, mount := range spec.Containers[container].VolumeMounts {
		within, found := strings.CutPrefix(file, strings.TrimSuffix(mount.MountPath, "/")+"/")
		if file == mount.MountPath && mount.SubPath != "" {
			within, found = mount.SubPath, true
		}
		for _, v := range spec.Volumes {
			if !found || v.Name != mount.Name || v.ConfigMap == nil {
				continue
			}
			for _, item := range v.ConfigMap.Items {
				if item.Path == within {
					return v.ConfigMap.Name, item.Key
				}
			}
			return v.ConfigMap.Name, slashpath.Clean(within)
		}
	}
	return "", ""
}

// Installed is how an installed usher is run.
type Installed struct {
	Gates string // the value of its flag --feature-gates
	// Name and Text are those of its policy file; both are empty for the embedded policy.
	Name string
	Text []byte
}

// FindInstalled reads the policy of an installed usher, from the ConfigMap that its Deployment mounts, and its feature
// gates. service is the Service, which has the name of the Deployment.
func FindInstalled(ctx context.Context, source reader.Source, service string) (found Installed, err error) {
	namespace, name, ok := strings.Cut(service, "/")
	if !ok {
		return found, fmt.Errorf("--service %s: must be namespace/name", service)
	}
	raw, err := source.Get(ctx, kind("apps", "v1", "Deployment", "deployments"), namespace, name)
	if err != nil {
		return found, err
	}
	var i installation
	if err := json.Unmarshal(raw, &i); err != nil {
		return found, fmt.Errorf("deployment %s cannot be read", service)
	}
	found.Gates, _ = i.flag("--feature-gates")
	file, container := i.flag("--config")
	if file == "" {
		return found, nil
	}
	configMap, key := i.configMap(file, container)
	if configMap == "" {
		return found, errors.New("the Deployment's --config is not of a ConfigMap")
	}
	if raw, err = source.Get(ctx, kind("", "v1", "ConfigMap", "configmaps"), namespace, configMap); err != nil {
		return found, err
	}
	var data struct{ Data map[string]string }
	if err := json.Unmarshal(raw, &data); err != nil {
		return found, fmt.Errorf("configmap %s cannot be read", configMap)
	}
	found.Name, found.Text = fmt.Sprintf("ConfigMap %s/%s, %s", namespace, configMap, key), []byte(data.Data[key])
	return found, nil
}
