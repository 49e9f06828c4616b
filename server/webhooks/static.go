package webhooks

import (
	"errors"
	"fmt"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
)

// File is a file for the API server's disk.
type File struct {
	Name    string // below the directory
	Purpose string
	Object  any
}

// staticSuffix ends the names of configurations that the API server reads from files. The API accepts no such name.
const staticSuffix = ".static.k8s.io"

// Static returns the files of manifest-based admission control: the API server that is started with the first of them
// calls the routes from its first request on, and the configurations cannot be changed through the API. dir is where
// the API server finds the files. It reads each kind of configuration from a directory of its own, which must not have
// others.
func Static(routes []admit.Route, at Address, dir string) ([]File, error) {
	switch {
	case at.URL == "":
		return nil, errors.New("--static: the API server calls no Service before it is up: pass --url https://host:port, and --ca-file")
	case len(at.Annotations) > 0:
		return nil, errors.New("--static: no controller fills in the caBundle of a file: pass --ca-file instead of --inject")
	case !path.IsAbs(dir):
		return nil, fmt.Errorf("--static-dir %s: must be an absolute path, as the API server wants it", dir)
	}
	at.OnDisk = true
	var files []File
	admission := admissionConfiguration{TypeMeta: metav1.TypeMeta{APIVersion: "apiserver.config.k8s.io/v1", Kind: "AdmissionConfiguration"}}
	for _, c := range needed(routes, at) {
		if len(c.Webhooks) == 0 {
			continue
		}
		c.Name += staticSuffix
		kind := strings.TrimSuffix(c.Kind, "WebhookConfiguration")
		folder := strings.ToLower(kind)
		admission.Plugins = append(admission.Plugins, admissionPlugin{kind + "AdmissionWebhook", webhookAdmission{
			metav1.TypeMeta{APIVersion: "apiserver.config.k8s.io/v1", Kind: "WebhookAdmissionConfiguration"}, path.Join(dir, folder)}})
		files = append(files, File{path.Join(folder, "usher.yaml"), "read by the API server at its start, and again when it changes", c})
	}
	first := File{"admission.yaml", "for --admission-control-config-file; " +
		"needs --feature-gates=ManifestBasedAdmissionControlConfig=true on Kubernetes 1.36", admission}
	return append([]File{first}, files...), nil
}

// admissionConfiguration is the API server's AdmissionConfiguration, as much of it as is needed here.
type admissionConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	Plugins         []admissionPlugin `json:"plugins"`
}

type admissionPlugin struct {
	Name          string           `json:"name"`
	Configuration webhookAdmission `json:"configuration"`
}

type webhookAdmission struct {
	metav1.TypeMeta    `json:",inline"`
	StaticManifestsDir string `json:"staticManifestsDir"`
}
