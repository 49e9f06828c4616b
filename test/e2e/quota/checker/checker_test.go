package checker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/e2e/kubetest"
)

// history is a hand-made history: a tree of two teams below one department, all with a limit of 10.
type history struct {
	t        *testing.T
	c        *Checker
	revision int64
	places   map[string]place
	reserved []string
}

type place struct {
	parent string
	limit  int
}

func newHistory(t *testing.T) *history {
	h := &history{t: t, c: New("q"), places: map[string]place{}}
	h.quota("all", "", 10)
	h.quota("a", "all", 10)
	h.quota("b", "all", 10)
	return h
}

func (h *history) take(key string, value []byte) {
	h.t.Helper()
	h.revision++
	if err := h.c.Take(kubetest.Change{Revision: h.revision, Key: key, Deleted: value == nil, Value: value}); err != nil {
		h.t.Fatal(err)
	}
}

// quota stores a quota; the top has the record.
func (h *history) quota(name, parent string, limit int) {
	h.t.Helper()
	h.places[name] = place{parent, limit}
	meta := map[string]any{"name": name, "labels": map[string]string{prefix + "parent": parent}}
	if name == "all" {
		meta["annotations"] = map[string]string{recordOf: `{"pods": [` + strings.Join(h.reserved, ",") + `]}`}
	}
	value, err := json.Marshal(map[string]any{"metadata": meta, "spec": map[string]any{"max": map[string]string{"cpu": fmt.Sprint(limit)}}})
	if err != nil {
		h.t.Fatal(err)
	}
	h.take("/registry/scheduling.sigs.k8s.io/elasticquotas/q/"+name, value)
}

// reserve writes a record with these reservations, each "pod quota cpu".
func (h *history) reserve(list ...string) {
	h.t.Helper()
	h.reserved = nil
	for _, text := range list {
		of := strings.Fields(text)
		h.reserved = append(h.reserved, fmt.Sprintf(`{"pod": "q/%s", "quota": %q, "request": {"cpu": %q}, "at": 1, "by": "r"}`, of[0], of[1], of[2]))
	}
	h.quota("all", "", h.places["all"].limit)
}

// pod stores a pod with what it asks, and what its node has allocated and enacted.
func (h *history) pod(name, quota, asked, allocated, enacted string, more ...func(*corev1.Pod)) {
	h.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "q", UID: types.UID(name), Generation: 5, Labels: map[string]string{prefix + "name": quota}}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: cpu(asked)}}}
	if allocated != "" {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: cpu(allocated), Resources: &corev1.ResourceRequirements{Requests: cpu(enacted)}}}
	}
	for _, change := range more {
		change(pod)
	}
	raw, err := pod.Marshal()
	if err != nil {
		h.t.Fatal(err)
	}
	value, err := (&runtime.Unknown{Raw: raw}).Marshal()
	if err != nil {
		h.t.Fatal(err)
	}
	h.take("/registry/pods/q/"+name, append([]byte("k8s\x00"), value...))
}

func (h *history) gone(name string) { h.t.Helper(); h.take("/registry/pods/q/"+name, nil) }

// admit reserves for a pod, stores it, and drops the reservation.
func (h *history) admit(name, quota, asked string) {
	h.t.Helper()
	h.reserve(name + " " + quota + " " + asked)
	h.pod(name, quota, asked, "", "")
	h.reserve()
}

func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

// infeasible is a resize that the node refused, as of a generation of the spec.
func infeasible(generation int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible, ObservedGeneration: generation}}
	}
}

func ended(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }

func overdue(pod *corev1.Pod) {
	now, none := metav1.NewTime(time.Unix(1, 0)), int64(0)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &none
}

func sidecar(asked, allocated string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{{Name: "s", Resources: corev1.ResourceRequirements{Requests: cpu(asked)}}}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "s", AllocatedResources: cpu(allocated)}}
	}
}

// TestFound: each kind of overshoot is found, at the pod that is too much.
func TestFound(t *testing.T) {
	for name, steps := range map[string]func(*history){
		"a new pod":                func(h *history) { h.admit("p", "a", "6"); h.admit("q", "a", "5") },
		"the parent is full":       func(h *history) { h.admit("p", "a", "6"); h.admit("q", "b", "5") },
		"a resize":                 func(h *history) { h.admit("p", "a", "6"); h.reserve("p a 11"); h.pod("p", "a", "11", "6", "6") },
		"a shrink is not taken up": func(h *history) { h.admit("p", "a", "6"); h.pod("p", "a", "1", "6", "6"); h.admit("q", "a", "5") },
		"a shrink is not enacted":  func(h *history) { h.admit("p", "a", "6"); h.pod("p", "a", "1", "1", "6"); h.admit("q", "b", "5") },
		"a sidecar's shrink": func(h *history) {
			h.admit("p", "a", "5")
			h.reserve("p a 9")
			h.pod("p", "a", "1", "1", "1", sidecar("1", "8"))
			h.admit("q", "b", "2")
		},
		"what is infeasible counts more": func(h *history) {
			h.admit("p", "a", "6")
			h.pod("p", "a", "6", "4", "4", infeasible(5))
			h.admit("q", "a", "6")
			h.pod("p", "a", "6", "6", "4")
		},
		"infeasible, but not any more": func(h *history) {
			h.admit("p", "a", "6")
			h.pod("p", "a", "6", "6", "6")
			h.pod("p", "a", "9", "6", "6", infeasible(4))
			h.pod("p", "a", "9", "9", "6")
			h.admit("q", "a", "2")
		},
		"a move": func(h *history) {
			h.quota("b", "all", 3)
			h.admit("p", "a", "4")
			h.reserve("p b 4")
			h.pod("p", "b", "4", "", "")
		},
		"it runs again": func(h *history) {
			h.admit("p", "a", "6")
			h.pod("p", "a", "6", "6", "6", ended)
			h.admit("q", "a", "5")
			h.reserve("p a 6")
			h.pod("p", "a", "6", "6", "6")
		},
		"after a lower limit": func(h *history) { h.admit("p", "a", "6"); h.quota("a", "all", 4); h.admit("q", "a", "1") },
		"room that was given back is gone": func(h *history) {
			h.admit("p", "a", "3")
			h.admit("q", "a", "3")
			h.quota("a", "all", 4)
			h.gone("p")
			h.admit("r", "a", "2")
		},
		"a reservation that was dropped": func(h *history) {
			h.admit("p", "a", "6")
			h.reserve("q a 4")
			h.quota("a", "all", 5)
			h.reserve()
			h.reserve("q a 4")
			h.pod("q", "a", "4", "", "")
		},
		"below another parent": func(h *history) {
			h.quota("small", "all", 4)
			h.admit("p", "a", "3")
			h.quota("a", "small", 10)
			h.admit("q", "a", "2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(t)
			steps(h)
			if told := h.c.Told(); len(told.Overshoots) != 1 {
				t.Errorf("found %q", told.Overshoots)
			}
		})
	}
}

// TestAllowed: what was admitted under another limit, or in another place, is no overshoot.
func TestAllowed(t *testing.T) {
	for name, steps := range map[string]func(*history){
		"full":                    func(h *history) { h.admit("p", "a", "6"); h.admit("q", "b", "4") },
		"a resize is carried out": func(h *history) { h.admit("p", "a", "6"); h.pod("p", "a", "1", "1", "1"); h.admit("q", "a", "9") },
		"infeasible": func(h *history) {
			h.admit("p", "a", "2")
			h.reserve("p a 9")
			h.pod("p", "a", "9", "2", "2", infeasible(5))
			h.reserve()
			h.admit("q", "a", "8")
		},
		"ended": func(h *history) {
			h.admit("p", "a", "6")
			h.pod("p", "a", "6", "6", "6", ended)
			h.admit("q", "a", "9")
		},
		"overdue": func(h *history) {
			h.admit("p", "a", "6")
			h.pod("p", "a", "6", "6", "6", overdue)
			h.admit("q", "a", "9")
		},
		"deleted": func(h *history) { h.admit("p", "a", "6"); h.gone("p"); h.admit("p", "a", "9") },
		"moved away": func(h *history) {
			h.quota("b", "all", 6)
			h.admit("p", "a", "6")
			h.reserve("p b 6")
			h.pod("p", "b", "6", "", "")
			h.reserve()
			h.admit("q", "a", "4")
		},
		"admitted before": func(h *history) { h.admit("p", "a", "6"); h.quota("a", "all", 4); h.gone("p"); h.admit("q", "a", "4") },
		"raised again": func(h *history) {
			h.admit("p", "a", "6")
			h.quota("a", "all", 4)
			h.quota("a", "all", 8)
			h.admit("q", "a", "2")
		},
		"stored after a lower limit": func(h *history) {
			h.reserve("p a 6", "q a 4")
			h.quota("all", "", 5)
			h.quota("a", "all", 3)
			h.pod("p", "a", "6", "", "")
			h.pod("q", "a", "4", "", "")
		},
		"the same, resized": func(h *history) {
			h.admit("p", "a", "2")
			h.reserve("p a 8")
			h.quota("a", "all", 3)
			h.pod("p", "a", "8", "2", "2")
			h.reserve()
			h.pod("p", "a", "8", "8", "2")
			h.pod("p", "a", "8", "8", "8")
		},
		"an infeasible one below a lower limit": func(h *history) {
			h.admit("p", "a", "8")
			h.pod("p", "a", "8", "2", "2", infeasible(4))
			h.quota("a", "all", 3)
			h.pod("p", "a", "8", "8", "2")
		},
		"below a smaller parent": func(h *history) {
			h.quota("small", "all", 4)
			h.admit("p", "a", "8")
			h.quota("a", "small", 10)
			h.pod("p", "a", "8", "8", "8")
		},
		"reserved below a smaller parent": func(h *history) {
			h.quota("small", "all", 4)
			h.reserve("p a 8")
			h.quota("a", "small", 10)
			h.pod("p", "a", "8", "", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(t)
			steps(h)
			if told := h.c.Told(); len(told.Overshoots)+len(told.Uncovered) > 0 {
				t.Errorf("found %q, %q", told.Overshoots, told.Uncovered)
			}
		})
	}
}

// TestUncovered: a pod needs a reservation for whatever it counts for in addition, also where there is room.
func TestUncovered(t *testing.T) {
	for name, steps := range map[string]func(*history){
		"a new pod":           func(h *history) { h.pod("p", "a", "1", "", "") },
		"too little":          func(h *history) { h.reserve("p a 1"); h.pod("p", "a", "2", "", "") },
		"in another quota":    func(h *history) { h.reserve("p b 1"); h.pod("p", "a", "1", "", "") },
		"of another pod":      func(h *history) { h.reserve("q a 1"); h.pod("p", "a", "1", "", "") },
		"dropped before":      func(h *history) { h.reserve("p a 1"); h.reserve(); h.pod("p", "a", "1", "", "") },
		"resized":             func(h *history) { h.admit("p", "a", "1"); h.pod("p", "a", "2", "1", "1") },
		"the node takes more": func(h *history) { h.admit("p", "a", "1"); h.pod("p", "a", "1", "3", "1") },
		"withdrawn, then taken up": func(h *history) {
			h.admit("p", "a", "3")
			h.pod("p", "a", "1", "1", "1")
			h.pod("p", "a", "1", "3", "1")
		},
		"infeasible, then feasible": func(h *history) {
			h.admit("p", "a", "3")
			h.pod("p", "a", "3", "1", "1", infeasible(5))
			h.pod("p", "a", "3", "3", "1")
		},
		"moved": func(h *history) { h.admit("p", "a", "1"); h.pod("p", "b", "1", "1", "1") },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(t)
			steps(h)
			if told := h.c.Told(); len(told.Uncovered) != 1 || len(told.Overshoots) > 0 {
				t.Errorf("found %q, %q", told.Uncovered, told.Overshoots)
			}
		})
	}
}

// TestTold: the counts by which a run shows that it says anything.
func TestTold(t *testing.T) {
	h := newHistory(t)
	h.admit("p", "a", "6")
	h.pod("p", "a", "6", "4", "4", infeasible(5))
	h.pod("p", "a", "6", "4", "4", infeasible(5))
	h.pod("p", "a", "2", "4", "4")
	h.quota("a", "all", 3)
	h.quota("small", "all", 2)
	h.quota("a", "small", 3)
	told := h.c.Told()
	if told.Added != 1 || told.Apart != 1 || told.Infeasible != 1 || told.Lowered != 1 || told.Moved != 1 || told.Fullest != 60 {
		t.Errorf("told %+v", told)
	}
	held, asked := h.c.Sums()
	if held["all"] != 4000 || asked["small"] != 2000 || h.c.Room("a") != -2000 {
		t.Errorf("held %v, asked %v", held, asked)
	}
	h.pod("p", "a", "2", "2", "2", ended)
	h.gone("p")
	if told := h.c.Told(); told.Ended != 1 || told.Deleted != 1 || len(h.c.Pods()) != 0 {
		t.Errorf("told %+v", told)
	}
}
