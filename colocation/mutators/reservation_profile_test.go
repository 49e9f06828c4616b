package mutators

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/views"
)

// baseReservation comes from the reference's tests: its namespace is the namespace of its only owner.
const baseReservation = `{"metadata":{"name":"r","labels":{"koordinator-colocation-reservation":"true"}},"spec":{"ttl":"24h","allocateOnce":true,
	"owners":[{"object":{"kind":"Pod","namespace":"colocation","name":"p"}}],
	"template":{"metadata":{"labels":{"in":"template"}},"spec":{"schedulerName":"old","priority":1,"preemptionPolicy":"Never",
	"containers":[{"name":"c","future":1,"resources":{"limits":{"cpu":"1","memory":"4Gi"},"requests":{"cpu":"1","memory":"4Gi"}}}],"overhead":{"cpu":"500m"}}}}}`

const reservationProfileText = `
metadata: {name: profile}
spec:
  selector: {matchLabels: {koordinator-colocation-reservation: "true"}}
  labels: {testLabelA: valueA}
  annotations: {testAnnotationA: valueA}
  schedulerName: koordinator-scheduler
  qosClass: LS
  priorityClassName: koordinator-prod
  koordinatorPriority: 1111
  patch: {metadata: {labels: {test-patch-label: patch-a}, annotations: {test-patch-annotation: patch-b}}}
`

// tellReservation describes what profiles change of a reservation.
func tellReservation(raw []byte) string {
	var r api.Reservation
	if err := json.Unmarshal(raw, &r); err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("reservation: %s; %s\n", tellMap(r.Labels), tellMap(r.Annotations))
	if r.Spec.Template == nil {
		return text + "no template\n"
	}
	pod, _ := json.Marshal(r.Spec.Template)
	return text + tell(pod)
}

const (
	reservationInjected = `reservation: koordinator-colocation-reservation=true koordinator.sh/priority=1111 koordinator.sh/qosClass=LS testLabelA=valueA; testAnnotationA=valueA
labels: in=template test-patch-label=patch-a
annotations: test-patch-annotation=patch-b
scheduler: koordinator-scheduler, class: koordinator-prod 9500 Never
`
	reservationNative = `c limits: cpu=1 memory=4Gi, requests: cpu=1 memory=4Gi
overhead: cpu=500m
`
	reservationUntouched = `reservation: koordinator-colocation-reservation=true; 
labels: in=template
annotations: 
scheduler: old, class:  1 Never
`
	reservationBatch = `c limits: batch-cpu=1k batch-memory=4Gi, requests: batch-cpu=1k batch-memory=4Gi
overhead: cpu=500m
`
)

func TestReservationProfile(t *testing.T) {
	base, namespaces := reservationProfileText, `  namespaceSelector: {matchLabels: {enable-koordinator-colocation: "true"}}`
	unlabelled := with(t, baseReservation, `"labels":{"koordinator-colocation-reservation":"true"}`, `"x":1`)
	anybody := with(t, baseReservation, `{"object":{"kind":"Pod","namespace":"colocation","name":"p"}}`, `{"labelSelector":{"matchLabels":{"a":"b"}}}`)
	controller := with(t, baseReservation, `{"object":{"kind":"Pod","namespace":"colocation","name":"p"}}`, `{"controller":{"kind":"Job","name":"j","namespace":"colocation"}}`)
	two := with(t, baseReservation, `"name":"p"}}`, `"name":"p"}},{"object":{"namespace":"other"}}`)
	oneAnybody := with(t, baseReservation, `"name":"p"}}`, `"name":"p"}},{"labelSelector":{}}`)
	batchText := with(t, base, "qosClass: LS", "qosClass: BE", "koordinator-prod", "koord-batch")
	asBatch := with(t, reservationInjected, "qosClass=LS", "qosClass=BE", "koordinator-prod 9500 Never", "koord-batch 5000 PreemptLowerPriority")
	cases := []struct{ name, profile, raw, want string }{
		{"selector matches", base, baseReservation, reservationInjected + reservationNative},
		{"selector does not match", with(t, base, `"true"`, `"no"`), baseReservation, reservationUntouched + reservationNative},
		{"empty selector, no labels", with(t, base, `{matchLabels: {koordinator-colocation-reservation: "true"}}`, "{}"), unlabelled,
			with(t, reservationInjected, "koordinator-colocation-reservation=true ", "") + reservationNative},
		{"probability 100", spec(base, "  probability: 100%"), baseReservation, reservationInjected + reservationNative},
		{"probability 0", spec(base, "  probability: 0%"), baseReservation, reservationUntouched + reservationNative},
		{"mappings and suffixes", spec(base, "  labelKeysMapping: {koordinator-colocation-reservation: mapped, absent: a}\n"+
			"  annotationKeysMapping: {testAnnotationA: to}\n  labelSuffixes: {mapped: -x, testLabelA: -x, in: -x}"), baseReservation,
			with(t, reservationInjected, "testLabelA=valueA;", "mapped=true-x testLabelA=valueA-x;", "testAnnotationA=valueA", "testAnnotationA=valueA to=valueA") + reservationNative},
		{"translated in the template", batchText, baseReservation, asBatch + reservationBatch},
		{"skip-update-resources", with(t, batchText, "{name: profile}", "{name: profile, annotations: {"+api.AnnotationSkipUpdateResources+": ''}}"), baseReservation, asBatch + reservationNative},
		{"patch of a container", "metadata: {name: a}\nspec: {patch: {spec: {containers: [{name: c, resources: {limits: {cpu: 2}}}], schedulerName: patched}}}", baseReservation,
			with(t, reservationUntouched, "scheduler: old", "scheduler: patched") + with(t, reservationNative, "limits: cpu=1", "limits: cpu=2")},
		{"owner's namespace", spec(base, namespaces), baseReservation, reservationInjected + reservationNative},
		{"controller's namespace", spec(base, namespaces), controller, reservationInjected + reservationNative},
		{"owners of any namespace", spec(base, namespaces), anybody, reservationUntouched + reservationNative},
		{"one owner of any namespace", spec(base, namespaces), oneAnybody, reservationUntouched + reservationNative},
		{"owners of two namespaces", spec(base, namespaces), two, reservationUntouched + reservationNative},
		{"namespace that nobody knows", spec(base, namespaces), with(t, baseReservation, `"namespace":"colocation"`, `"namespace":"nowhere"`), reservationUntouched + reservationNative},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			after := reserve(t, c.profile, c.raw)
			if diff := cmp.Diff(c.want, tellReservation(after)); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(c.raw, "future") && !strings.Contains(string(after), `"future"`) {
				t.Errorf("the unknown field is lost: %s", after)
			}
		})
	}
}

// reserve runs the step twice.
func reserve(t *testing.T, profileText, raw string) []byte {
	t.Helper()
	step := reservationProfile(colocationOf(t, profileText), false)
	after, _, err := runOnce(t, step, views.AsReservation, raw)
	if err != nil {
		t.Fatal(err)
	}
	if again, _, err := runOnce(t, step, views.AsReservation, string(after)); err != nil || string(again) != string(after) {
		t.Errorf("the second run gives %v\n%s\nand not\n%s", err, again, after)
	}
	return after
}

// TestReservationDefaults: the defaults of the CRD are set, with or without a profile, in the CRD's encoding.
func TestReservationDefaults(t *testing.T) {
	none := "metadata: {name: a}\nspec: {selector: {matchLabels: {x: y}}}"
	for raw, want := range map[string]string{
		`{"spec":{"owners":[]}}`:                            `{"spec":{"owners":[],"ttl":"24h","allocateOnce":true}}`,
		`{"spec":{"ttl":null,"allocateOnce":false}}`:        `{"spec":{"ttl":"24h","allocateOnce":false}}`,
		`{"spec":{"ttl":"0s","allocateOnce":null,"x":"y"}}`: `{"spec":{"ttl":"0s","allocateOnce":true,"x":"y"}}`,
		`{}`: `{"spec":{"ttl":"24h","allocateOnce":true}}`,
	} {
		var got, wanted any
		if json.Unmarshal(reserve(t, none, raw), &got) != nil || json.Unmarshal([]byte(want), &wanted) != nil {
			t.Fatal(raw)
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s:\n%s", raw, diff)
		}
	}
}

// TestReservationWithoutTemplate: the class is not even looked up, and no template is added.
func TestReservationWithoutTemplate(t *testing.T) {
	profile := "metadata: {name: a}\nspec: {qosClass: BE, priorityClassName: absent, schedulerName: s, patch: {spec: {priority: 5}}}"
	for _, raw := range []string{`{"metadata":{}}`, `{"spec":{"template":null}}`} {
		if got := tellReservation(reserve(t, profile, raw)); got != "reservation: koordinator.sh/qosClass=BE; \nno template\n" {
			t.Errorf("%s: %s", raw, got)
		}
	}
	_, _, err := runOnce(t, reservationProfile(colocationOf(t, profile), false), views.AsReservation, baseReservation)
	if err == nil || !strings.HasPrefix(err.Error(), `spec.template.spec.priorityClassName: Invalid value: "absent": colocation profile a`) {
		t.Error(err)
	}
	after, _, err := runOnce(t, reservationProfile(colocationOf(t, "metadata: {name: a}\nspec: {qosClass: BE}"), true), views.AsReservation,
		with(t, baseReservation, `"priority":1,`, ""))
	if err != nil || !strings.HasSuffix(tellReservation(after), reservationNative) {
		t.Errorf("gate: %v %s", err, tellReservation(after))
	}
}
