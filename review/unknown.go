package review

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/api"
)

// Types makes a typed object for each kind that a route is for.
var Types = map[metav1.GroupVersionKind]func() any{
	{Version: "v1", Kind: "Pod"}:                              func() any { return &corev1.Pod{} },
	{Version: "v1", Kind: "Node"}:                             func() any { return &corev1.Node{} },
	{Version: "v1", Kind: "Binding"}:                          func() any { return &corev1.Binding{} },
	{Version: "v1", Kind: "ConfigMap"}:                        func() any { return &corev1.ConfigMap{} },
	metav1.GroupVersionKind(api.ReservationKind):              func() any { return &api.Reservation{} },
	metav1.GroupVersionKind(api.ElasticQuotaKind):             func() any { return &api.ElasticQuota{} },
	metav1.GroupVersionKind(api.ClusterColocationProfileKind): func() any { return &api.ClusterColocationProfile{} },
}

// warnUnknown warns of fields that a patch added and the type does not know: the API server drops them without a word.
func (r *Report) warnUnknown(kind metav1.GroupVersionKind) {
	make, ok := Types[kind]
	if !ok || len(r.Calls) == 0 {
		return
	}
	had := strings.Join(unknown(r.Before, make()), "\n")
	last := &r.Calls[len(r.Calls)-1]
	for _, field := range unknown(r.After, make()) {
		if !strings.Contains(had, field) {
			last.Warnings = append(last.Warnings, fmt.Sprintf("the result has an %s: the API server drops it silently", field))
		}
	}
}

// unknown lists the fields that a type does not know.
func unknown(raw []byte, into any) (fields []string) {
	problems, err := kjson.UnmarshalStrict(raw, into, kjson.DisallowUnknownFields)
	if err != nil {
		return nil
	}
	for _, p := range problems {
		fields = append(fields, p.Error())
	}
	return fields
}
