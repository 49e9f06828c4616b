package binaries

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// prometheusHint says what to do if Prometheus is not found.
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
	if err := unpackDebian(ctx, "prometheus", folder); err != nil {
		return "", "", fmt.Errorf("%s: %w", prometheusHint, err)
	}
	return filepath.Join(folder, "usr/bin/prometheus"), filepath.Join(folder, "usr/bin/promtool"), nil
}
