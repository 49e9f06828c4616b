package rotation

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	registration "k8s.io/api/admissionregistration/v1"
)

func TestCalledBy(t *testing.T) {
	target := Target{Namespace: "usher", Service: "usher", Hosts: []string{"usher.usher.svc", "localhost", "127.0.0.1", "::1"}}
	service := func(namespace, name string) registration.WebhookClientConfig {
		return registration.WebhookClientConfig{Service: &registration.ServiceReference{Namespace: namespace, Name: name}}
	}
	at := func(url string) registration.WebhookClientConfig { return registration.WebhookClientConfig{URL: &url} }
	for _, c := range []struct {
		config registration.WebhookClientConfig
		want   bool
	}{
		{service("usher", "usher"), true}, {service("usher", "other"), false}, {service("other", "usher"), false},
		{at("https://localhost:9443/x"), true}, {at("https://127.0.0.1/x"), true}, {at("https://[::1]:9443"), true},
		{at("https://usher.usher.svc/x"), true}, {at("https://example.com/localhost"), false}, {at("https://localhost@example.com/"), false},
		{at("::"), false}, {registration.WebhookClientConfig{}, false},
	} {
		if got := target.isCalledBy(c.config); got != c.want {
			t.Errorf("%s: %v", c.config.String(), got)
		}
	}
}

// TestOnlyTheBundleChanges: what usher does not know, and entries of others, stay as they are.
func TestOnlyTheBundleChanges(t *testing.T) {
	const text = `{"metadata":{"name":"usher","resourceVersion":"7"},"new":[1.50,{"x":1e400}],"webhooks":[%s,` +
		`{"name":"theirs","clientConfig":{"caBundle":"dGhlaXJz","service":{"namespace":"other"}},"odd":9007199254740993}]}`
	before := fmt.Sprintf(text, `{"clientConfig":{"deep":{"er":null},"url":"https://localhost"},"name":"ours","odd":[[]]}`)
	want := fmt.Sprintf(text, `{"clientConfig":{"caBundle":"Yg==","deep":{"er":null},"url":"https://localhost"},"name":"ours","odd":[[]]}`)
	got, err := withBundle([]byte(before), []int{0}, []byte("b"))
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

func TestWrongBundles(t *testing.T) {
	o, other := installed(t), installed(t)
	bundle := o.state.Bundle
	both := slices.Concat(other.state.Bundle, bundle)
	for name, c := range map[string]struct {
		is    []byte
		wrong bool
	}{
		"the same": {bundle, false}, "with a comment": {append([]byte("# CA\n"), bundle...), false}, "twice": {slices.Concat(bundle, bundle), false},
		"none": {nil, true}, "another": {other.state.Bundle, true}, "one more": {both, true}, "damaged": {bundle[:len(bundle)-40], true},
		"half of a second one": {slices.Concat(bundle, bundle[:100]), true},
	} {
		var read registered
		text, _ := json.Marshal(map[string]any{"webhooks": []any{map[string]any{"name": "a", "clientConfig": map[string]any{"caBundle": c.is}}}})
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		if got := len((configuration{registered: read, ours: []int{0}}).wrong(bundle)) > 0; got != c.wrong {
			t.Errorf("%s: wrong %v", name, got)
		}
	}
}

// TestWriter: the field manager that wrote a caBundle is named, and usher itself is not.
func TestWriter(t *testing.T) {
	entry := func(manager, time, fields string) string {
		return fmt.Sprintf(`{"manager":%q,"time":%q,"fieldsV1":{"f:webhooks":{"k:{\"name\":\"a\"}":%s}}}`, manager, time, fields)
	}
	const owns = `{"f:clientConfig":{"f:caBundle":{}}}`
	for want, entries := range map[string][]string{
		"":      {entry(BundleManager, "2026-01-01T00:00:00Z", owns), entry("flux", "2026-01-02T00:00:00Z", `{"f:rules":{}}`)},
		"argo":  {entry(BundleManager, "2026-01-01T00:00:00Z", owns), entry("argo", "2026-01-02T00:00:00Z", owns)},
		"later": {entry("later", "2026-01-03T00:00:00Z", owns), entry("argo", "2026-01-02T00:00:00Z", owns)},
	} {
		var read registered
		text := `{"metadata":{"managedFields":[` + strings.Join(entries, ",") + `]},"webhooks":[{"name":"a"}]}`
		if err := json.Unmarshal([]byte(text), &read); err != nil {
			t.Fatal(err)
		}
		if got := (configuration{registered: read}).writer(0); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestChanged: the caBundles of a configuration are as old as what was written last of those that call this Service.
func TestChanged(t *testing.T) {
	owner := func(time, entry string) string {
		return fmt.Sprintf(`{"manager":"x",%s"fieldsV1":{"f:webhooks":{"k:{\"name\":\"%s\"}":{"f:clientConfig":{"f:caBundle":{}}}}}}`, time, entry)
	}
	const first, second = `"time":"2026-01-01T00:00:00Z",`, `"time":"2026-01-02T00:00:00Z",`
	for name, c := range map[string]struct {
		owners []string
		want   string // "": not known
	}{
		"one owner":         {[]string{owner(first, "a"), owner(first, "b")}, "2026-01-01"},
		"two owners":        {[]string{owner(second, "a"), owner(first, "a"), owner(first, "b")}, "2026-01-02"},
		"the other entry":   {[]string{owner(first, "a"), owner(second, "b")}, "2026-01-02"},
		"another's entry":   {[]string{owner(first, "a"), owner(first, "b"), owner(second, "c")}, "2026-01-01"},
		"without an owner":  {[]string{owner(first, "a")}, ""},
		"without a time":    {[]string{owner(first, "a"), owner("", "b")}, ""},
		"nothing was noted": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var read registered
			text := `{"metadata":{"managedFields":[` + strings.Join(c.owners, ",") + `]},"webhooks":[{"name":"a"},{"name":"b"},{"name":"c"}]}`
			if err := json.Unmarshal([]byte(text), &read); err != nil {
				t.Fatal(err)
			}
			got, known := configuration{registered: read, ours: []int{0, 1}}.changed()
			if known != (c.want != "") || known && got.UTC().Format(time.DateOnly) != c.want {
				t.Errorf("%s, %v; want %s", got, known, c.want)
			}
		})
	}
}

// FuzzDecode: whatever the Secrets hold is read, and what is read is stored as it is.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("damaged"), []byte("damaged"), []byte("-----BEGIN CERTIFICATE-----"), []byte(`{"x": "2026"}`))
	first, _, err := plan.Advance(State{}, View{Now: start, Settled: func(*x509.Certificate) bool { return true }})
	if err != nil {
		f.Fatal(err)
	}
	data := caData(first)
	f.Add(data[activeCert], data[activeKey], first.Leaf.Cert, data[leavesEnd])
	f.Fuzz(func(t *testing.T, cert, key, leaf, ends []byte) {
		var ca, tls stored
		ca.secret.Data = map[string][]byte{activeCert: cert, activeKey: key, nextCert: leaf, nextKey: key, retiredCerts: cert, leavesEnd: ends}
		tls.secret.Data = map[string][]byte{"tls.crt": leaf, "tls.key": key, "ca.crt": cert}
		state := decode(ca, tls)
		ca.secret.Data, tls.secret.Data = caData(state), tlsData(state)
		if again := decode(ca, tls); !reflect.DeepEqual(again, state) {
			t.Errorf("%+v\n%+v", again, state)
		}
	})
}
