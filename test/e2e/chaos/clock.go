package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// jumpVariable is the environment variable with the seconds by which the clock of a jumping usher jumps.
const jumpVariable = "USHER_CLOCK_JUMP"

// jumpClock lets the clock of one replica jump a day ahead, and the other's a day back, 5 s after their start.
func jumpClock(ctx context.Context, w *world) error {
	jumping, err := w.buildJumping(ctx)
	if err != nil {
		return err
	}
	usual := w.usher.Binary()
	w.usher.SetBinary(jumping)
	for i, jump := range []string{"86400", "-86400"} {
		if err := os.Setenv(jumpVariable, jump); err != nil {
			return err
		}
		if err := w.usher.Replicas[i].Restart(ctx); err != nil {
			return err
		}
		if err := w.usher.Balancer.Wait(ctx, replicas); err != nil {
			return err
		}
	}
	kubetest.Pause(ctx, 30*time.Second)
	w.usher.SetBinary(usual)
	return rollOut(ctx, w)
}

// jump is added to package time: what time.Now adds to the seconds of the clock.
const jump = `
var jumpBy = func() int64 {
	text, _ := syscall.Getenv("` + jumpVariable + `")
	sign, by := int64(1), int64(0)
	for _, c := range text {
		if c == '-' {
			sign = -1
		} else {
			by = by*10 + int64(c-'0')
		}
	}
	return sign * by
}()

func jumped(mono int64) int64 {
	if mono-startNano < int64(5*Second) {
		return 0
	}
	return jumpBy
}
`

// buildJumping builds usher with a clock that jumps: the same program, with another package time.
func (w *world) buildJumping(ctx context.Context) (string, error) {
	source := filepath.Join(runtime.GOROOT(), "src", "time", "time.go") //nolint:staticcheck // it runs where it was built
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	const now = "sec, nsec, mono := runtimeNow()"
	before, after, found := strings.Cut(string(text), now)
	if !found {
		return "", fmt.Errorf("%s: time.Now is not as this test knows it", source)
	}
	changed := strings.Replace(before, "import (", "import (\n\t\"syscall\"", 1) + now + "\n\tsec += jumped(mono)" + after + jump
	dir, file := w.cluster.Dir(), filepath.Join(w.cluster.Dir(), "usher-jumping")
	if err := os.WriteFile(filepath.Join(dir, "time.go"), []byte(changed), 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: filepath.Join(dir, "time.go")}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", file, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if build.Dir, err = kubetest.Repository(); err != nil {
		return "", err
	}
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build usher with another clock: %w\n%s", err, out)
	}
	return file, nil
}
