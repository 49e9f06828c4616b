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

// TestSlip: one slip of the finger, and no more.
func TestSlip(t *testing.T) {
	for name, want := range map[string]bool{
		"admission-webhok": true, "admission-webhookk": true, "admission-webhoox": true, "admission-wehbook": true, "Admission-Webhook": true, "admission-webhoko": true,
		"admission-webhook": false, "admission-webho": false, "admission": false, "": false, "damission-wehbook": false, "kadmission-webhoo": false,
	} {
		if got := Slip(name, "admission-webhook"); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
