package webhookmatch_test

import (
	"strings"
	"testing"

	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/usherctl/webhookmatch"
)

// TestContradiction: conditions that no value meets together are found, and none that some value meets.
func TestContradiction(t *testing.T) {
	for expressions, want := range map[string]string{
		"request.userInfo.username == 'a' ; request.userInfo.username == 'b'":                     "request.userInfo.username",
		"request.userInfo.username == 'a' ; 'a' == request.userInfo.username":                     "",
		"object.metadata.namespace == 'a' && object.metadata.namespace == 'b'":                    "object.metadata.namespace",
		"object.metadata.namespace == 'a' || object.metadata.namespace == 'b'":                    "",
		"object.kind in ['a', 'b'] ; object.kind in ['b', 'c']":                                   "",
		"object.kind in ['a', 'b'] ; object.kind in ['c', 'd']":                                   "object.kind",
		"object.kind in ['a', 'b'] ; object.kind != 'a' && !(object.kind == 'b')":                 "object.kind",
		"object.kind in ['a', 'b'] ; object.kind != 'a'":                                          "",
		"object.kind != 'a' ; object.kind != 'b'":                                                 "",
		"!(object.kind in ['a']) ; object.kind == 'a'":                                            "object.kind",
		"has(object.spec.x) ; !has(object.spec.x)":                                                "has(object.spec.x)",
		"has(object.spec.x) ; !has(object.spec.y)":                                                "",
		"!(!has(object.spec.x)) ; has(object.spec.x)":                                             "",
		"request.name.startsWith('a') ; !request.name.startsWith('a')":                            "request.name.startsWith(\"a\")",
		"request.name.startsWith('a') ; !request.name.startsWith('b')":                            "",
		"object.spec.replicas == 1 && object.spec.replicas == 1.0":                                "",
		"object.spec.hostNetwork == false ; object.spec.hostNetwork":                              "object.spec.hostNetwork",
		"'a' in request.userInfo.groups ; 'b' in request.userInfo.groups":                         "",
		"object.spec.a == object.spec.b && object.spec.a == object.spec.c":                        "",
		"object.spec.items.exists(i, i == 'a') && object.spec.items.exists(i, i=='b')":            "",
		"object.kind == 'a' ; object.":                                                            "",
		"request.name == 'a' || request.name == 'b' ; request.name == 'c'":                        "request.name",
		"object.kind == 'a' || request.name == 'x' ; object.kind == 'b'":                          "",
		"object.kind == 'a' || request.name == 'x' ; object.kind == 'b' && request.name != 'x'":   "object.kind, and about request.name",
		"object.kind == 'a' && request.name == 'x' || object.kind == 'b' ; object.kind == 'c'":    "object.kind",
		"!(object.kind == 'a' || object.kind == 'b') ; object.kind in ['a', 'b']":                 "object.kind",
		"!(object.kind == 'a' && request.name == 'x') ; object.kind == 'a' ; request.name == 'x'": "object.kind, and about request.name",
		"!(object.kind == 'a' && request.name == 'x') ; object.kind == 'a'":                       "",
		strings.Repeat("(has(object.a) || has(object.b)) && ", 40) + "has(object.c)":              "",
	} {
		var all []registration.MatchCondition
		for one := range strings.SplitSeq(expressions, ";") {
			all = append(all, registration.MatchCondition{Name: "a", Expression: one})
		}
		if got := webhookmatch.Contradiction(all); got != want {
			t.Errorf("%s: %q, want %q", expressions, got, want)
		}
	}
}
