package validators

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
)

// held returns an available reservation that uses nothing of its node; lists are "cpu=4 memory=8Gi".
func held(name, allocatable, allocated string, change ...func(*api.Reservation)) *api.Reservation {
	r := &api.Reservation{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.Spec.AllocatePolicy, r.Status.Phase, r.Status.NodeName = api.AllocateRestricted, api.ReservationAvailable, "node-1"
	r.Status.Allocatable, r.Status.Allocated = list(allocatable), list(allocated)
	r.Spec.Owners = []api.ReservationOwner{{LabelSelector: &metav1.LabelSelector{}}}
	for _, f := range change {
		f(r)
	}
	return r
}

func list(text string) api.ResourceList {
	l := api.ResourceList{}
	for _, pair := range strings.Fields(text) {
		name, amount, _ := strings.Cut(pair, "=")
		q, err := quantity.ParseQuantity(amount)
		if err != nil {
			panic(err)
		}
		l[corev1.ResourceName(name)] = q
	}
	return l
}

func keyed(pairs ...string) func(*api.Reservation) {
	return func(r *api.Reservation) {
		r.Labels = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			r.Labels[pairs[i]] = pairs[i+1]
		}
	}
}

func policy(p api.AllocatePolicy) func(*api.Reservation) {
	return func(r *api.Reservation) { r.Spec.AllocatePolicy = p }
}

func phase(p api.ReservationPhase) func(*api.Reservation) {
	return func(r *api.Reservation) { r.Status.Phase = p }
}

// affine returns a pod with a reservation affinity and requests, as "cpu=4"; spec and metadata may be added.
func affine(affinity, requests, more string) string {
	resources, _ := json.Marshal(corev1.ResourceList(list(requests)))
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}%s},"spec":{"containers":[{"name":"c","resources":{"requests":%s}}]}}`,
		api.AnnotationReservationAffinity, affinity, more, resources)
}

// barely knows node-1, which has no labels, and no other.
func barely(node string) (map[string]string, bool) { return nil, node == "node-1" }

func TestReservationFit(t *testing.T) {
	const byName, byPool = `{"name":"big"}`, `{"reservationSelector":{"pool":"batch"}}`
	const term = `{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[%s]}}`
	batch := keyed("pool", "batch")
	small, big := held("small", "cpu=2 memory=4Gi", "", batch), held("big", "cpu=4 memory=8Gi", "", batch)
	there := func(r *api.Reservation) { r.Status.NodeName = "node-2" }
	closed := func(r *api.Reservation) { r.Spec.Unschedulable = true }
	tainted := func(r *api.Reservation) {
		r.Spec.Taints = []corev1.Taint{{Key: "a", Value: "b", Effect: corev1.TaintEffectNoSchedule}, {Key: "c", Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	owners := func(text string) func(*api.Reservation) {
		return func(r *api.Reservation) {
			r.Spec.Owners = nil
			if err := json.Unmarshal([]byte(text), &r.Spec.Owners); err != nil {
				t.Fatal(err)
			}
		}
	}
	elsewhere := held("elsewhere", "cpu=4", "", there)
	cases := []struct {
		name           string
		affinity, asks string
		reservations   []*api.Reservation
		denied, warned string
	}{
		{"fits by name", byName, "cpu=4 memory=8Gi", []*api.Reservation{small, big}, "", ""},
		{"too large by name", byName, "cpu=4001m", []*api.Reservation{small, big}, "the largest, big, has 4 of 4001m cpu, and its allocatePolicy Restricted", ""},
		{"in another case", `{"Name":"big"}`, "cpu=1", []*api.Reservation{big}, "", "scheduling.koordinator.sh/reservation-affinity].Name: is read, but should be written name"},
		{"twice", `{"name":"small","name":"big"}`, "cpu=3", []*api.Reservation{small, big}, "", "name: is there twice, and the last one counts"},
		{"too large by a name in another case", `{"nAme":"big"}`, "cpu=9", []*api.Reservation{big}, "the largest, big", "is read, but should be"},
		{"no such name", `{"name":"Big"}`, "cpu=1", []*api.Reservation{small, big}, "", "no reservation open to the pod matches annotation scheduling.koordinator.sh/reservation-affinity"},
		{"a name goes before everything else", `{"name":"big","reservationSelector":{"pool":"other"}}`, "cpu=5", []*api.Reservation{big}, "the largest, big", ""},
		{"no reservations", byPool, "cpu=1", nil, "", "no reservation open to the pod matches"},
		{"fits by label", byPool, "cpu=3", []*api.Reservation{small, big}, "", ""},
		{"too large by label", byPool, "cpu=8 memory=16Gi", []*api.Reservation{small, big}, "the largest, big, has 4 of 8 cpu, 8Gi of 16Gi memory", ""},
		{"the largest is the nearest", byPool, "cpu=8 memory=1Gi", []*api.Reservation{held("wide", "cpu=6 memory=1Gi", "", batch), held("tall", "cpu=5 memory=999Gi", "", batch)}, "the largest, wide", ""},
		{"one resource too small in each", byPool, "cpu=4 memory=8Gi", []*api.Reservation{held("a", "cpu=8 memory=4Gi", "", batch), held("b", "cpu=2 memory=16Gi", "", batch)}, "can ever hold", ""},
		{"only others are large enough", byPool, "cpu=3", []*api.Reservation{small, held("huge", "cpu=99", "", keyed("pool", "web"))}, "the largest, small", ""},
		{"no affinity to any in particular", `{}`, "cpu=9", []*api.Reservation{small, big}, "the largest, big", ""},
		{"empty text is any", ``, "cpu=9", []*api.Reservation{small, big}, "the largest, big", ""},
		{"null is any", `null`, "cpu=9", []*api.Reservation{small, big}, "the largest, big", ""},
		{"what is not reserved comes from the node", byName, "cpu=4 nvidia.com/gpu=8", []*api.Reservation{big}, "", ""},
		{"nothing is asked for", byName, "", []*api.Reservation{held("big", "cpu=0", "")}, "", ""},
		{"zero is asked for", byName, "cpu=0", []*api.Reservation{held("big", "cpu=0", "")}, "", ""},

		{"the default policy takes from the node", byName, "cpu=8", []*api.Reservation{held("big", "cpu=4", "", policy(""))}, "", "reservation big has 4 of 8 cpu free now; its node must give the rest"},
		{"so does Aligned", byName, "cpu=8", []*api.Reservation{held("big", "cpu=4", "", policy(api.AllocateAligned))}, "", "its node must give the rest"},
		{"one that is not restricted is enough", byPool, "cpu=8", []*api.Reservation{small, held("open", "cpu=1", "", batch, policy(""))}, "", "reservation small has 2 of 8 cpu free now"},

		{"full now", byName, "cpu=4", []*api.Reservation{held("big", "cpu=4", "cpu=1")}, "", "reservation big has 3 of 4 cpu free now; the pod waits for more"},
		{"one of two is full", byPool, "cpu=4", []*api.Reservation{held("a", "cpu=4", "cpu=1", batch), held("b", "cpu=4", "", batch)}, "", ""},
		{"the other of two is full", byPool, "cpu=4", []*api.Reservation{held("a", "cpu=4", "", batch), held("b", "cpu=4", "cpu=1", batch)}, "", ""},
		{"zero is asked of one that is overfull", byName, "cpu=0", []*api.Reservation{held("big", "cpu=4", "cpu=5")}, "", ""},
		{"the emptiest is told", byPool, "cpu=4", []*api.Reservation{held("a", "cpu=4", "cpu=3", batch), held("b", "cpu=4", "cpu=1", batch), held("c", "cpu=4", "cpu=2", batch)}, "", "reservation b has 3 of 4"},
		{"more allocated than there is", byName, "cpu=4", []*api.Reservation{held("big", "cpu=4", "cpu=5")}, "", "reservation big has -1 of 4"},
		{"closed, and named", byName, "cpu=4", []*api.Reservation{held("big", "cpu=4", "", closed)}, "", ""},
		{"closed, named and too small", byName, "cpu=5", []*api.Reservation{held("big", "cpu=4", "", closed)}, "can ever hold", ""},
		{"closed", byPool, "cpu=5", []*api.Reservation{held("big", "cpu=4", "", batch, closed)}, "", "no reservation open to the pod matches"},
		{"closed beside another", byPool, "cpu=5", []*api.Reservation{small, held("big", "cpu=4", "", batch, closed)}, "the largest, small", ""},
		{"closed, and tolerated", `{"tolerations":[{"key":"node.kubernetes.io/unschedulable","operator":"Exists"}]}`, "cpu=4", []*api.Reservation{held("big", "cpu=4", "", closed)}, "", ""},
		{"going", `{}`, "cpu=1", []*api.Reservation{held("big", "cpu=4", "", func(r *api.Reservation) { r.DeletionTimestamp = &metav1.Time{} })}, "", "no reservation open to the pod matches"},
		{"tainted", `{}`, "cpu=1", []*api.Reservation{held("big", "cpu=4", "", tainted)}, "", "no reservation open to the pod matches"},
		{"tainted, and named", byName, "cpu=5", []*api.Reservation{held("big", "cpu=4", "", tainted)}, "can ever hold", ""},
		{"tainted, and tolerated", `{"tolerations":[{"key":"a","value":"b","effect":"NoSchedule"}]}`, "cpu=5", []*api.Reservation{held("big", "cpu=4", "", tainted)}, "can ever hold", ""},
		{"of another", byName, "cpu=5", []*api.Reservation{held("big", "cpu=4", "", owners(`[{"labelSelector":{"matchLabels":{"app":"x"}}}]`))}, "", "no reservation open to the pod matches"},
		{"of another, and large enough", byName, "cpu=1", []*api.Reservation{held("big", "cpu=4", "", owners(`[{"object":{"name":"x"}}]`))}, "", "no reservation open to the pod matches"},
		{"of nobody", byName, "cpu=5", []*api.Reservation{held("big", "cpu=4", "", owners(`[]`))}, "", "no reservation open to the pod matches"},
		{"of this pod", byName, "cpu=5", []*api.Reservation{held("big", "cpu=4", "", owners(`[{"object":{"name":"x"}},{"object":{"namespace":"apps","apiVersion":"v1"}}]`))}, "can ever hold", ""},
		{"an owner that does not parse", byName, "cpu=5", []*api.Reservation{held("big", "cpu=4", "", owners(`[{},{"labelSelector":{"matchExpressions":[{"key":"a","operator":"Is"}]}}]`))}, "", "no reservation open to the pod matches"},
		{"and one that does, to the scheduler", byName, "cpu=5", []*api.Reservation{held("big", "cpu=4", "", owners(`[{"labelSelector":{"matchLabels":{"a b":"c d"}}},{}]`))}, "can ever hold", ""},

		{"pending", byName, "cpu=99", []*api.Reservation{held("big", "", "", phase(api.ReservationPending))}, "", "is available yet"},
		{"no phase yet", byName, "cpu=99", []*api.Reservation{held("big", "", "", phase(""))}, "", "is available yet"},
		{"waiting", byName, "cpu=99", []*api.Reservation{held("big", "cpu=4", "", phase(api.ReservationWaiting))}, "", "is available yet"},
		{"failed", byName, "cpu=1", []*api.Reservation{held("big", "cpu=4", "", phase(api.ReservationFailed))}, "", "no reservation open to the pod matches"},
		{"succeeded", byName, "cpu=1", []*api.Reservation{held("big", "cpu=4", "", phase(api.ReservationSucceeded))}, "", "no reservation open to the pod matches"},

		{"only cpu is restricted", byName, "cpu=4 memory=99Gi", []*api.Reservation{held("big", "cpu=4 memory=8Gi", "", restricted(`{"resources":["cpu"]}`))}, "", ""},
		{"and too small", byName, "cpu=5 memory=99Gi", []*api.Reservation{held("big", "cpu=4 memory=8Gi", "", restricted(`{"resources":["cpu","x"]}`))}, "has 4 of 5 cpu, and", ""},
		{"restricts what is not reserved", byName, "memory=99Gi", []*api.Reservation{held("big", "cpu=4 memory=8Gi", "", restricted(`{"resources":["x"]}`))}, "can ever hold", ""},
		{"restriction that does not parse", byName, "memory=99Gi", []*api.Reservation{held("big", "cpu=4 memory=8Gi", "", restricted(`{`))}, "", "no reservation open to the pod matches"},
		{"and without the policy", byName, "memory=1Gi", []*api.Reservation{held("big", "cpu=4 memory=8Gi", "", policy(""), restricted(`{`))}, "", ""},
		{"restriction in another case", byName, "cpu=4 memory=99Gi", []*api.Reservation{held("big", "cpu=4 memory=8Gi", "", restricted(`{"Resources":["cpu"]}`))}, "", ""},
		{"restriction twice", byName, "cpu=4 memory=99Gi", []*api.Reservation{held("big", "cpu=4 memory=8Gi", "", restricted(`{"resources":["memory"],"resources":["cpu"]}`))}, "", ""},
		{"restriction without the policy", byName, "memory=99Gi", []*api.Reservation{held("big", "cpu=4 memory=8Gi", "", policy(""), restricted(`{"resources":["cpu"]}`))}, "", "8Gi of 99Gi memory"},

		{"by a term", fmt.Sprintf(term, `{"matchExpressions":[{"key":"pool","operator":"In","values":["web","batch"]}]}`), "cpu=8", []*api.Reservation{big}, "the largest, big", ""},
		{"by a term's name", fmt.Sprintf(term, `{"matchFields":[{"key":"metadata.name","operator":"In","values":["small"]}]}`), "cpu=3", []*api.Reservation{small, big}, "the largest, small", ""},
		{"by a term in another case", `{"RequiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[{"matchexpressions":[{"key":"pool","OPERATOR":"Exists"}]}]}}`,
			"cpu=8", []*api.Reservation{big}, "the largest, big", "reservationSelectorTerms[0].matchexpressions[0].OPERATOR: is read, but should be written operator"},
		{"by terms twice", fmt.Sprintf(term, `{"matchFields":[{"key":"metadata.name","operator":"In","values":["small"],"values":["big"]}]}`), "cpu=3", []*api.Reservation{small, big}, "",
			"matchFields[0].values: is there twice, and the last one counts"},
		{"terms are ORed", fmt.Sprintf(term, `{"matchFields":[{"key":"metadata.name","operator":"In","values":["small"]}]},{"matchExpressions":[{"key":"pool","operator":"Exists"}]}`), "cpu=3", []*api.Reservation{small, big}, "", ""},
		{"an empty term matches nothing", fmt.Sprintf(term, `{}`), "cpu=1", []*api.Reservation{small, big}, "", "no reservation open to the pod matches"},
		{"so do no terms", fmt.Sprintf(term, ``), "cpu=1", []*api.Reservation{small, big}, "", "no reservation open to the pod matches"},
		{"a label of an unknown node", `{"reservationSelector":{"zone":"a"}}`, "cpu=8", []*api.Reservation{elsewhere}, "",
			"reservation elsewhere has 4 of 8 cpu, and usher does not know the labels of its node, node-2; the pod waits until a reservation fits"},
		{"a term for one", fmt.Sprintf(term, `{"matchExpressions":[{"key":"zone","operator":"NotIn","values":["a"]}]}`), "cpu=8", []*api.Reservation{elsewhere}, "", "usher does not know the labels"},
		{"and a term that matches for sure", fmt.Sprintf(term, `{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["elsewhere"]}]}`),
			"cpu=8", []*api.Reservation{elsewhere}, "the largest, elsewhere", ""},
		{"and another that matches for sure", byPool, "cpu=8", []*api.Reservation{elsewhere, small}, "the largest, elsewhere", ""},
		{"and another that is large enough", byPool, "cpu=3", []*api.Reservation{held("elsewhere", "cpu=2", "", there), big}, "", ""},
		{"selector and terms", `{"reservationSelector":{"pool":"batch"},` + fmt.Sprintf(term, `{"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["big"]}]}`)[1:], "cpu=3", []*api.Reservation{small, big}, "the largest, small", ""},
	}
	for _, c := range cases {
		req := requestFor(t, "apps", affine(c.affinity, c.asks, ""), "")
		step := reservationFit(func() ([]*api.Reservation, error) { return c.reservations, nil }, barely)
		problems, err := step.Run(t.Context(), req, admit.AsPod(req.Object))
		var wants []string
		if c.denied != "" {
			wants = []string{c.denied}
		}
		wantProblems(t, c.name, problems, err, wants...)
		if warnings := strings.Join(req.Warnings(), "\n"); !strings.Contains(warnings, c.warned) || (warnings == "") != (c.warned == "") {
			t.Errorf("%s: warned %q, want %q", c.name, warnings, c.warned)
		}
		if len(problems) > 0 && (problems[0].Field != "metadata.annotations[scheduling.koordinator.sh/reservation-affinity]" || problems[0].Type != "FieldValueInvalid") {
			t.Errorf("%s: %+v", c.name, problems[0])
		}
	}
}

func restricted(options string) func(*api.Reservation) {
	return func(r *api.Reservation) { r.Annotations = map[string]string{annotationRestrictedOptions: options} }
}

// TestReservationFitOwners: the parts of an owner that are set must all match.
func TestReservationFitOwners(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "u", Labels: map[string]string{"a": "b"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "other"}, {APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "w", Controller: new(true)}}}}
	for owner, want := range map[string]bool{
		`{}`: true, `{"object":{}}`: true, `{"object":{"uid":"u","name":"p","namespace":"n","apiVersion":"v1","kind":"any"}}`: true,
		`{"object":{"uid":"v"}}`: false, `{"object":{"name":"q"}}`: false, `{"object":{"namespace":"m"}}`: false, `{"object":{"apiVersion":"v2"}}`: false,
		`{"controller":{}}`: true, `{"controller":{"apiVersion":"batch/v1","kind":"Job","name":"j","uid":"w","controller":true,"namespace":"n"}}`: true,
		`{"controller":{"namespace":"m"}}`: false, `{"controller":{"uid":"x"}}`: false, `{"controller":{"kind":"Pod"}}`: false, `{"controller":{"apiVersion":"v1"}}`: false,
		`{"controller":{"name":"other","controller":true}}`: false, `{"controller":{"controller":false}}`: false,
		`{"labelSelector":{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}}`: true, `{"labelSelector":{"matchLabels":{"a":"c"}}}`: false,
		`{"object":{"name":"p"},"labelSelector":{"matchLabels":{"a":"c"}}}`: false, `{"object":{"name":"p"},"controller":{"name":"x"}}`: false,
	} {
		r := held("r", "", "")
		if err := json.Unmarshal([]byte("["+owner+"]"), &r.Spec.Owners); err != nil {
			t.Fatal(err)
		}
		if got := offeredTo(r, pod); got != want {
			t.Errorf("%s: %v", owner, got)
		}
	}
}

// The reservations are shared: careless arithmetic changes amounts that do not fit an int64 in place.
func TestReservationFitLeavesReservationsAlone(t *testing.T) {
	big := held("big", "example.com/x=12345678901234567890123", "example.com/x=12345678901234567890122")
	for range 3 {
		req := requestFor(t, "apps", affine(`{"name":"big"}`, "example.com/x=2", ""), "")
		step := reservationFit(func() ([]*api.Reservation, error) { return []*api.Reservation{big}, nil }, nil)
		problems, err := step.Run(t.Context(), req, admit.AsPod(req.Object))
		wantProblems(t, "again", problems, err)
		if warnings := req.Warnings(); len(warnings) != 1 || !strings.Contains(warnings[0], "has 1 of 2 example.com/x free now") {
			t.Errorf("%q", warnings)
		}
	}
}

// A label that a reservation lacks may come from its node; to the scheduler it is then the reservation's.
func TestReservationFitNodeLabels(t *testing.T) {
	const byZone = `{"reservationSelector":{"zone":"a"}}`
	const byTerm = `{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"NotIn","values":["b"]}]}]}}`
	zoned := func(labels map[string]string) NodeLabels {
		return func(node string) (map[string]string, bool) { return labels, node == "node-1" }
	}
	own := func(value string) *api.Reservation { return held("r", "cpu=4", "", keyed("zone", value)) }
	elsewhere := held("r", "cpu=4", "", func(r *api.Reservation) { r.Status.NodeName = "node-2" })
	for _, c := range []struct {
		name     string
		affinity string
		r        *api.Reservation
		nodes    NodeLabels
		allowed  bool
	}{
		{"the node's label", byZone, held("r", "cpu=4", ""), zoned(map[string]string{"zone": "a"}), true},
		{"another of the node", byZone, held("r", "cpu=4", ""), zoned(map[string]string{"zone": "b"}), false},
		{"none", byZone, held("r", "cpu=4", ""), zoned(nil), false},
		{"its own goes before", byZone, own("a"), zoned(map[string]string{"zone": "b"}), true},
		{"its own goes before", byZone, own("b"), zoned(map[string]string{"zone": "a"}), false},
		{"nobody knows the node", byZone, held("r", "cpu=4", ""), nil, true},
		{"nobody knows this node", byZone, elsewhere, zoned(nil), true},
		{"its own is known", byZone, own("b"), nil, false},
		{"a term by the node", byTerm, held("r", "cpu=4", ""), zoned(map[string]string{"zone": "b"}), false},
		{"a term by the node", byTerm, held("r", "cpu=4", ""), zoned(nil), true},
		{"a term, node not known", byTerm, held("r", "cpu=4", ""), nil, true},
		{"a term by its own", byTerm, own("b"), nil, false},
	} {
		a, _, err := parseReservationAffinity(c.affinity)
		if got := a.allows(labelledWith(c.r, c.nodes), true); err != nil || got != c.allowed {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.allowed)
		}
	}
}

// An annotation that does not parse is denied with its path and, if available, the path within.
func TestReservationFitAnnotation(t *testing.T) {
	const term = `{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]},%s]}}`
	const at = `requiredDuringSchedulingIgnoredDuringExecution.reservationSelectorTerms[1].`
	for text, want := range map[string]string{
		`{`:                                  `JSON`,
		`big`:                                `JSON`,
		`[]`:                                 `array`,
		`{"name":5}`:                         `at name`,
		`{"reservationSelector":{"a":true}}`: `reservationSelector`,
		fmt.Sprintf(term, `{"matchExpressions":[{"key":"a","operator":"Is"}]}`):                           at + `matchExpressions[0].operator: Unsupported value: "Is"`,
		fmt.Sprintf(term, `{"matchExpressions":[{"key":"a b","operator":"Exists"}]}`):                     at + `matchExpressions[0].key: Invalid value: "a b"`,
		fmt.Sprintf(term, `{"matchExpressions":[{"key":"a","operator":"In"}]}`):                           at + `matchExpressions[0].values`,
		fmt.Sprintf(term, `{"matchExpressions":[{"key":"a","operator":"Gt","values":["x"]}]}`):            at + `matchExpressions[0].values[0]: Invalid value: "x"`,
		fmt.Sprintf(term, `{"matchExpressions":[{"key":"a","operator":"Exists","values":["x"]}]}`):        at + `matchExpressions[0].values`,
		fmt.Sprintf(term, `{"matchFields":[{"key":"metadata.name","operator":"Exists"}]}`):                at + `matchFields[0].operator: Unsupported value: "Exists"`,
		fmt.Sprintf(term, `{"matchFields":[{"key":"metadata.name","operator":"In","values":["a","b"]}]}`): at + `matchFields[0].values`,
	} {
		req := requestFor(t, "apps", affine(text, "cpu=1", ""), "")
		step := reservationFit(func() ([]*api.Reservation, error) { t.Error("asked for reservations"); return nil, nil }, nil)
		problems, err := step.Run(t.Context(), req, admit.AsPod(req.Object))
		wantProblems(t, text, problems, err, want)
		if len(problems) > 0 && !strings.HasPrefix(problems[0].Error(), "metadata.annotations[scheduling.koordinator.sh/reservation-affinity]: Invalid value") {
			t.Errorf("%s: %v", text, problems[0])
		}
	}
}

// Which pods are checked.
func TestReservationFitWhen(t *testing.T) {
	tooMuch := affine(`{"name":"big"}`, "cpu=5", "")
	with := func(old, new string) string { return strings.Replace(tooMuch, old, new, 1) }
	for _, c := range []struct {
		name, pod, old string
		denied         bool
	}{
		{"created", tooMuch, "", true},
		{"created without", `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"99"}}}]}}`, "", false},
		{"kept", tooMuch, tooMuch, false},
		{"kept, although more is asked for", tooMuch, affine(`{"name":"big"}`, "cpu=1", ""), false},
		{"changed", tooMuch, affine(`{"name":"other"}`, "cpu=5", ""), true},
		{"added", tooMuch, `{"metadata":{}}`, true},
		{"added, where it was empty", tooMuch, affine(``, "cpu=5", ""), true},
		{"removed", `{"metadata":{}}`, tooMuch, false},
		{"being deleted", with(`"annotations"`, `"deletionTimestamp":"2026-11-21T08:00:00Z","annotations"`), affine(`{`, "", ""), false},
		{"bound already", with(`"spec":{`, `"spec":{"nodeName":"node-1",`), "", false},
		{"ignores reservations", with(`"annotations"`, `"labels":{"scheduling.koordinator.sh/reservation-ignored":"true"},"annotations"`), "", false},
	} {
		req := requestFor(t, "apps", c.pod, c.old)
		step := reservationFit(func() ([]*api.Reservation, error) { return []*api.Reservation{held("big", "cpu=4", "")}, nil }, barely)
		problems, err := step.Run(t.Context(), req, admit.AsPod(req.Object))
		if err != nil || (len(problems) > 0) != c.denied || req.Object.Err() != nil {
			t.Errorf("%s: %v, %v, %v", c.name, problems, err, req.Object.Err())
		}
	}
}

func TestReservationFitFailures(t *testing.T) {
	req := requestFor(t, "apps", affine(`{"name":"big"}`, "cpu=5", ""), "")
	step := reservationFit(func() ([]*api.Reservation, error) { return nil, fmt.Errorf("x: %w", admit.ErrNotReady) }, nil)
	if problems, err := step.Run(t.Context(), req, admit.AsPod(req.Object)); len(problems) > 0 || !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("%v, %v", problems, err)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	step = reservationFit(func() ([]*api.Reservation, error) { return []*api.Reservation{held("big", "cpu=4", "")}, nil }, nil)
	if problems, err := step.Run(late, req, admit.AsPod(req.Object)); len(problems) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", problems, err)
	}
}

// FuzzReservationAffinity: an annotation is either parsed or refused, and what is parsed can be matched.
func FuzzReservationAffinity(f *testing.F) {
	for _, text := range []string{``, `null`, `{}`, `{"name":"big"}`, `{"reservationSelector":{"pool":"batch"}}`, `{"a":`, `{"name":"a","name":"b"}`,
		`{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[{"matchExpressions":[{"key":"size","operator":"Gt","values":["5"]}],
		 "matchFields":[{"key":"metadata.name","operator":"NotIn","values":["big"]}]}]},"tolerations":[{"operator":"Exists"}]}`,
		`{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[{"matchFields":[{"key":"x","operator":"In"}]}]}}`,
		`{"requiredDuringSchedulingIgnoredDuringExecution":null}`,
		`{"requiredDuringSChedulingIgnoredDuringExecution":{"reservationSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["big"]}]}]}}`} {
		f.Add(text)
	}
	r := held("big", "cpu=4", "", keyed("pool", "batch", "size", "7"))
	f.Fuzz(func(t *testing.T, text string) {
		a, _, err := parseReservationAffinity(text)
		if err != nil {
			return
		}
		if a.allows(labelledWith(r, barely), true) && !a.allows(labelledWith(r, nil), true) || a.allows(labelledWith(r, nil), false) && !a.allows(labelledWith(r, barely), false) {
			t.Errorf("%s: what is known of the labels of the node turns a yes into a no", text)
		}
		var parsed api.ReservationAffinity
		if err := json.Unmarshal([]byte(text), &parsed); err == nil && a.name == "" && a.required { // as the scheduler does, whatever the case of keys
			terms := parsed.RequiredDuringSchedulingIgnoredDuringExecution.ReservationSelectorTerms
			compareTerms(t, terms, affinity{required: true, terms: a.terms}, r)
		}
	})
}

// FuzzSelectorTerms compares the matching of terms with a brute-force evaluation, and with the scheduler's for nodes.
func FuzzSelectorTerms(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		var terms []corev1.NodeSelectorTerm
		for range random.IntN(4) {
			terms = append(terms, randomTerm(random))
		}
		a := affinity{required: true}
		for _, term := range terms {
			if compiled, err := compileTerm(term, nil); err != nil {
				t.Fatalf("%+v: %v", term, err)
			} else if len(term.MatchExpressions)+len(term.MatchFields) > 0 {
				a.terms = append(a.terms, compiled)
			}
		}
		r := held(pick(random, "big", "small"), "", "")
		r.Labels = map[string]string{}
		for _, key := range []string{"a", "b", "c"} {
			if random.IntN(3) > 0 {
				r.Labels[key] = pick(random, values...)
			}
		}
		compareTerms(t, terms, a, r)
	})
}

var values = []string{"", "x", "0", "5", "05", "7"}

func randomTerm(random *rand.Rand) (term corev1.NodeSelectorTerm) {
	for range random.IntN(3) {
		e := corev1.NodeSelectorRequirement{Key: pick(random, "a", "b", "c"),
			Operator: corev1.NodeSelectorOperator(pick(random, "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))}
		switch e.Operator {
		case "In", "NotIn":
			e.Values = values[random.IntN(3):][:1+random.IntN(3)]
		case "Gt", "Lt":
			e.Values = []string{pick(random, "0", "5", "07")}
		}
		term.MatchExpressions = append(term.MatchExpressions, e)
	}
	for range random.IntN(2) {
		term.MatchFields = append(term.MatchFields, corev1.NodeSelectorRequirement{Key: pick(random, "metadata.name", "metadata.name", "other"),
			Operator: corev1.NodeSelectorOperator(pick(random, "In", "NotIn")), Values: []string{pick(random, "big", "small", "")}})
	}
	return term
}

// compareTerms compares matching on known labels with two other evaluations.
func compareTerms(t *testing.T, terms []corev1.NodeSelectorTerm, a affinity, r *api.Reservation) {
	t.Helper()
	got := a.allows(labelledWith(r, barely), true)
	if want := slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool { return bruteForce(term, r.Name, r.Labels) }); got != want {
		t.Errorf("%+v with name %s, labels %v: %v, by brute force %v", terms, r.Name, r.Labels, got, want)
	}
	scheduler, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: terms})
	if err != nil {
		t.Errorf("%+v: usher reads what the scheduler refuses: %v", terms, err)
	} else if want := scheduler.Match(&corev1.Node{ObjectMeta: r.ObjectMeta}); got != want {
		t.Errorf("%+v with name %s, labels %v: %v, by the scheduler %v", terms, r.Name, r.Labels, got, want)
	}
}

func bruteForce(term corev1.NodeSelectorTerm, name string, labels map[string]string) bool {
	if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
		return false
	}
	fields := map[string]string{"metadata.name": name}
	for _, e := range term.MatchFields {
		if (fields[e.Key] == e.Values[0]) != (e.Operator == "In") {
			return false
		}
	}
	for _, e := range term.MatchExpressions {
		if !bruteForceExpression(e, labels) {
			return false
		}
	}
	return true
}

func bruteForceExpression(e corev1.NodeSelectorRequirement, labels map[string]string) bool {
	value, has := labels[e.Key]
	switch e.Operator {
	case "In":
		return has && slices.Contains(e.Values, value)
	case "NotIn":
		return !has || !slices.Contains(e.Values, value)
	case "Exists":
		return has
	case "DoesNotExist":
		return !has
	}
	number, err := strconv.ParseInt(value, 10, 64)
	bound, _ := strconv.ParseInt(e.Values[0], 10, 64)
	return has && err == nil && (e.Operator == "Gt" && number > bound || e.Operator == "Lt" && number < bound)
}

// The map of operators is complete.
func TestSelectionOperators(t *testing.T) {
	if got := fmt.Sprint(slices.Sorted(maps.Keys(selectionOperators))); got != "[DoesNotExist Exists Gt In Lt NotIn]" {
		t.Error(got)
	}
}

func BenchmarkReservationFitNone(b *testing.B) {
	req := requestFor(b, "apps", `{"metadata":{"labels":{"app":"web"},"annotations":{"a":"b"}},"spec":{"containers":[{"name":"c"}]}}`, "")
	benchmarkPod(b, reservationFit(nil, nil), req)
}

func BenchmarkReservationFitSelector(b *testing.B) {
	var all []*api.Reservation
	for i := range 1000 {
		all = append(all, held(fmt.Sprint("r", i), "cpu=4", "", keyed("pool", fmt.Sprint(i%10), "size", "5")))
	}
	req := requestFor(b, "apps", affine(`{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[{"matchExpressions":
		[{"key":"pool","operator":"In","values":["3"]},{"key":"size","operator":"Gt","values":["4"]}]}]}}`, "cpu=1", ""), "")
	benchmarkPod(b, reservationFit(func() ([]*api.Reservation, error) { return all, nil }, barely), req)
}
