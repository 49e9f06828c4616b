package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
)

// asked is a request on its way through the API server's code, and a record of it.
type asked struct {
	Request
	engine *Engine
	key    string          // of the stored object that the request brings, or of that which there is not
	old    json.RawMessage // the object under key; nil: none
	seen   *attributes
	prefix string          // of the name that the API server makes; empty: the object has a name
	last   runtime.Object  // as the last mutating plug-in left it, with Record
	text   json.RawMessage // the same; nil before it is needed

	mu       sync.Mutex // validating webhooks are called side by side
	admitted bool       // by all validating plug-ins
	by       string     // the plug-in that refused
	rounds   map[string]int
	plugins  []Change
	calls    []Call
	order    []int // of calls: the indices of their webhooks
	warnings []string
}

type requestKey struct{}

func requestFrom(ctx context.Context) *asked {
	r, _ := ctx.Value(requestKey{}).(*asked)
	return r
}

// object returns a stored object.
func (r *asked) object(key string) (text json.RawMessage, found bool) {
	if r.key != "" && key == r.key {
		return r.old, r.old != nil
	}
	text, found = r.engine.stored[key]
	return text, found
}

// AddWarning implements warning.Recorder.
func (r *asked) AddWarning(_, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.warnings, text) {
		r.warnings = append(r.warnings, text)
	}
}

// called records the call of a webhook.
func (r *asked) called(index int, call Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, before := range r.order {
		if before == index {
			call.Round++
		}
	}
	r.calls, r.order = append(r.calls, call), append(r.order, index)
}

// inOrder returns the calls, those of validating webhooks in the order of their configurations.
func (r *asked) inOrder() []Call {
	indices := make([]int, len(r.calls))
	for i := range indices {
		indices[i] = i
	}
	slices.SortStableFunc(indices, func(a, b int) int {
		if r.calls[a].Mutates || r.calls[b].Mutates {
			return 0 // in the order in which they were called, before all validating ones
		}
		return cmp.Compare(r.order[a], r.order[b])
	})
	calls := make([]Call, len(indices))
	for i, at := range indices {
		calls[i] = r.calls[at]
	}
	return calls
}

// recorded returns a plug-in that records its changes and refusals.
func recorded(plugin admission.Interface, name string) admission.Interface {
	return recorder{plugin, name}
}

type recorder struct {
	admission.Interface
	name string
}

// Admit implements admission.MutationInterface.
func (p recorder) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	plugin, mutates := p.Interface.(admission.MutationInterface)
	if !mutates {
		return nil
	}
	asked := requestFrom(ctx)
	if asked.Record && a.GetObject() != nil && asked.last == nil {
		asked.last = a.GetObject().DeepCopyObject()
	}
	err := plugin.Admit(ctx, a, o)
	asked.ran(p.name, a, o, err)
	return err
}

// Validate implements admission.ValidationInterface.
func (p recorder) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	plugin, validates := p.Interface.(admission.ValidationInterface)
	if !validates {
		return nil
	}
	err := plugin.Validate(ctx, a, o)
	if err != nil {
		requestFrom(ctx).by = p.name
	}
	return err
}

// ran records a run of a mutating plug-in.
func (r *asked) ran(name string, a admission.Attributes, o admission.ObjectInterfaces, err error) {
	if err != nil {
		r.by = name
	}
	if !r.Record {
		return
	}
	if r.rounds == nil {
		r.rounds = map[string]int{}
	}
	round := r.rounds[name]
	r.rounds[name]++
	if r.last == nil || reflect.DeepEqual(r.last, a.GetObject()) {
		return
	}
	before := r.text
	if before == nil {
		before = versioned(r.last, a, o)
	}
	r.last = a.GetObject().DeepCopyObject()
	if r.text = versioned(r.last, a, o); !bytes.Equal(before, r.text) { // else it has only been read
		r.plugins = append(r.plugins, Change{Plugin: name, Round: round, Before: before, After: r.text})
	}
}

// versioned returns an object in the version of a request as JSON; nil if that cannot be.
func versioned(object runtime.Object, a admission.Attributes, o admission.ObjectInterfaces) json.RawMessage {
	converted, err := o.GetObjectConvertor().ConvertToVersion(object.DeepCopyObject(), a.GetKind().GroupVersion())
	if err != nil {
		return nil
	}
	if accessor, is := converted.(metav1.Object); is {
		accessor.SetManagedFields(nil)
	}
	text, err := json.Marshal(converted)
	if err != nil {
		return nil
	}
	return text
}
