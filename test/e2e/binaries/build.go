package binaries

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// buildFlags must be the same everywhere: another set of flags compiles a thousand packages again.
const buildFlags = "-trimpath"

// buildDate is constant; otherwise every build would link again.
const buildDate = "2026-08-20T11:51:43Z"

// firstTime is the approximate build time of a program on two cores, after those before it in the list.
var firstTime = map[string]string{APIServer: "3 minutes", Etcd: "10 seconds", Kubectl: "30 seconds", Scheduler: "20 seconds",
	ControllerManager: "40 seconds", Hollow: "30 seconds"}

// Build builds the programs that are missing, and reports its progress to out.
func Build(ctx context.Context, out io.Writer) error {
	folder, err := Folder()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Kubernetes programs: %s\n", folder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(folder, ".lock"), out)
	if err != nil {
		return err
	}
	defer unlock()
	for _, name := range All {
		if err := buildMissing(ctx, out, name); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
	}
	return nil
}

// lock prevents a second build from doing the same work concurrently. The lock is released when the process ends.
func lock(name string, out io.Writer) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		fmt.Fprintln(out, "waiting for another build into this folder…")
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
			return nil, err
		}
	}
	return func() { _ = file.Close() }, nil
}

func buildMissing(ctx context.Context, out io.Writer, name string) error {
	file, err := Path(name)
	if err != nil {
		return err
	}
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	fmt.Fprintf(out, "building %s, about %s the first time…\n", name, firstTime[name])
	stop := every(30*time.Second, func(since time.Duration) { fmt.Fprintf(out, "  still building %s, %s\n", name, since) })
	defer stop()
	started := time.Now()
	if err := build(ctx, out, packages[name], file); err != nil {
		return err
	}
	fmt.Fprintf(out, "  %s is built, %s\n", name, time.Since(started).Round(time.Second/10))
	return nil
}

// build builds a package into a file. The file is complete as soon as it exists.
func build(ctx context.Context, out io.Writer, from, file string) error {
	module, err := Module()
	if err != nil {
		return err
	}
	modules, err := chosen(module)
	if err != nil {
		return err
	}
	unfinished := fmt.Sprintf("%s.%d.tmp", file, os.Getpid())
	defer os.Remove(unfinished) // exists only after a failure
	args := append([]string{"build", buildFlags, "-ldflags", linkFlags(modules.kubernetes), "-o", unfinished}, modules.buildArguments()...)
	cmd := exec.CommandContext(ctx, "go", append(args, from)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = module, out, out
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go removes its work directory then
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return err
	}
	return os.Rename(unfinished, file)
}

// linkFlags set the version. Without it, a server returns a placeholder at /version that kubectl cannot parse.
func linkFlags(version string) string {
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	flags := "-s -w"
	for _, in := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, stamp := range []string{"gitVersion=" + version, "gitMajor=" + numbers[0], "gitMinor=" + numbers[1],
			"gitTreeState=clean", "gitCommit=module", "buildDate=" + buildDate} {
			flags += " -X " + in + "." + stamp
		}
	}
	return flags
}

// every calls tell periodically until stop is called.
func every(period time.Duration, tell func(since time.Duration)) (stop func()) {
	started, ticker, done := time.Now(), time.NewTicker(period), make(chan struct{})
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				tell(time.Since(started).Round(time.Second))
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}
