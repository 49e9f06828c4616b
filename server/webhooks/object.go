package webhooks

import (
	"encoding/json"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// configuration is a webhook configuration of either kind, in the form of a mutating one. A field that it does not know
// is never sent, and so never changed: it is written by server-side apply only.
type configuration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Webhooks          []Hook `json:"webhooks,omitempty"`
}

// entrySuffix ends the names of all entries that are usher's.
const entrySuffix = ".usher.dev"

// path returns the path of a configuration in the API.
func (c configuration) path() string {
	return "/apis/" + c.APIVersion + "/" + strings.ToLower(c.Kind) + "s/" + c.Name
}

// readConfiguration decodes an answer of the API server.
func readConfiguration(raw []byte) (c configuration, err error) {
	return c, json.Unmarshal(raw, &c)
}

// entry returns the entry of that name, or nil.
func (c configuration) entry(name string) *Hook {
	if i := slices.IndexFunc(c.Webhooks, func(w Hook) bool { return w.Name == name }); i >= 0 {
		return &c.Webhooks[i]
	}
	return nil
}

// stale returns the names of usher's entries in c that are not in needed.
func (c configuration) stale(needed configuration) (names []string) {
	for _, w := range c.ours() {
		if needed.entry(w.Name) == nil {
			names = append(names, w.Name)
		}
	}
	return names
}

// ours returns usher's entries.
func (c configuration) ours() []Hook {
	return slices.DeleteFunc(slices.Clone(c.Webhooks), func(w Hook) bool { return !isUshers(w) })
}

func isUshers(w Hook) bool { return strings.HasSuffix(w.Name, entrySuffix) }

// elsewhere returns the Service, as namespace/name, that usher's entries call if it is not the one at an address; else "".
func (c configuration) elsewhere(at Address) string {
	for _, w := range c.ours() {
		if !at.isCalledBy(w) {
			return w.ClientConfig.Service.Namespace + "/" + w.ClientConfig.Service.Name
		}
	}
	return ""
}

// others returns the names of the entries that are not usher's.
func (c configuration) others() (names []string) {
	for _, w := range c.Webhooks {
		if !isUshers(w) {
			names = append(names, w.Name)
		}
	}
	return names
}

// bundle returns the caBundle of any entry of usher's, or nil.
func (c configuration) bundle() []byte {
	for _, w := range c.ours() {
		if len(w.ClientConfig.CABundle) > 0 {
			return w.ClientConfig.CABundle
		}
	}
	return nil
}

// text returns what is sent: without a caBundle or a field of metadata that is empty, and without what is left to others.
func (c configuration) text(leave []written) []byte {
	var entries []map[string]any
	for _, w := range c.Webhooks {
		entries = append(entries, entryText(w, leave))
	}
	text, err := json.Marshal(struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]any   `json:"metadata"`
		Webhooks        []map[string]any `json:"webhooks,omitempty"`
	}{c.TypeMeta, c.metadata(), entries})
	if err != nil {
		panic(err) // these types can always be encoded
	}
	return text
}

// metadata returns the fields of metadata that usher sets.
func (c configuration) metadata() map[string]any {
	m := map[string]any{"name": c.Name, "labels": c.Labels}
	if len(c.Annotations) > 0 {
		m["annotations"] = c.Annotations
	}
	if c.ResourceVersion != "" {
		m["resourceVersion"] = c.ResourceVersion
	}
	return m
}

// openFailing returns a copy in which usher's entries without a caBundle have failurePolicy Ignore, and whether there are
// any: the API server could not call them.
func (c configuration) openFailing() (configuration, bool) {
	c.Webhooks = slices.Clone(c.Webhooks)
	found := false
	for i, w := range c.Webhooks {
		if isUshers(w) && w.ClientConfig.Service != nil && len(w.ClientConfig.CABundle) == 0 {
			c.Webhooks[i].FailurePolicy, found = new(registration.Ignore), true
		}
	}
	return c, found
}
