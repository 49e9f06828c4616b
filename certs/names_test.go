package certs

import (
	"strings"
	"testing"
)

// TestSplitNames: the names that a serving certificate may contain.
func TestSplitNames(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, c := range []struct {
		name     string
		dns, ips int
	}{
		{"usher.shop.svc", 1, 0}, {"localhost", 1, 0}, {"*.shop.svc", 1, 0}, {"Usher.Example.COM", 1, 0}, {"1e3", 1, 0},
		{"127.0.0.1", 0, 1}, {"::1", 0, 1}, {"2001:db8::1", 0, 1},
		{long + ".svc", 1, 0}, {long + "a.svc", 0, 0}, {strings.Repeat(long+".", 3) + long[:61], 1, 0}, {strings.Repeat(long+".", 3) + long, 0, 0},
		{"", 0, 0}, {"*", 0, 0}, {"a.*.svc", 0, 0}, {"-a", 0, 0}, {"a-.svc", 0, 0}, {"a..b", 0, 0}, {"a_b", 0, 0}, {"a.", 0, 0}, {"256.1.1.1.", 0, 0}, {"fe80::1%eth0", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dns, ips, err := splitNames([]string{c.name})
			if len(dns) != c.dns || len(ips) != c.ips || (err == nil) != (c.dns+c.ips > 0) {
				t.Errorf("%v, %v, %v", dns, ips, err)
			}
		})
	}
}
