package admit

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	"usher.dev/usher/admit/document"
)

// A mirror pod is stored by the kubelet of its own node; the annotation alone does not make one.
func TestMirrorPod(t *testing.T) {
	kubelets := []string{"system:nodes", "system:authenticated"}
	const pod = `{"metadata":{"annotations":{"kubernetes.io/config.mirror":"6d0b"}},"spec":{"nodeName":"node-1"}}`
	for _, c := range []struct {
		name, user string
		groups     []string
		pod        string
		want       bool
	}{
		{"the kubelet", "system:node:node-1", kubelets, pod, true},
		{"an empty annotation", "system:node:node-1", kubelets, `{"metadata":{"annotations":{"kubernetes.io/config.mirror":""}},"spec":{"nodeName":"node-1"}}`, true},
		{"a user", "developer", []string{"system:authenticated"}, pod, false},
		{"a user in the group", "developer", kubelets, pod, false},
		{"an administrator", "admin", []string{"system:masters"}, pod, false},
		{"another kubelet", "system:node:node-2", kubelets, pod, false},
		{"the name without the group", "system:node:node-1", []string{"system:authenticated"}, pod, false},
		{"a service account", "system:serviceaccount:system:node:node-1", kubelets, pod, false},
		{"no annotation", "system:node:node-1", kubelets, `{"spec":{"nodeName":"node-1"}}`, false},
		{"no node", "system:node:", kubelets, `{"metadata":{"annotations":{"kubernetes.io/config.mirror":"6d0b"}}}`, false},
		{"a node that is no text", "system:node:7", kubelets, `{"metadata":{"annotations":{"kubernetes.io/config.mirror":"6d0b"}},"spec":{"nodeName":7}}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			object, err := document.Parse([]byte(c.pod))
			if err != nil {
				t.Fatal(err)
			}
			req := &Request{Object: object, UserInfo: authenticationv1.UserInfo{Username: c.user, Groups: c.groups}}
			if got := req.MirrorPod(); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
