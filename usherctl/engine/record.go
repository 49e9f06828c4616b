package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
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
	prefix string    // of the name that the API server makes; empty: the object has a name
	last   *snapshot // of the object as the last mutating plug-in left it, with Record
	spare  []byte    // for the text of the next snapshot

	used    []corev1.ResourceQuota // with the object; nil: none is in the Namespace
	fit     int64                  // how many objects do
	counted bool

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

// recorder is a plug-in that records its changes and refusals.
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
		asked.last = snapshotOf(a, o, nil)
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
	if r.last == nil {
		return
	}
	now := snapshotOf(a, o, r.spare)
	if bytes.Equal(r.last.text, now.text) {
		r.spare = now.text
		return
	}
	r.plugins = append(r.plugins, Change{Plugin: name, Round: round, before: r.last, after: now})
	r.last, r.spare = now, nil
}

// Before returns the object before the change, in the version of the request.
func (c Change) Before() json.RawMessage { return c.before.json() }

// After returns the object after the change, in the version of the request.
func (c Change) After() json.RawMessage { return c.after.json() }

// snapshot is an object in the version of a request, without managedFields.
type snapshot struct {
	object runtime.Object // shares memory with the one that plug-ins change
	text   []byte         // of protobuf, or of JSON if its type has none
	asJSON json.RawMessage
}

// protobuf is implemented by the types of Kubernetes. It takes a fraction of the time of JSON, or of a comparison of objects.
type protobuf interface {
	Size() int
	MarshalToSizedBuffer(text []byte) (int, error)
	Unmarshal(text []byte) error
}

// snapshotOf returns a snapshot of an object; an empty one if it has no such version. Its text is in the spare memory, if that is large enough.
func snapshotOf(a admission.Attributes, o admission.ObjectInterfaces, spare []byte) *snapshot {
	convert := o.GetObjectConvertor().ConvertToVersion
	if scheme, typed := o.GetObjectConvertor().(*runtime.Scheme); typed {
		convert = scheme.UnsafeConvertToVersion // without a copy
	}
	converted, err := convert(a.GetObject(), a.GetKind().GroupVersion())
	if err != nil {
		return &snapshot{}
	}
	if converted == a.GetObject() {
		converted = converted.DeepCopyObject()
	}
	if accessor, is := converted.(metav1.Object); is {
		accessor.SetManagedFields(nil)
	}
	s := &snapshot{object: converted}
	if short, can := converted.(protobuf); can {
		s.text = slices.Grow(spare[:0], short.Size())[:short.Size()]
		_, _ = short.MarshalToSizedBuffer(s.text)
	} else {
		s.text, _ = json.Marshal(converted)
		s.asJSON = s.text
	}
	return s
}

// json returns a snapshot as JSON; nil of an empty one.
func (s *snapshot) json() json.RawMessage {
	if s.asJSON != nil || s.object == nil {
		return s.asJSON
	}
	object := reflect.New(reflect.TypeOf(s.object).Elem()).Interface()
	if object.(protobuf).Unmarshal(s.text) == nil {
		object.(runtime.Object).GetObjectKind().SetGroupVersionKind(s.object.GetObjectKind().GroupVersionKind())
		s.asJSON, _ = json.Marshal(object)
	}
	return s.asJSON
}
