package certificates

import (
	"context"
	"maps"
	"slices"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// attack does something to the Secrets. What it does, but not to which copy, follows from the seed.
func (s *soak) attack(ctx context.Context) {
	one := attacks[s.rnd.IntN(len(attacks))]
	s.mu.Lock()
	s.acts = append(s.acts, time.Now().Format(time.StampMilli)+" "+one.name)
	s.mu.Unlock()
	s.counts.Add("attacks: "+one.name, 1)
	one.act(ctx, s)
}

var attacks = []struct {
	name string
	act  func(context.Context, *soak)
}{
	{"the CA is deleted", func(ctx context.Context, s *soak) { s.remove(ctx, "usher-ca") }},
	{"the leaf is deleted", func(ctx context.Context, s *soak) { s.remove(ctx, "usher-tls") }},
	{"both are deleted", func(ctx context.Context, s *soak) { s.remove(ctx, "usher-ca"); s.remove(ctx, "usher-tls") }},
	{"the CA is emptied", func(ctx context.Context, s *soak) { s.put(ctx, "usher-ca", nil) }},
	{"the leaf is emptied", func(ctx context.Context, s *soak) { s.put(ctx, "usher-tls", nil) }},
	{"the CA is damaged", func(ctx context.Context, s *soak) { s.damage(ctx, "usher-ca") }},
	{"the leaf is damaged", func(ctx context.Context, s *soak) { s.damage(ctx, "usher-tls") }},
	{"both are damaged", func(ctx context.Context, s *soak) { s.damage(ctx, "usher-ca"); s.damage(ctx, "usher-tls") }},
	{"the CA is restored", func(ctx context.Context, s *soak) { s.put(ctx, "usher-ca", s.some().ca) }},
	{"the leaf is restored", func(ctx context.Context, s *soak) { s.put(ctx, "usher-tls", s.some().leaf) }},
	{"both are restored", func(ctx context.Context, s *soak) {
		old := s.some()
		s.put(ctx, "usher-ca", old.ca)
		s.put(ctx, "usher-tls", old.leaf)
	}},
	{"the Secrets are swapped", func(ctx context.Context, s *soak) {
		ca, leaf := s.data(ctx, "usher-ca"), s.data(ctx, "usher-tls")
		s.put(ctx, "usher-ca", leaf)
		s.put(ctx, "usher-tls", ca)
	}},
	{"the CA is somebody else's", func(ctx context.Context, s *soak) {
		cert, key := authority(s.t, time.Now(), time.Now().Add(3*time.Minute))
		s.put(ctx, "usher-ca", map[string]any{"ca.crt": cert, "ca.key": key})
	}},
	{"a leaf is requested", func(ctx context.Context, s *soak) { s.request(ctx, "usher-tls", "tls.crt") }},
	{"a CA is requested", func(ctx context.Context, s *soak) { s.request(ctx, "usher-ca", "ca.crt") }},
}

// change updates a Secret at the version that it has, if it is there.
func (s *soak) change(ctx context.Context, name string, change func(kubetest.Object)) {
	for ctx.Err() == nil {
		object, err := cluster.Admin().Get(ctx, secrets+name)
		if err != nil {
			return
		}
		change(object)
		if _, err = cluster.Admin().Update(ctx, secrets+name, object); err == nil {
			return
		}
		s.counts.Add("attacks: again after an error", 1)
	}
}

// put replaces the data of a Secret. A Secret of type kubernetes.io/tls has two keys at least.
func (s *soak) put(ctx context.Context, name string, data any) {
	s.change(ctx, name, func(o kubetest.Object) {
		all := map[string]any{}
		if o.String("type") == "kubernetes.io/tls" {
			all["tls.crt"], all["tls.key"] = "", ""
		}
		some, _ := data.(map[string]any)
		maps.Copy(all, some)
		o["data"] = all
	})
}

// damage replaces some data of a Secret.
func (s *soak) damage(ctx context.Context, name string) {
	choice := s.rnd.Uint64()
	s.change(ctx, name, func(o kubetest.Object) {
		data, _ := o["data"].(map[string]any)
		for i, key := range slices.Sorted(maps.Keys(data)) {
			if choice>>i&1 == 1 {
				data[key] = "ZGFtYWdlZA=="
			}
		}
	})
}

func (s *soak) remove(ctx context.Context, name string) {
	_, _ = cluster.Admin().Delete(ctx, secrets+name) // it may be gone
}

func (s *soak) data(ctx context.Context, name string) any {
	object, _ := cluster.Admin().Get(ctx, secrets+name)
	return object["data"]
}

// some returns a copy of both Secrets from the last minutes.
func (s *soak) some() copies {
	choice := s.rnd.Float64()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.copies) == 0 {
		return copies{}
	}
	return s.copies[int(choice*float64(len(s.copies)))]
}

// request asks for a new certificate or CA, as `usher certs rotate` does.
func (s *soak) request(ctx context.Context, name, key string) {
	serial := serial(ctx, s.t, name, key)
	s.change(ctx, name, func(o kubetest.Object) {
		o["metadata"].(map[string]any)["annotations"] = map[string]any{"usher.dev/replace": serial}
	})
}
