package review

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/usherctl/requests"
)

// Pool opens API servers, each cluster once: policies that register the same webhooks share one.
type Pool struct {
	Most int // that are open, of which the one that was used longest ago is closed; 0: all

	mu   sync.Mutex
	last []pooled
}

type pooled struct {
	key [sha256.Size]byte
	api *API
}

// Open is Cluster.Open; Close closes what it returns.
func (p *Pool) Open(ctx context.Context, c Cluster, documents []requests.Document, o requests.Options) (*API, error) {
	a, given := c.given(documents, o)
	text, err := json.Marshal([]any{given.Objects, given.Assumed})
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(text)
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.last, func(o pooled) bool { return o.key == key }); i >= 0 {
		found := p.last[i]
		p.last = append(slices.Delete(p.last, i, i+1), found)
		a.engine, a.LeftOut = found.api.engine, found.api.LeftOut
		return a, nil
	}
	if err := a.start(context.WithoutCancel(ctx), given); err != nil {
		return nil, err
	}
	if p.Most > 0 && len(p.last) == p.Most {
		p.last[0].api.Close()
		p.last = slices.Delete(p.last, 0, 1)
	}
	p.last = append(p.last, pooled{key, a})
	return a, nil
}

// Close closes all API servers.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.last {
		o.api.Close()
	}
	p.last = nil
}

// Objects returns the objects of manifests.
func Objects(of []manifest.Object) (all []*unstructured.Unstructured) {
	for _, o := range of {
		all = append(all, objectOf(o.JSON))
	}
	return all
}
