package webhooks

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	labelselector "usher.dev/usher/internal/selector"
)

// AsInstalled returns a registrar that restores a registration: in each entry what Lacks finds becomes as the routes need it,
// and so do the path, the caBundle and what no flag chooses. An entry that calls another server than most do calls theirs.
// What was chosen stays, such as failurePolicy Ignore, timeouts, excluded namespaces, a URL, or who fills in the caBundle; an
// entry that is missing is registered where the rest is, with the failurePolicy of its route. of returns the routes, given the
// names of the registered entries.
func (r Registrar) AsInstalled(ctx context.Context, of func(names []string) []admit.Route) (Registrar, error) {
	registered, err := r.registered(ctx)
	if err != nil {
		return r, err
	}
	var all configuration
	for _, c := range r.known(registered) {
		all.Annotations, all.Webhooks = labels.Merge(all.Annotations, c.Annotations), append(all.Webhooks, c.ours()...)
	}
	if len(all.Webhooks) == 0 {
		return r, errors.New("--as-installed: usher is not registered, and nothing shows how it was; pass the flags for that instead")
	}
	if other := all.elsewhere(r.At); r.saved == nil && other != "" && !slices.ContainsFunc(all.Webhooks, r.At.isCalledBy) {
		return r, fmt.Errorf("--as-installed: what is registered calls the Service %s, and not %s/%s: pass --service %[1]s",
			other, r.At.Namespace, r.At.Service)
	}
	r.Routes, r.At, r.Force, r.asInstalled = of(NamesOf(all.Webhooks)), r.At.asIn(all), true, true
	if r.saved == nil { // what a keeper restores was chosen
		if r.home, err = r.At.homeOf(all.Webhooks); err != nil {
			return r, err
		}
		if r.At.URL = ""; r.home.URL != nil {
			r.At.URL = baseOf(*r.home.URL)
		}
	}
	return r, nil
}

// homeOf returns the client configuration of an entry that calls the server that most entries call. A Service that is not the one at
// the address does not count.
func (a Address) homeOf(entries []Hook) (*registration.WebhookClientConfig, error) {
	callers, clients := map[string][]string{}, map[string]*registration.WebhookClientConfig{}
	for _, w := range entries {
		if a.isCalledBy(w) {
			server := serverOf(w.ClientConfig)
			callers[server], clients[server] = append(callers[server], w.Name), &w.ClientConfig
		}
	}
	servers := slices.SortedFunc(maps.Keys(callers), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(callers[y]), len(callers[x])), strings.Compare(x, y))
	})
	if first := servers[0]; len(servers) > 1 && len(callers[first]) == len(callers[servers[1]]) {
		return nil, fmt.Errorf("--as-installed: %s calls %s, and %s calls %s: nothing shows which of them is usher; register it where it is, "+
			"with usher webhooks apply --url URL, or --service for a Service, and the flags of its registration in place of --as-installed",
			strings.Join(callers[first], ", "), first, strings.Join(callers[servers[1]], ", "), servers[1])
	}
	return clients[servers[0]], nil
}

// serverOf returns what a client configuration calls, without the path and the port of a Service.
func serverOf(c registration.WebhookClientConfig) string {
	if s := c.Service; s != nil {
		return "the Service " + s.Namespace + "/" + s.Name
	}
	return baseOf(value(c.URL))
}

// NamesOf returns the names of usher's entries by which it is known which suites are registered: of those that call the path of their
// name or, if none does, of all. One that calls another path may have the name of another suite by a mistake.
func NamesOf(entries []Hook) (names []string) {
	for _, w := range entries {
		if callsItsPath(w) {
			names = append(names, w.Name)
		}
	}
	if len(names) == 0 {
		for _, w := range entries {
			names = append(names, w.Name)
		}
	}
	return names
}

// isCalledBy reports whether an entry calls the Service, or a URL.
func (a Address) isCalledBy(w Hook) bool {
	s := w.ClientConfig.Service
	return s == nil || s.Namespace == a.Namespace && s.Name == a.Service
}

// asIn returns the address with what the entries of an installation say of how it was registered.
func (a Address) asIn(all configuration) Address {
	for key, value := range all.Annotations {
		if strings.HasPrefix(key, "cert-manager.io/inject-") || key == injectOpenShift {
			a.Annotations = labels.Merge(a.Annotations, labels.Set{key: value})
		}
	}
	for _, w := range all.Webhooks {
		if url := w.ClientConfig.URL; url != nil && a.URL == "" {
			a.URL = baseOf(*url)
		}
		for _, r := range labelselector.Requirements(w.NamespaceSelector) {
			if r.Key == corev1.LabelMetadataName && r.Operator == metav1.LabelSelectorOpNotIn {
				a.Excluded = append(a.Excluded, r.Values...)
			}
		}
		for _, c := range w.MatchConditions {
			a.SkipKubelets = a.SkipKubelets || c.Name == kubeletCondition
			a.ExcludedPods = append(a.ExcludedPods, excludedPods(c)...)
		}
	}
	return a
}

// baseOf returns a URL without its last part, which is the path of a route, if it has a path.
func baseOf(url string) string {
	url = strings.TrimRight(url, "/")
	if i := strings.LastIndex(url, "/"); i > strings.Index(url, "://")+len("//") {
		return url[:i]
	}
	return url
}

// restore completes what is wanted by what is registered, as AsInstalled says. bare is what is wanted without any choice.
func (r Registrar) restore(wanted *configuration, bare, is configuration) {
	for i, w := range wanted.Webhooks {
		was := is.entry(w.Name)
		if was == nil {
			continue
		}
		next := *was
		next.MatchPolicy, next.SideEffects, next.AdmissionReviewVersions = w.MatchPolicy, w.SideEffects, w.AdmissionReviewVersions
		next.ClientConfig = r.restoredClient(w, was.ClientConfig)
		for _, part := range lacking(*bare.entry(w.Name), *was) {
			switch part.field {
			case "rules":
				next.Rules = w.Rules
			case "namespaceSelector":
				next.NamespaceSelector = w.NamespaceSelector
			case "objectSelector":
				next.ObjectSelector = w.ObjectSelector
			case "matchConditions":
				kept := slices.DeleteFunc(slices.Clone(was.MatchConditions), func(c registration.MatchCondition) bool {
					named := func(own registration.MatchCondition) bool { return own.Name == c.Name }
					return slices.Contains(ownConditions, c.Name) || slices.ContainsFunc(w.MatchConditions, named)
				})
				next.MatchConditions = append(slices.Clone(w.MatchConditions), kept...)
			case "failurePolicy":
				next.FailurePolicy = w.FailurePolicy
			case "reinvocationPolicy":
				next.ReinvocationPolicy = w.ReinvocationPolicy
			}
		}
		wanted.Webhooks[i] = next
	}
}

// restoredClient returns the client configuration of an entry: the URL or the port of the Service that is registered, with the
// right path, and its caBundle, unless this cannot verify what usher serves; in place of another server those of the others.
func (r Registrar) restoredClient(w Hook, is registration.WebhookClientConfig) registration.WebhookClientConfig {
	if r.home != nil && serverOf(is) != serverOf(*r.home) {
		is = *r.home
	}
	next := is
	path := PathOf(w.Name)
	switch {
	case is.URL != nil:
		next.URL = new(baseOf(*is.URL) + path)
	case r.At.isCalledBy(Hook{ClientConfig: is}) && is.Service != nil:
		service := *is.Service
		service.Path, next.Service = &path, &service
	default:
		next = w.ClientConfig
	}
	needed := w.ClientConfig.CABundle
	if is.URL != nil && len(r.At.CABundle) == 0 {
		needed = nil // what the Secret holds is for the Service
	}
	if next.CABundle = is.CABundle; len(r.At.CABundle) > 0 || !trusts(is.CABundle, needed, r.Client.Now()) {
		next.CABundle = w.ClientConfig.CABundle
	}
	return next
}

// trusts reports whether a caBundle consists of certificates that have not expired, those of another one among them.
func trusts(bundle, needed []byte, now time.Time) bool {
	var all [][]byte
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil || now.After(c.NotAfter) {
			return false
		}
		all = append(all, block.Bytes)
	}
	for block, rest := pem.Decode(needed); block != nil; block, rest = pem.Decode(rest) {
		if !slices.ContainsFunc(all, func(der []byte) bool { return bytes.Equal(der, block.Bytes) }) {
			return false
		}
	}
	return len(all) > 0
}
