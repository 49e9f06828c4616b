package explain

import (
	"encoding/json"
	"testing"
)

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
			var i installation
			text := `{"spec":{"template":{"spec":{"containers":[{"args":["other"]},{` + c.container + `}],"volumes":[{"name":"p",` + c.volume + `}]}}}}`
			if err := json.Unmarshal([]byte(text), &i); err != nil {
				t.Fatal(err)
			}
			file, container := i.flag("--config")
			name, key := i.configMap(file, container)
			gates, _ := i.flag("--feature-gates")
			if container != 1 || name != c.configMap || key != c.key || gates != c.gates {
				t.Errorf("container %d: %s %s %s", container, name, key, gates)
			}
		})
	}
}

// TestMissing: how many pods a workload lacks.
func TestMissing(t *testing.T) {
	for _, c := range []struct {
		kind, text string
		want       int
	}{
		{"Deployment", `{"spec":{"replicas":3},"status":{"replicas":1}}`, 2},
		{"Deployment", `{"spec":{},"status":{}}`, 1},
		{"ReplicaSet", `{"spec":{"replicas":0}}`, 0},
		{"ReplicaSet", `{"spec":{"replicas":1},"status":{"replicas":2}}`, 0},
		{"DaemonSet", `{"status":{"desiredNumberScheduled":4,"currentNumberScheduled":1}}`, 3},
		{"Job", `{"status":{"active":1}}`, 0},
		{"Job", `{"status":{}}`, 1},
	} {
		o, err := newObject(kind("", "v1", c.kind, ""), []byte(c.text))
		if got := o.missing(); err != nil || got != c.want {
			t.Errorf("%s %s: %d, want %d (%v)", c.kind, c.text, got, c.want, err)
		}
	}
}

func TestWithoutSuffix(t *testing.T) {
	for in, want := range map[string]string{"web-5d8c7-4wl7r": "web-5d8c7", "web-0": "web", "web": "", "": ""} {
		if got := withoutSuffix(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
