// Package memetcd runs the test of usherctl that needs an etcd.
package memetcd

import (
	"os"
	"os/exec"
	"testing"

	"usher.dev/usher/e2e/binaries"
)

// TestBesideEtcd: etcd in memory answers as etcd does.
func TestBesideEtcd(t *testing.T) {
	etcd, err := binaries.Find(binaries.Etcd)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "test", "-count=1", "-run=TestBesideEtcd", "./engine/memetcd")
	c.Dir = "../../../usherctl"
	c.Env = append(os.Environ(), "USHER_TEST_ETCD="+etcd, "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
