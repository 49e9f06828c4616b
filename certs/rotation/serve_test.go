package rotation

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"usher.dev/usher/certs"
)

// TestServe: no replica changes to a certificate that API servers do not trust, unless it has none that they do.
func TestServe(t *testing.T) {
	o, stranger := installed(t), installed(t)
	renewed, _ := certs.Issue(o.state.Active.Pair, plan.Names, start)
	ended, _ := certs.IssueUntil(o.state.Active.Pair, plan.Names, start.Add(-day), start.Add(-1))
	good, foreign, none := o.state.Leaf, stranger.state.Leaf, certs.Pair{}
	unnamed, _ := certs.Issue(o.state.Active.Pair, []string{"second.usher.svc"}, start)
	o.view.Name = plan.Names[0]
	o.view.Now = start.Add(time.Hour)
	newer, _ := certs.IssueUntil(o.state.Active.Pair, plan.Names, o.view.Now, o.view.Now.Add(60*day))
	damaged := certs.Pair{Cert: renewed.Cert, Key: good.Key}
	for name, c := range map[string]struct{ served, stored, want certs.Pair }{
		"at the start":                 {none, good, good},
		"at the start, not trusted":    {none, foreign, foreign},
		"renewed":                      {good, renewed, renewed},
		"of a CA that is not trusted":  {good, foreign, good},
		"not trusted, as what is used": {foreign, stranger.view.Served, foreign},
		"trusted, unlike what is used": {foreign, good, good},
		"ended":                        {good, ended, good},
		"after one that has ended":     {ended, foreign, foreign},
		"for another Service":          {good, unnamed, good},
		"after one of another Service": {unnamed, good, good},
		"at the start, of another":     {none, unnamed, unnamed},
		"an old copy":                  {newer, good, newer},
		"damaged":                      {good, damaged, good},
		"lost":                         {good, none, good},
	} {
		o.view.Served = c.served
		if got := o.view.Serve(c.stored); Serial(got.Cert) != Serial(c.want.Cert) {
			t.Errorf("%s: it serves another certificate", name)
		}
	}
}

// TestServeWhatIsInUse: a replica changes to a leaf of another CA when every API server uses a caBundle with that CA. The simulation
// found with the seed 1795477728607555468 that one changed earlier.
func TestServeWhatIsInUse(t *testing.T) {
	o, stranger := installed(t), installed(t)
	o.view.Now = start.Add(time.Hour)
	another, _ := certs.IssueUntil(stranger.state.Active.Pair, plan.Names, o.view.Now, o.view.Now.Add(60*day))
	renewed, _ := certs.IssueUntil(o.state.Active.Pair, plan.Names, o.view.Now, o.view.Now.Add(60*day))
	o.view.Entries[0] = slices.Concat(o.state.Bundle, stranger.state.Bundle)
	for _, c := range []struct {
		name    string
		stored  certs.Pair
		settled bool
		changes bool
	}{
		{"of a new CA", another, false, false},
		{"of a CA that is in use", another, true, true},
		{"of the same CA", renewed, false, true},
	} {
		o.settled = c.settled
		if got := o.view.Serve(c.stored); bytes.Equal(got.Cert, c.stored.Cert) != c.changes {
			t.Errorf("%s: it changes: %v", c.name, !c.changes)
		}
	}
}
