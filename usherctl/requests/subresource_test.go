package requests

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestSubresourcesOfOthers: a kind of another API may have any subresource, unless it is an obvious slip of one that all kinds may have.
func TestSubresourcesOfOthers(t *testing.T) {
	for _, group := range []string{"subresources.kubevirt.io", "sparkoperator.k8s.io"} {
		for sub, right := range map[string]bool{
			"": true, "status": true, "scale": true, "state": true, "stats": true, "pause": true, "binding": true, "logs": true, "tokens": true,
			"statsu": false, "Status": false, "statuss": false, "sclae": false,
		} {
			if err := CheckSubresource(sub, schema.GroupKind{Group: group, Kind: "VirtualMachineInstance"}, nil); (err == nil) != right {
				t.Errorf("%s of %s: %v", sub, group, err)
			}
		}
	}
	of := []schema.GroupKind{{Kind: "Pod"}, {Group: "apps", Kind: "Deployment"}, {Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}}
	for _, kind := range of {
		for sub, right := range map[string]bool{"status": true, "stats": false, "pause": false, "approval": true} {
			if err := CheckSubresource(sub, kind, nil); (err == nil) != right {
				t.Errorf("%s of %s: %v", sub, kind, err)
			}
		}
	}
}
