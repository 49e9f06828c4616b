package cluster

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// stream lists the collections that one watch feeds: those that keep different parts of the same objects. Each object is sent and
// parsed once for all of them. If one needs more than metadata, the first does, and its objects are asked for.
type stream []int

// streams returns the streams of all collections that are kept.
func (c *catalogue) streams() (all []stream) {
	type source struct {
		kind       schema.GroupVersionKind
		resource   string
		only       types.NamespacedName
		namespaced bool
	}
	known := map[source]int{}
	for k, r := range c.rows {
		if !c.wanted[k] {
			continue
		}
		from := source{r.kind, r.resource, r.only, r.namespaced}
		n, shared := known[from]
		switch {
		case !shared:
			known[from], all = len(all), append(all, stream{k})
		case r.metaOnly:
			all[n] = append(all[n], k)
		default:
			all[n] = slices.Insert(all[n], 0, k)
		}
	}
	return all
}

// decode decodes an object for each collection of a stream. The items are linked.
func (c *catalogue) decode(of stream, raw []byte) (first *item, err error) {
	o := received{raw: raw}
	defer o.release()
	for _, k := range slices.Backward(of) {
		i, err := c.rows[k].keep(&c.rows[k], &o)
		if err != nil {
			return nil, err
		}
		i.beside, first = first, i
	}
	return first, nil
}

// each yields the collections of the stream with the item of each for one object.
func (s stream) each(object any) iter.Seq2[int, *item] {
	return func(yield func(int, *item) bool) {
		i := object.(*item)
		for _, k := range s {
			if !yield(k, i) {
				return
			}
			i = i.beside
		}
	}
}

// all yields the items of objects for one collection of the stream, the nth.
func (s stream) all(n int, objects []any) iter.Seq[*item] {
	return func(yield func(*item) bool) {
		for _, object := range objects {
			i := object.(*item)
			for range n {
				i = i.beside
			}
			if !yield(i) {
				return
			}
		}
	}
}
