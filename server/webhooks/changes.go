package webhooks

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
)

// changes returns, one a line, what differs between a registered configuration and the same after it was applied.
func changes(before, after configuration, stale []string) (lines []string) {
	for _, key := range slices.Sorted(maps.Keys(after.Annotations)) {
		if was := before.Annotations[key]; was != after.Annotations[key] {
			lines = append(lines, fmt.Sprintf("~ %s %s: annotation %s: %s -> %s", after.Kind, after.Name, key, cmp.Or(was, "none"), after.Annotations[key]))
		}
	}
	for _, w := range after.Webhooks {
		was := before.entry(w.Name)
		if slices.Contains(stale, w.Name) {
			continue
		}
		if was == nil {
			lines = append(lines, fmt.Sprintf("+ %s: is called for %s; failurePolicy %s", w.Name, rulesText(w.Rules), value(w.FailurePolicy)))
			continue
		}
		for _, part := range differing(w, *was) {
			lines = append(lines, fmt.Sprintf("~ %s: %s: %s -> %s", w.Name, part.field, part.is, part.want))
		}
	}
	for _, w := range before.Webhooks {
		if slices.Contains(stale, w.Name) || after.entry(w.Name) == nil {
			lines = append(lines, fmt.Sprintf("- %s: is no longer needed", w.Name))
		}
	}
	return lines
}

// target returns the Service or the URL that the API server calls.
func target(c registration.WebhookClientConfig) string {
	if c.Service == nil {
		return value(c.URL)
	}
	return fmt.Sprintf("Service %s/%s port %d %s", c.Service.Namespace, c.Service.Name, value(c.Service.Port), value(c.Service.Path))
}

// bundleText returns which certificates a caBundle has.
func bundleText(bundle []byte) string {
	var all []string
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		name := "unreadable"
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			name = c.Subject.CommonName + " until " + c.NotAfter.UTC().Format("2006-01-02")
		}
		all = append(all, fmt.Sprintf("%s (sha256 %.4x)", name, sha256.Sum256(block.Bytes)))
	}
	if len(bundle) > 0 && len(all) == 0 {
		return "unreadable"
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// value returns what p points to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
