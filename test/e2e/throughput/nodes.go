package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// heartbeat is how often a kubelet renews its lease and looks whether its status has changed; reportEvery is how many
// heartbeats pass before it writes an unchanged status.
const (
	heartbeat   = 10 * time.Second
	reportEvery = 30
)

// The ways in which nodes report.
const (
	seldom    = "seldom"    // an unchanged status every five minutes
	often     = "often"     // the same every ten seconds
	amplified = "amplified" // every ten seconds, because what is stored is not what the kubelet measures
)

var modes = []string{seldom, often, amplified}

// node is a kubelet: it writes what a kubelet writes, on a connection and with a certificate of its own.
type node struct {
	name   string
	client *kubetest.Client
	lease  kubetest.Object // as it is stored
}

// nodeSize is the size of a node in JSON, as in a review of 51 KB, which has it twice.
const nodeSize = 25 << 10

// nodeObject returns a node as its kubelet has registered it, with as many images as make it nodeSize large.
func nodeObject(name string, labelled bool) ([]byte, error) {
	text, err := kubetest.ReadFile("test/testdata/reviews/mutate-nodes/overcommit-heartbeat.json")
	if err != nil {
		return nil, err
	}
	var review kubetest.Object
	if err := json.Unmarshal([]byte(text), &review); err != nil {
		return nil, err
	}
	object, _ := review.At("request", "object").(map[string]any)
	meta, status := object["metadata"].(map[string]any), object["status"].(map[string]any)
	labels := meta["labels"].(map[string]any)
	delete(labels, "admission-webhook")
	if labelled {
		labels["admission-webhook"] = "enabled"
	}
	labels["kubernetes.io/hostname"] = name
	object["metadata"] = map[string]any{"name": name, "labels": labels}
	images := status["images"].([]any)
	for i := 0; ; i++ {
		all, err := json.Marshal(object)
		if err != nil || len(all) >= nodeSize {
			return all, err
		}
		another, err := json.Marshal(images[i%len(images)])
		if err != nil {
			return nil, err
		}
		status["images"] = append(status["images"].([]any), json.RawMessage(bytes.ReplaceAll(another, []byte(`["`), []byte(`["mirror-`))))
	}
}

// nodeName returns the name of a node; the nodes of the mode amplified are others than those of the two other modes.
func nodeName(i int, labelled bool) string {
	if labelled {
		return fmt.Sprintf("amplified-%d", i)
	}
	return fmt.Sprintf("plain-%d", i)
}

// growNodes adds nodes until there are n of both kinds. Each has reported its status once when it returns.
func (w *world) growNodes(ctx context.Context, n int) error {
	failed := make(chan error, 2*n)
	var running sync.WaitGroup
	slots := make(chan struct{}, 8)
	for _, labelled := range []bool{false, true} {
		for i := len(w.nodes[labelled]); i < n; i++ {
			one := &node{name: nodeName(i, labelled), client: w.cluster.Node(nodeName(i, labelled))}
			w.nodes[labelled] = append(w.nodes[labelled], one)
			slots <- struct{}{}
			running.Go(func() {
				defer func() { <-slots }()
				failed <- w.join(ctx, one, labelled)
			})
		}
	}
	running.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			return err
		}
	}
	return forget(ctx, w.cluster.EtcdURL())
}

// join registers a node and its lease.
func (w *world) join(ctx context.Context, one *node, labelled bool) error {
	object, err := nodeObject(one.name, labelled)
	if err != nil {
		return err
	}
	if err := created(ctx, w.admin, "/api/v1/nodes", object); err != nil {
		return err
	}
	one.lease, err = one.client.Create(ctx, leases, kubetest.Object{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": kubetest.Object{"name": one.name, "namespace": "kube-node-lease"},
		"spec":     kubetest.Object{"holderIdentity": one.name, "leaseDurationSeconds": 40, "renewTime": microTime()}})
	if err != nil {
		return err
	}
	return one.report(ctx, labelled)
}

const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"

func microTime() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000000Z") }

// renew renews the lease.
func (n *node) renew(ctx context.Context) error {
	n.lease["spec"].(map[string]any)["renewTime"] = microTime()
	stored, err := n.client.Update(ctx, leases+"/"+n.name, n.lease)
	if err == nil {
		n.lease = stored
	} else if stored, again := n.client.Get(ctx, leases+"/"+n.name); again == nil { // it may have been stored all the same
		n.lease = stored
	}
	return err
}

// report writes the status as a kubelet does, by a patch of what differs: the times of the conditions, and, if the stored
// number is an amplified one, the measured one.
func (n *node) report(ctx context.Context, measured bool) error {
	answer, err := n.client.Do(ctx, "PATCH", "/api/v1/nodes/"+n.name+"/status", kubetest.StrategicPatch, statusPatch(time.Now(), measured))
	if err != nil {
		return err
	}
	return answer.Err()
}

func statusPatch(now time.Time, measured bool) string {
	var order, conditions []string
	for _, kind := range []string{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
		order = append(order, fmt.Sprintf(`{"type":%q}`, kind))
		conditions = append(conditions, fmt.Sprintf(`{"lastHeartbeatTime":%q,"type":%q}`, now.UTC().Format(time.RFC3339), kind))
	}
	more := ""
	if measured {
		more = `"allocatable":{"cpu":"15900m"},`
	}
	return `{"status":{"$setElementOrder/conditions":[` + strings.Join(order, ",") + `],` + more +
		`"conditions":[` + strings.Join(conditions, ",") + `]}}`
}
