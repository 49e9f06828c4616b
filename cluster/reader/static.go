package reader

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/cluster/manifest"
)

// staticSuffix ends the names of what an API server reads from its files. The API accepts no such name.
const staticSuffix = ".static.k8s.io"

// WithStatic returns a source that also lists the webhook configurations of directories of an API server, each the
// staticManifestsDir of an admission plug-in. The API shows none of them. What an API server would refuse is an error.
func (s Source) WithStatic(directories ...string) (Source, error) {
	var wrong []error
	s.withStatic = len(directories) > 0
	for _, dir := range directories {
		objects, err := manifest.ReadDir(dir)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--static-dir %s: %w", dir, err))
			continue
		}
		for _, o := range objects {
			o.File = filepath.Join(dir, o.File)
			if err := checkStatic(o, s.onDisk); err != nil {
				wrong = append(wrong, fmt.Errorf("--static-dir: %s: %w", o.Place, err))
				continue
			}
			s.onDisk = append(s.onDisk[:len(s.onDisk):len(s.onDisk)], o)
		}
	}
	return s, errors.Join(wrong...)
}

// HasStatic reports whether directories of an API server were given.
func (s Source) HasStatic() bool { return s.withStatic }

// StaticFile returns the file that has a configuration, or "" if none has.
func (s Source) StaticFile(kind, name string) string {
	for _, o := range s.onDisk {
		if o.Kind == kind && nameOf(o).Name == name {
			return o.File
		}
	}
	return ""
}

// checkStatic returns why an API server would not start with an object in its files.
func checkStatic(o manifest.Object, before []manifest.Object) error {
	kinds := []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
	name := nameOf(o).Name
	switch {
	case o.GroupVersionKind().Group != registration.GroupName || !slices.Contains(kinds, o.Kind):
		return fmt.Errorf("%s %s: an API server reads only webhook configurations from the staticManifestsDir of a webhook plug-in; "+
			"pass the directories of MutatingAdmissionWebhook and ValidatingAdmissionWebhook", o.Kind, name)
	case !strings.HasSuffix(name, staticSuffix):
		return fmt.Errorf("%s metadata.name %s: must end in %s, or the API server does not start with this file", o.Kind, name, staticSuffix)
	case slices.ContainsFunc(before, func(other manifest.Object) bool { return other.Kind == o.Kind && nameOf(other).Name == name }):
		return fmt.Errorf("%s metadata.name %s: is in two files, and the API server does not start with both; remove one", o.Kind, name)
	}
	var c registration.ValidatingWebhookConfiguration // the other kind has the same fields, and one more
	if err := json.Unmarshal(o.JSON, &c); err != nil {
		return fmt.Errorf("%s %s: %w", o.Kind, name, err)
	}
	for i, w := range c.Webhooks {
		if w.ClientConfig.URL == nil || w.ClientConfig.Service != nil {
			return fmt.Errorf("%s %s: webhooks[%d].clientConfig: must have a url and no service, or the API server does not start with this file",
				o.Kind, name, i)
		}
	}
	return nil
}
