package binaries

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// unpackDebian unpacks a Debian package into a folder, unless it is there. The folder is complete as soon as it exists. It
// needs neither root nor an installation.
func unpackDebian(ctx context.Context, name, folder string) error {
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(folder), name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := command(ctx, work, "apt-get", "download", name); err != nil {
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
