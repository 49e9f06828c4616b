package rotation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	registration "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/internal/apiserver"
)

// BundleManager is the field manager that writes caBundles.
const BundleManager = "usher-ca-bundle"

// Collections are the collections of webhook configurations, and Configuration is the name of usher's in both.
var Collections = []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}

// Configuration is the name of both webhook configurations.
const Configuration = "usher"

// Target is the server that an entry of a webhook configuration calls.
type Target struct {
	Namespace, Service string
	Hosts              []string // of URLs
}

// TargetOf returns the target of a Service, as namespace/name.
func TargetOf(service string) Target {
	namespace, name, _ := strings.Cut(service, "/")
	return Target{Namespace: namespace, Service: name}
}

// configuration is a webhook configuration of either kind that was read, in the form of a mutating one.
type configuration struct {
	path string
	raw  []byte
	registered
	ours []int // the entries that call this Service
}

type registered = registration.MutatingWebhookConfiguration

func configurationPath(collection string) string {
	return "/apis/admissionregistration.k8s.io/v1/" + collection + "/" + Configuration
}

// readConfigurations reads both configurations; a missing one has no entries.
func readConfigurations(ctx context.Context, c apiserver.Client, target Target) (all []configuration, err error) {
	for _, collection := range Collections {
		path := configurationPath(collection)
		raw, err := c.Get(ctx, path)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", collection, Configuration, err)
		}
		one := configuration{path: path, raw: raw}
		if err := json.Unmarshal(raw, &one.registered); err != nil {
			return nil, fmt.Errorf("%s/%s: it cannot be decoded", collection, Configuration)
		}
		for i, w := range one.Webhooks {
			if target.isCalledBy(w.ClientConfig) {
				one.ours = append(one.ours, i)
			}
		}
		all = append(all, one)
	}
	return all, nil
}

func (t Target) isCalledBy(c registration.WebhookClientConfig) bool {
	if c.Service != nil {
		return c.Service.Namespace == t.Namespace && c.Service.Name == t.Service
	}
	if c.URL == nil {
		return false
	}
	at, err := url.Parse(*c.URL)
	return err == nil && slices.Contains(t.Hosts, at.Hostname())
}

// name returns a configuration's collection and name.
func (c configuration) name() string { return c.path[strings.Index(c.path, "/v1/")+len("/v1/"):] }

// bundles returns the caBundles of the entries that call this Service.
func (c configuration) bundles() (all [][]byte) {
	for _, i := range c.ours {
		all = append(all, c.Webhooks[i].ClientConfig.CABundle)
	}
	return all
}

// wrong returns the entries whose caBundle holds other certificates than bundle, which is from Bundle, or something damaged.
func (c configuration) wrong(bundle []byte) (entries []int) {
	for _, i := range c.ours {
		is := c.Webhooks[i].ClientConfig.CABundle
		if bytes.Equal(is, bundle) {
			continue
		}
		all := parseAll(is)
		if !bytes.Equal(encode(all), bundle) || bytes.Count(is, []byte("-----BEGIN")) != len(all) {
			entries = append(entries, i)
		}
	}
	return entries
}

// write sets the caBundle of entries, and nothing else, at the version that was read. It is an update, and not a
// server-side apply: a manager that applies part of an entry owns the entry too, and the entry could then not be removed
// by others who apply: the API server would keep its caBundle alone, and refuse what is left as invalid.
func (c configuration) write(ctx context.Context, client apiserver.Client, entries []int, bundle []byte) error {
	text, err := withBundle(c.raw, entries, bundle)
	if err == nil {
		_, err = client.Update(ctx, c.path, BundleManager, text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.name(), err)
	}
	return nil
}

// withBundle returns a configuration with the caBundle of some entries set, and everything else as it is.
func withBundle(raw []byte, entries []int, bundle []byte) ([]byte, error) {
	var object, entry, client map[string]json.RawMessage
	var webhooks []json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(object["webhooks"], &webhooks); err != nil {
		return nil, err
	}
	for _, i := range entries {
		entry, client = nil, nil
		if err := json.Unmarshal(webhooks[i], &entry); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(entry["clientConfig"], &client); err != nil {
			return nil, err
		}
		client["caBundle"], _ = json.Marshal(bundle)
		entry["clientConfig"], _ = json.Marshal(client)
		webhooks[i], _ = json.Marshal(entry)
	}
	object["webhooks"], _ = json.Marshal(webhooks)
	return json.Marshal(object)
}

// writer returns the field manager other than usher's that last wrote the caBundle of an entry, or "".
func (c configuration) writer(entry int) (name string) {
	var last metav1.Time
	for _, m := range c.owners(entry) {
		if m.Manager != BundleManager && (m.Time == nil || !m.Time.Before(&last)) {
			name = m.Manager
			if m.Time != nil {
				last = *m.Time
			}
		}
	}
	return name
}

// changed returns when one of the caBundles was last changed at the latest, by the API server's clock, or false if that is not known.
func (c configuration) changed() (last time.Time, known bool) {
	for _, i := range c.ours {
		owners := c.owners(i)
		for _, m := range owners {
			if m.Time == nil {
				return last, false
			}
			last = later(last, m.Time.Time)
		}
		if len(owners) == 0 {
			return last, false
		}
	}
	return last, true
}

// owners returns what is noted of the field managers that own the caBundle of an entry.
func (c configuration) owners(entry int) (all []metav1.ManagedFieldsEntry) {
	for _, m := range c.ManagedFields {
		if _, owns := Owned(m, c.Webhooks[entry].Name)["f:clientConfig"]["f:caBundle"]; owns {
			all = append(all, m)
		}
	}
	return all
}

// Owned returns the fields of an entry that a field manager owns, and their parts, in the form of managedFields.
func Owned(m metav1.ManagedFieldsEntry, entry string) map[string]map[string]json.RawMessage {
	var fields struct {
		Webhooks map[string]map[string]map[string]json.RawMessage `json:"f:webhooks"`
	}
	if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
		return nil
	}
	return fields.Webhooks[fmt.Sprintf(`k:{"name":%q}`, entry)]
}
