package webhooks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"usher.dev/usher/admit"
)

// State says how an entry that usher needs is registered.
type State struct {
	Entry   string // its name
	Missing bool
	Changes []Change // none: it is registered as usher needs it
}

// Change is a field of an entry that is not as usher needs it, or that somebody has changed since it was registered.
type Change struct{ Field, Is, Needed, By string } // By is a field manager, or empty

// String returns the change in a sentence.
func (c Change) String() string {
	by := ""
	if c.By != "" {
		by = ", written by " + c.By
	}
	return fmt.Sprintf("%s is %s%s; usher needs %s", c.Field, c.Is, by, c.Needed)
}

// Registered is a registration as it was read: the mutating and the validating configuration, which may be missing.
type Registered []configuration

// States returns how the entries of routes are registered. What was chosen at the registration is no change, such as
// failurePolicy Ignore, timeouts and excluded namespaces; the same, written by somebody else later, is one. of returns the
// routes, given the names of the registered entries, and trusts reports whether a caBundle verifies what is served. What was read
// is returned, too.
func (r Registrar) States(ctx context.Context, of func(names []string) []admit.Route,
	trusts func(bundle []byte) bool) (all []State, read Registered, err error) {
	registered, err := r.registered(ctx)
	if err != nil {
		return nil, nil, explained(err)
	}
	var names []string
	for _, c := range registered {
		for _, w := range c.Webhooks {
			names = append(names, w.Name)
		}
	}
	for i, c := range needed(of(names), r.At) {
		for _, w := range c.Webhooks {
			all = append(all, registered[i].stateOf(w, r.At, trusts))
		}
	}
	return all, registered, nil
}

// stateOf returns the state of an entry, which is needed as registered at an address without any choice.
func (c configuration) stateOf(needed Hook, at Address, trusts func(bundle []byte) bool) State {
	state, is := State{Entry: needed.Name}, c.entry(needed.Name)
	if is == nil {
		state.Missing = true
		return state
	}
	wrote := c.writersOf(needed.Name)
	add := func(part difference, by string) {
		if !slices.ContainsFunc(state.Changes, func(c Change) bool { return c.Field == part.field }) {
			state.Changes = append(state.Changes, Change{part.field, part.is, part.want, by})
		}
	}
	if !at.leads(*is) {
		add(difference{field: "clientConfig", is: target(is.ClientConfig), want: target(needed.ClientConfig)}, wrote.changedBy("clientConfig"))
	} else if is.ClientConfig.Service != nil && !trusts(is.ClientConfig.CABundle) {
		add(difference{field: "caBundle", is: bundleText(is.ClientConfig.CABundle), want: "the CA of the certificate that is served"}, "")
	}
	for _, part := range lacking(needed, *is) {
		add(part, wrote.changedBy(part.field))
	}
	for _, part := range differing(needed, *is) {
		if by := wrote.changedPart(part.field, needed, *is); by != "" {
			add(part, by)
		}
	}
	return state
}

// changedPart is changedBy; for match conditions, who wrote one that is not needed.
func (w writers) changedPart(field string, needed, is Hook) string {
	if field != "matchConditions" {
		return w.changedBy(field)
	}
	for _, c := range is.MatchConditions {
		if by := w.changedBy(field + "/" + c.Name); by != "" && !slices.Contains(needed.MatchConditions, c) {
			return by
		}
	}
	return ""
}

// leads reports whether an entry calls its route at the Service, or at a URL.
func (a Address) leads(w Hook) bool { return a.isCalledBy(w) && callsItsPath(w) }

// callsItsPath reports whether an entry calls the path of its name. The API server cuts off slashes at the end.
func callsItsPath(w Hook) bool {
	path := PathOf(w.Name)
	if s := w.ClientConfig.Service; s != nil {
		return strings.TrimRight(value(s.Path), "/") == path
	}
	return strings.HasSuffix(strings.TrimRight(value(w.ClientConfig.URL), "/"), path)
}
