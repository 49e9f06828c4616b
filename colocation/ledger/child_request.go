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

	"usher.dev/usher/colocation/api"
)

// WriteChildRequest writes the annotation api.AnnotationQuotaChildRequest of a quota, and nothing else.
type WriteChildRequest func(ctx context.Context, quota types.NamespacedName, text string) error

// KeepChildRequests writes about every so often, until ctx ends, what the pods of each quota and all below it ask for, where the quota object
// says something else. It is for clusters without Koordinator's scheduler, which does the same. Replicas write the same numbers, and who
// comes second finds them there.
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
		if !known || saysTheSame(object.ChildRequest, sums[name]) {
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

// saysTheSame reports whether the text is a list of the same amounts, however they are written.
func saysTheSame(text string, want api.ResourceList) bool {
	if text == "" {
		return len(want) == 0
	}
	has, err := api.ParseJSONText[api.ResourceList](text)
	return err == nil && covers(corev1.ResourceList(has), corev1.ResourceList(want)) && covers(corev1.ResourceList(want), corev1.ResourceList(has))
}
