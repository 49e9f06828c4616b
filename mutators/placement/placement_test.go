package placement

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

func TestSelectorOf(t *testing.T) {
	policy := &NodeSelector{ClusterDefault: map[string]string{"pool": "general"}}
	for _, c := range []struct {
		name        string
		annotations map[string]string
		want        string // the selector, or what the refusal says
	}{
		{"default", nil, "pool=general"},
		{"other annotations", map[string]string{"a": "b"}, "pool=general"},
		{"Kubernetes", map[string]string{selectorKey: "pool=batch, disk = ssd"}, "disk=ssd,pool=batch"},
		{"present and empty", map[string]string{selectorKey: ""}, ""},
		{"OpenShift", map[string]string{openShiftSelectorKey: "pool=batch"}, "pool=batch"},
		{"OpenShift, blank", map[string]string{openShiftSelectorKey: " "}, ""},
		{"an empty value", map[string]string{openShiftSelectorKey: "node-role.kubernetes.io/infra="}, "node-role.kubernetes.io/infra="},
		{"Kubernetes before OpenShift", map[string]string{selectorKey: "", openShiftSelectorKey: "pool=batch"}, ""},
		{"the last one wins", map[string]string{selectorKey: "a=b,a=c"}, "a=c"},
		{"blank", map[string]string{selectorKey: " "}, "metadata.namespace: Forbidden: annotation " + selectorKey},
		{"no value", map[string]string{selectorKey: "pool"}, `is "pool", which cannot be read: invalid selector: [pool]; its administrator must correct it`},
		{"a set", map[string]string{selectorKey: "pool in (a)"}, "cannot be read"},
		{"inequality", map[string]string{openShiftSelectorKey: "a!=b"}, "annotation " + openShiftSelectorKey},
		{"double equals", map[string]string{selectorKey: "a==b"}, "cannot be read"},
		{"a trailing comma", map[string]string{selectorKey: "a=b,"}, "cannot be read"},
		{"unreadable, beside a good one of OpenShift", map[string]string{selectorKey: "a", openShiftSelectorKey: "a=b"}, "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, wrong := SelectorOf(policy, admit.Namespace{Annotations: c.annotations})
			wants(t, got.Labels.String(), wrong, c.want)
		})
	}
}

// check compares a text, or what a refusal says.
func wants(t *testing.T, got string, wrong *field.Error, want string) {
	t.Helper()
	if wrong != nil && !strings.Contains(wrong.Error(), want) || wrong == nil && got != want {
		t.Errorf("%q, %v; want %s", got, wrong, want)
	}
}

func TestTolerationsOfNamespaces(t *testing.T) {
	policy := &TolerationPolicy{
		ClusterDefault: []corev1.Toleration{{Key: "d"}}, ClusterAllowed: []corev1.Toleration{{Key: "a"}},
	}
	for _, c := range []struct {
		name        string
		annotations map[string]string
		want, bound string
	}{
		{"default", nil, "d=", "a="},
		{"present and empty", map[string]string{tolerationsKey: "", allowedKey: ""}, "", ""},
		{"null", map[string]string{tolerationsKey: "null", allowedKey: "[]"}, "", ""},
		{"their own", map[string]string{tolerationsKey: `[{"key":"k","operator":"Exists","effect":"NoExecute","tolerationSeconds":5}]`, allowedKey: `[{"operator":"Exists"}]`},
			"k:NoExecute for 5 s", "every taint"},
		{"unreadable", map[string]string{tolerationsKey: `{}`, allowedKey: `[{"key":1}]`}, "annotation " + tolerationsKey, "annotation " + allowedKey},
		{"too many", map[string]string{tolerationsKey: manyTolerations(501), allowedKey: manyTolerations(501)}, "cannot be read: it has 501 tolerations", "write at most 500"},
		{"cut off", map[string]string{tolerationsKey: `[{`, allowedKey: ` `}, "cannot be read", "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, wrong := DefaultTolerations(policy, admit.Namespace{Annotations: c.annotations})
			wants(t, Text(got.All...), wrong, c.want)
			got, wrong = AllowedTolerations(policy, admit.Namespace{Annotations: c.annotations})
			wants(t, Text(got.All...), wrong, c.bound)
		})
	}
}

// manyTolerations returns a list in JSON.
func manyTolerations(n int) string { return `[{"key":"k"}` + strings.Repeat(`,{"key":"k"}`, n-1) + `]` }

// TestAdded: what is equal by value was there before.
func TestAdded(t *testing.T) {
	five, six := func() *int64 { return new(int64(5)) }, new(int64(6))
	before := []corev1.Toleration{{Key: "a"}, {Key: "b", TolerationSeconds: five()}, {Key: "c"}}
	now := []corev1.Toleration{{Key: "b", TolerationSeconds: five()}, {Key: "c", TolerationSeconds: five()}, {Key: "b", TolerationSeconds: six}, {Key: "a"}}
	if got := Added(before, now); len(got) != 2 || got[1].Key != "c" || got[2].TolerationSeconds != six {
		t.Errorf("%v, want those at 1 and 2", got)
	}
}

// TestCovers compares two tolerations in both directions. They are written in JSON.
func TestCovers(t *testing.T) {
	for _, c := range []struct {
		name, a, b     string
		aCovers, bDoes bool
	}{
		{"the same", `{"key":"k"}`, `{"key":"k"}`, true, true},
		{"any value", `{"key":"k","operator":"Exists"}`, `{"key":"k","operator":"Equal","value":"v"}`, true, false},
		{"another value", `{"key":"k","operator":"Equal","value":"w"}`, `{"key":"k","operator":"Equal","value":"v"}`, false, false},
		{"another key", `{"key":"k","operator":"Exists"}`, `{"key":"l"}`, false, false},
		{"any key", `{"operator":"Exists"}`, `{"key":"k","effect":"NoSchedule"}`, true, false},
		{"no key, and a value", `{"operator":"Equal"}`, `{"key":"k","operator":"Equal"}`, false, false},
		{"any effect", `{"key":"k","operator":"Exists"}`, `{"key":"k","operator":"Exists","effect":"NoExecute"}`, true, false},
		{"longer", `{"key":"k","operator":"Exists","effect":"NoExecute","tolerationSeconds":9}`, `{"key":"k","operator":"Exists","effect":"NoExecute","tolerationSeconds":5}`, true, false},
		{"forever", `{"key":"k","operator":"Exists","effect":"NoExecute"}`, `{"key":"k","operator":"Exists","effect":"NoExecute","tolerationSeconds":5}`, true, false},
		{"no operator is not Equal to be covered", `{"key":"k","value":"v"}`, `{"key":"k","operator":"Equal","value":"v"}`, true, false},
		{"an unknown operator", `{"key":"k","operator":"Lt","value":"1"}`, `{"key":"k","operator":"Equal","value":"1"}`, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := toleration(t, c.a), toleration(t, c.b)
			if Covers(a, b) != c.aCovers || Covers(b, a) != c.bDoes {
				t.Errorf("a covers b: %v, b covers a: %v", Covers(a, b), Covers(b, a))
			}
		})
	}
}

func toleration(t *testing.T, text string) (one corev1.Toleration) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &one); err != nil {
		t.Fatal(err)
	}
	return one
}

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		name, pod, add string
		remove         []int
		added          string
	}{
		{"nothing", `[]`, `[]`, nil, ``},
		{"added at the end", `[{"key":"a"}]`, `[{"key":"b"}]`, nil, `b=`},
		{"equal: the first is kept", `[{"key":"a"},{"key":"a"}]`, `[{"key":"a"}]`, []int{1}, ``},
		{"covered by the pod's", `[{"key":"a","operator":"Exists"}]`, `[{"key":"a","operator":"Exists","effect":"NoSchedule"}]`, nil, ``},
		{"covers the pod's", `[{"key":"a","operator":"Exists","effect":"NoSchedule"},{"key":"b"}]`, `[{"operator":"Exists"}]`, []int{0, 1}, `every taint`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var pod, add []corev1.Toleration
			for text, into := range map[string]*[]corev1.Toleration{c.pod: &pod, c.add: &add} {
				if err := json.Unmarshal([]byte(text), into); err != nil {
					t.Fatal(err)
				}
			}
			if remove, added := Merge(pod, add); !slices.Equal(remove, c.remove) || Text(added...) != c.added {
				t.Errorf("remove %v, add %s; want %v, %s", remove, Text(added...), c.remove, c.added)
			}
		})
	}
}

// FuzzAnnotations: any text is read, or refused; tolerations cover themselves, and a merge keeps at least one.
func FuzzAnnotations(f *testing.F) {
	f.Add("a=b,c=d", `[{"key":"k","operator":"Exists","tolerationSeconds":5}]`)
	f.Add(" ", `null`)
	f.Add("a==b", `[{"key":1}]`)
	f.Fuzz(func(t *testing.T, selector, tolerations string) {
		ns := admit.Namespace{Annotations: map[string]string{selectorKey: selector, tolerationsKey: tolerations, allowedKey: tolerations}}
		if s, wrong := SelectorOf(&NodeSelector{}, ns); wrong == nil {
			for key, value := range s.Labels {
				if strings.TrimSpace(key) == "" || strings.Contains(value, "=") {
					t.Errorf("%q is read as %v", selector, s.Labels)
				}
			}
		}
		all, wrong := DefaultTolerations(&TolerationPolicy{}, ns)
		if wrong != nil {
			return
		}
		_ = Text(all.All...)
		for _, one := range all.All {
			if !Covers(one, one) {
				t.Errorf("%+v does not cover itself", one)
			}
		}
		if _, added := Merge(nil, all.All[:min(50, len(all.All))]); len(all.All) > 0 && len(added) == 0 {
			t.Errorf("nothing is left of %s", tolerations)
		}
	})
}
