package binaries

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// prometheusHint is what to do if Prometheus is not found.
const prometheusHint = "prometheus and promtool are not in the PATH; on Debian and Ubuntu they are unpacked from the package " +
	"prometheus, if `apt-get update` has been run; elsewhere install them (such as `brew install prometheus`), or unpack a release of " +
	"Prometheus into a folder of the PATH"

// Prometheus returns the paths of prometheus and promtool. If they are not in the PATH, it unpacks them from the Debian
// package into the cache, which needs neither root nor an installation.
func Prometheus(ctx context.Context) (prometheus, promtool string, err error) {
	prometheus, err = exec.LookPath("prometheus")
	promtool, missing := exec.LookPath("promtool")
	if err == nil && missing == nil {
		return prometheus, promtool, nil
	}
	cache, err := cacheHome()
	if err != nil {
		return "", "", err
	}
	folder := filepath.Join(cache, "usher-e2e", "prometheus")
	if err := unpackPrometheus(ctx, folder); err != nil {
		return "", "", fmt.Errorf("%s: %w", prometheusHint, err)
	}
	return filepath.Join(folder, "usr/bin/prometheus"), filepath.Join(folder, "usr/bin/promtool"), nil
}

// unpackPrometheus unpacks the Debian package into a folder, unless it is there. The folder is complete as soon as it
// exists.
func unpackPrometheus(ctx context.Context, folder string) error {
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(folder), "prometheus-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := command(ctx, work, "apt-get", "download", "prometheus"); err != nil {
		return err
	}
	packages, _ := filepath.Glob(filepath.Join(work, "*.deb"))
	if len(packages) != 1 {
		return fmt.Errorf("apt-get download brought %d packages", len(packages))
	}
	unpacked := filepath.Join(work, "unpacked")
	if err := command(ctx, work, "dpkg", "-x", packages[0], unpacked); err != nil {
		return err
	}
	err = os.Rename(unpacked, folder)
	if _, there := os.Stat(folder); there == nil {
		return nil // by this process, or by another one at the same time
	}
	return err
}

func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}
