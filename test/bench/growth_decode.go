package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/bench/report"
)

// decoding is the subcommand of decodeWatch.
const decoding = "decoding"

// decodePods returns the seconds of CPU that a process takes to decode the pods of a cluster, and to do nothing with them: the
// least that a program takes which decodes what it watches.
func (b *bench) decodePods(ctx context.Context, server string) (seconds float64, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, self, decoding, server)
	cmd.Env, cmd.Stderr = append(os.Environ(), "GOMAXPROCS=1"), os.Stderr
	cmd.SysProcAttr = childAttributes()
	if err := b.onServerCore(cmd.Start); err != nil {
		return 0, err
	}
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("decoding the pods: %w", err)
	}
	return report.Rounded((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), 3), nil
}

// decodeWatch decodes the initial events of a watch of all pods as Go programs do.
func decodeWatch(ctx context.Context, server string, out io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/api/v1/pods?watch=true&sendInitialEvents=true", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	events, pods := json.NewDecoder(response.Body), 0
	for ; ; pods++ {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := events.Decode(&event); err != nil {
			return err
		}
		if event.Type == "BOOKMARK" {
			_, err := fmt.Fprintln(out, pods)
			return err
		}
		if err := json.Unmarshal(event.Object, new(corev1.Pod)); err != nil {
			return err
		}
	}
}
