package nearest

import "testing"

func TestOf(t *testing.T) {
	known := []string{"Pod", "Deployment", "DaemonSet", "StatefulSet", "ReplicaSet"}
	for _, c := range []struct{ name, want string }{
		{"pod", "Pod"},
		{"Pods", "Pod"},
		{"Deploymnet", "Deployment"},
		{"deployment", "Deployment"},
		{"Statefullset", "StatefulSet"},
		{"Service", ""},
		{"Replicaset", "ReplicaSet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Of(c.name, known); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := Of("x", nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}
