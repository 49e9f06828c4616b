package ledger

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
)

// WriteChildRequest writes the annotation api.AnnotationQuotaChildRequest of a quota and changes nothing else.
type WriteChildRequest func(ctx context.Context, quota types.NamespacedName, text string) error

// KeepChildRequests compares, at random intervals between every and 2*every until ctx ends, the child-request
// annotation of each quota with the requests of its pods and its descendants' pods, and writes it where it differs. It
// is for clusters without Koordinator's scheduler, which maintains the annotation there. Replicas compute the same
// numbers, so the second one finds nothing to write.
func (l *Ledger) KeepChildRequests(ctx context.Context, every time.Duration, write WriteChildRequest) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(every + rand.N(every)):
			l.writeChildRequests(ctx, write)
		}
	}
}

func (l *Ledger) writeChildRequests(ctx context.Context, write WriteChildRequest) {
	sums, err := l.Sums()
	if err != nil {
		return
	}
	tree, err := l.tree()
	if err != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		q, known := tree.Get(name)
		if !known || ctx.Err() != nil {
			continue
		}
		object, known := l.objects.get(keyOf(q))
		if !known || equalAmounts(object.ChildRequest, sums[name]) {
			continue
		}
		text, err := json.Marshal(sums[name])
		if err == nil {
			err = write(ctx, keyOf(q), string(text))
		}
		if err != nil {
			l.options.Log.WithError(err).WithField("quota", name).Warn("cannot write the quota's child-request; it is tried again")
			return
		}
	}
}

// equalAmounts reports whether text is a list of the same amounts, however they are spelled.
func equalAmounts(text string, want api.ResourceList) bool {
	if text == "" {
		return len(want) == 0
	}
	has, err := api.ParseJSONText[api.ResourceList](text)
	return err == nil && quantity.EqualAmounts(corev1.ResourceList(has), corev1.ResourceList(want))
}
