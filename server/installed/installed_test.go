package installed

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"usher.dev/usher/cluster/reader"
)

// TestFind: the Deployment says how usher is run, and with which policy.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	const manifest = `
apiVersion: v1
kind: ConfigMap
metadata: {name: p, namespace: door}
data: {policy.yaml: "names: {denied: [a]}"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: usher, namespace: door}
spec:
  template:
    spec:
      containers:
      - {name: other, args: [--config=no]}
      - {name: usher, args: [serve, --cluster=api, --config, /etc/usher/policy/policy.yaml], volumeMounts: [{name: policy, mountPath: /etc/usher/policy/}]}
      volumes: [{name: policy, configMap: {name: p}}]
`
	if err := os.WriteFile(dir+"/a.yaml", []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := reader.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	u, err := Find(t.Context(), source, "door", "usher")
	if err != nil || string(u.Text) != "names: {denied: [a]}" || u.Flag("cluster") != "api" || u.Flag("certs") != "" || u.Flag("config") != "/etc/usher/policy/policy.yaml" {
		t.Errorf("%+v %v", u, err)
	}
	if _, err := Find(t.Context(), source, "door", "none"); !errors.Is(err, reader.ErrNotFound) {
		t.Error(err)
	}
}

// TestInstallation: the policy and the gates of an installed usher are where its Deployment has them.
func TestInstallation(t *testing.T) {
	for _, c := range []struct {
		name, container, volume string
		configMap, key, gates   string
	}{
		{"a directory", `"args":["serve","--config=/etc/p/policy.yaml","--feature-gates","A=true"],"volumeMounts":[{"name":"p","mountPath":"/etc/p"}]`, `"configMap":{"name":"m"}`, "m", "policy.yaml", "A=true"},
		{"items", `"args":["--config","/etc/p/x.yaml"],"volumeMounts":[{"name":"p","mountPath":"/etc/p/"}]`, `"configMap":{"name":"m","items":[{"key":"k","path":"x.yaml"}]}`, "m", "k", ""},
		{"a file", `"command":["usher","--config=/etc/x.yaml"],"volumeMounts":[{"name":"p","mountPath":"/etc/x.yaml","subPath":"k"}]`, `"configMap":{"name":"m"}`, "m", "k", ""},
		{"a Secret", `"args":["--config=/etc/p/x"],"volumeMounts":[{"name":"p","mountPath":"/etc/p"}]`, `"secret":{"secretName":"m"}`, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d appsv1.Deployment
			text := `{"spec":{"template":{"spec":{"containers":[{"args":["other"]},{` + c.container + `}],"volumes":[{"name":"p",` + c.volume + `}]}}}}`
			if err := json.Unmarshal([]byte(text), &d); err != nil {
				t.Fatal(err)
			}
			container := containerOf(d.Spec.Template.Spec)
			u := Usher{Arguments: argumentsOf(container)}
			name, key := mounted(d.Spec.Template.Spec, container, u.Flag("config"))
			if name != c.configMap || key != c.key || u.Flag("feature-gates") != c.gates || u.Flag("config") == "" {
				t.Errorf("%s: %s %s", u.Arguments, name, key)
			}
		})
	}
}
