package main

import (
	"context"
	"syscall"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// Faults of usher's processes.

func terminate(ctx context.Context, w *world) error {
	if err := w.usher.Replicas[1].Restart(ctx); err != nil {
		return err
	}
	return w.usher.Balancer.Wait(ctx, replicas)
}

func kill(ctx context.Context, w *world) error {
	w.usher.Replicas[1].Kill()
	kubetest.Pause(ctx, time.Second)
	if err := w.usher.Replicas[1].Start(ctx); err != nil {
		return err
	}
	return w.usher.Balancer.Wait(ctx, replicas)
}

func rollOut(ctx context.Context, w *world) error {
	for _, r := range w.usher.Replicas {
		if err := r.Restart(ctx); err != nil {
			return err
		}
		if err := w.usher.Balancer.Wait(ctx, replicas); err != nil {
			return err
		}
	}
	return nil
}

func killAll(ctx context.Context, w *world) error {
	w.killReplicas()
	kubetest.Pause(ctx, 3*time.Second)
	return w.startReplicas(ctx)
}

func (w *world) killReplicas() {
	for _, r := range w.usher.Replicas {
		r.Kill()
	}
}

func (w *world) startReplicas(ctx context.Context) error {
	for _, r := range w.usher.Replicas {
		if err := r.Start(ctx); err != nil {
			return err
		}
	}
	return w.usher.Balancer.Wait(ctx, replicas)
}

// restartWith replaces the replicas one after the other by such with other flags.
func (w *world) restartWith(ctx context.Context, flags ...string) error {
	w.usher.SetFlags(flags...)
	return rollOut(ctx, w)
}

// starve gives each replica a tenth of a CPU, in slices as the kernel's bandwidth control does.
func starve(ctx context.Context, w *world) error {
	for range 100 {
		for _, step := range []struct {
			signal syscall.Signal
			wait   time.Duration
		}{{syscall.SIGSTOP, 90 * time.Millisecond}, {syscall.SIGCONT, 10 * time.Millisecond}} {
			for _, r := range w.usher.Replicas {
				if err := r.Signal(step.signal); err != nil {
					return err
				}
			}
			kubetest.Pause(ctx, step.wait)
		}
	}
	return nil
}
