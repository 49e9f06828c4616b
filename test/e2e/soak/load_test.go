package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// createPods creates pods and removes them again. Every fifth one must be refused.
func (s *soak) createPods(ctx context.Context, random *rand.Rand, client int) {
	for n := 0; ctx.Err() == nil; n++ {
		name, offensive := fmt.Sprintf("pod-%d-%d", client, n), n%5 == 4
		if offensive {
			name = "offensive-" + name
		}
		labels := kubetest.Object{}
		if random.IntN(2) == 0 {
			labels["acme.com/lifespan-requested"] = strconv.Itoa(random.IntN(15))
		}
		began := time.Now()
		pod, err := s.create(ctx, name, labels)
		if ctx.Err() != nil {
			return
		}
		s.judge(name, offensive, began, pod, err)
		kubetest.Pause(ctx, time.Duration(random.IntN(50))*time.Millisecond)
	}
}

const podsPath = "/api/v1/namespaces/apps/pods"

// create creates a pod that no node runs, and deletes it if it was stored.
func (s *soak) create(ctx context.Context, name string, labels kubetest.Object) (kubetest.Object, error) {
	pod, err := s.admin.Create(ctx, podsPath, kubetest.Object{"apiVersion": "v1", "kind": "Pod",
		"metadata": kubetest.Object{"name": name, "labels": labels},
		"spec": kubetest.Object{"schedulerName": "nobody",
			"containers": []kubetest.Object{{"name": "c", "image": "pause"}}}})
	if err == nil {
		_, _ = s.admin.Delete(ctx, podsPath+"/"+name) // may fail during a restart of the API server; another pod does no harm
	}
	return pod, err
}

// judge compares the result for a pod with the expected one.
func (s *soak) judge(name string, offensive bool, began time.Time, pod kubetest.Object, err error) {
	var refusal *kubetest.StatusError
	excuse := s.excuses.of(began)
	switch {
	case err == nil && offensive:
		s.t.Errorf("%s is stored (%s)", name, excuse)
	case err == nil:
		s.counts.Add("stored", 1)
		s.checkSeated(pod)
	case errors.As(err, &refusal) && refusal.Code == 403 && strings.Contains(refusal.Message, "denied-names"):
		if !offensive {
			s.t.Errorf("%s is denied: %v", name, err)
		}
		s.counts.Add("denied", 1)
	case excuse != "":
		s.counts.Add("refused: "+excuse, 1)
	default:
		s.t.Errorf("%s is refused after %s, and nothing excuses it: %v\n%s",
			name, time.Since(began), err, s.excuses.before(time.Now()))
		s.counts.Add("refused without excuse", 1)
	}
}

// watchNodes checks the size that nodes show: 16 cores are real, 32 are amplified once, and capacity does not change.
func (s *soak) watchNodes(ctx context.Context) {
	for ; ctx.Err() == nil; kubetest.Pause(ctx, 100*time.Millisecond) {
		list, err := s.admin.Get(ctx, "/api/v1/nodes")
		if err != nil {
			continue // the API server restarts
		}
		for _, node := range list.List("items") {
			allocatable, capacity := node.String("status", "allocatable", "cpu"), node.String("status", "capacity", "cpu")
			if allocatable != "16" && allocatable != "32" || capacity != "16" {
				s.t.Errorf("%s shows %s of %s cores", node.String("metadata", "name"), allocatable, capacity)
			}
			s.counts.Add("nodes looked at, with "+allocatable+" cores", 1)
		}
	}
}

// rollOut restarts the Deployment every ten seconds.
func (s *soak) rollOut(ctx context.Context) {
	for ; ctx.Err() == nil; kubetest.Pause(ctx, 10*time.Second) {
		_, err := s.cluster.Kubectl(ctx, "-n", "apps", "rollout", "restart", "deployment/web")
		if err == nil {
			s.counts.Add("rollouts", 1)
		}
	}
}

// measures are values that grow in a process with a leak.
type measures map[string]float64

// limits define the growth that is not a leak: the same load may need a little more at another time.
var limits = measures{"go_goroutines": 20, "process_open_fds": 20, "process_resident_memory_bytes": 20 << 20}

// measure reads a replica's metrics.
func (s *soak) measure(replica int) measures {
	_, text, err := s.usher.Replicas[replica].Get(s.t.Context(), "/metrics")
	if err != nil {
		s.t.Error(err)
	}
	found := measures{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, wanted := limits[name]; wanted {
			found[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	if len(found) != len(limits) {
		s.t.Errorf("usher's metrics tell only of %v", found)
	}
	return found
}

// checkMeasures compares the measures of the spared replica before and after the second half of the run.
func (s *soak) checkMeasures(before measures) {
	after := s.measure(0)
	s.t.Logf("the spared replica: %v, then %v", before, after)
	for name, more := range limits {
		if after[name] > before[name]+more {
			s.t.Errorf("%s grew from %.0f to %.0f", name, before[name], after[name])
		}
	}
}
