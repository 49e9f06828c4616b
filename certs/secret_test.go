package certs

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestSecretManifest(t *testing.T) {
	ca := newAuthority(t, now)
	leaf := issue(t, ca, now, "usher.1e3.svc")
	text, err := SecretManifest("1e3/usher", "null", ca, leaf)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"apiVersion: v1", "kind: Secret", "type: kubernetes.io/tls",
		`  name: "null"`, `  namespace: "1e3"`, "    app.kubernetes.io/name: usher", // quoted: or YAML sees no strings
	} {
		if !slices.Contains(strings.Split(string(text), "\n"), line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	_, entries, _ := strings.Cut(string(text), "\ndata:\n")
	data := make(map[string]string)
	for entry := range strings.Lines(entries) {
		name, value, _ := strings.Cut(strings.TrimSpace(entry), ": ")
		decoded, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		data[name] = string(decoded)
	}
	// The complete data: the CA key is not part of it.
	want := map[string]string{"ca.crt": string(ca.Cert), "tls.crt": string(leaf.Cert), "tls.key": string(leaf.Key)}
	if !maps.Equal(data, want) {
		t.Errorf("data is %q, want %q", data, want)
	}
	if again, _ := SecretManifest("1e3/usher", "null", ca, leaf); !bytes.Equal(text, again) {
		t.Error("a second time gives another text")
	}
}

func TestSecretManifestRefuses(t *testing.T) {
	ca := newAuthority(t, now)
	leaf := issue(t, ca, now, "usher.shop.svc")
	both := Pair{Cert: slices.Concat(ca.Cert, ca.Key), Key: ca.Key}
	for _, test := range []struct {
		name, service, secret string
		ca, leaf              Pair
		want                  string
	}{
		{"no namespace", "usher", "tls", ca, leaf, "namespace/name"},
		{"bad name", "shop/usher", "a: b", ca, leaf, `secret name "a: b"`},
		{"long name", "shop/usher", strings.Repeat("a", 254), ca, leaf, "secret name"},
		{"long service", "shop/" + strings.Repeat("a", 64), "tls", ca, leaf, "at most 63"},
		{"other service", "other/usher", "tls", ca, leaf, "does not cover usher.other.svc but usher.shop.svc"},
		{"key of another", "shop/usher", "tls", ca, Pair{leaf.Cert, ca.Key}, "the serving key"},
		{"no CA", "shop/usher", "tls", Pair{}, leaf, "the CA certificate"},
		{"CA with its key", "shop/usher", "tls", both, leaf, "private key"},
	} {
		text, err := SecretManifest(test.service, test.secret, test.ca, test.leaf)
		if err == nil || !strings.Contains(err.Error(), test.want) || text != nil {
			t.Errorf("%s: error %v, want one with %q and no text", test.name, err, test.want)
		}
	}
}
