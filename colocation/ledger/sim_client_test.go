package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// The outcomes of a request.
type outcome int

const (
	allowed outcome = iota
	refused
	unknown // an error, or no answer
)

// request is one of a client, as the API server works on it.
type request struct {
	pod, old *quota.Pod
	version  int // of old
	deadline time.Time
}

// ask asks a random replica whether a pod fits, as the API server does: it retries, perhaps at another replica, if the
// connection broke.
func (w *world) ask(req request) (outcome, decision) {
	for {
		came, g := w.askOne(w.anyReplica(), req)
		if came != unknown || !w.c.chance(0.5) || time.Until(req.deadline) < simWebhook {
			return came, g
		}
	}
}

// askOne asks one replica. The answer may be lost, and the API server or its client may give up before it arrives.
func (w *world) askOne(r *replica, req request) (outcome, decision) {
	ctx, cancel := context.WithTimeout(context.Background(), simWebhook)
	defer cancel()
	if w.c.chance(0.05) {
		time.AfterFunc(w.c.upTo(time.Second), cancel)
	}
	time.Sleep(w.c.upTo(50 * time.Millisecond))
	g := decision{time.Now(), r.view()}
	type answer struct {
		quota.PodVerdict
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		v, err := r.ledger.Reserve(ctx, req.ask())
		r.step()
		answers <- answer{v, err}
	}()
	select {
	case a := <-answers:
		return w.heard(r, req, a.PodVerdict, a.err), g
	case <-ctx.Done():
	case <-r.ctx.Done():
	}
	w.c.say("%s %s: no answer", r.name, req)
	return unknown, g
}

// heard converts an answer as the API server does.
func (w *world) heard(r *replica, req request, v quota.PodVerdict, err error) outcome {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	switch {
	case err != nil:
		if w.c.stats.NotReady++; !errors.Is(err, admit.ErrNotReady) {
			w.c.fail("%s %s: %v does not say that a repetition helps", r.name, req, err)
		}
		w.c.note("%s %s: %v", r.name, req, err)
		return unknown
	case !fits(v):
		w.c.stats.Refused++
		w.c.note("%s %s: refused: %s", r.name, req, why(v))
		return refused
	}
	w.c.stats.Granted++
	w.c.note("%s %s: granted", r.name, req)
	if w.c.isDown() {
		return unknown
	}
	return allowed
}

// ask returns what the API server sends.
func (r request) ask() quota.Request {
	ask := askChange(r.old, r.pod)
	if r.old != nil {
		ask.From = strconv.Itoa(r.version)
	}
	return ask
}

func (r request) String() string {
	text := fmt.Sprintf("%s %s (%s)", podKey(r.pod), inShort(r.pod.Requests), r.pod.UID)
	if r.old != nil {
		text += fmt.Sprintf(" instead of %s of version %d", inShort(r.old.Requests), r.version)
	}
	if r.pod.Label != "" {
		text += " in " + r.pod.Label
	}
	return text
}

func fits(v quota.PodVerdict) bool { return !v.Unknown && len(v.Excess) == 0 }

// why returns a verdict in short form.
func why(v quota.PodVerdict) string {
	switch {
	case v.Unknown:
		return "unknown quota " + v.Binding.Name
	case fits(v):
		return "fits"
	}
	text := "full"
	for _, i := range v.Excess {
		text += fmt.Sprintf(" %s %s: %s+%s+%s of %s", i.Quota, i.Resource, i.Requested.String(), i.Used.String(), i.Reserved.String(), i.Limit.String())
	}
	return text
}

// inBrief returns a record in short form.
func inBrief(text string) string {
	found, err := parseRecord(text)
	if err != nil {
		return text
	}
	text = "seen " + found.Seen + ":"
	for _, r := range found.Pods {
		text += fmt.Sprintf(" %s %s@%s %s", r.UID, r.Pod, r.Quota, inShort(r.request()))
		if r.Update {
			text += " update"
		}
	}
	return text
}

func inShort(list corev1.ResourceList) string {
	cpu, memory := list[corev1.ResourceCPU], list[corev1.ResourceMemory]
	return cpu.String() + "/" + memory.String()
}

// create is a client that creates a pod, and tries again under the same name.
func (w *world) create() {
	pod := w.newPod()
	for attempt := range 3 {
		again := *pod
		again.UID = types.UID(fmt.Sprintf("u%d", w.next()))
		done := make(chan bool, 1)
		w.go_(func() { done <- w.createOnce(&again) })
		select {
		case ok := <-done:
			if ok {
				return
			}
		case <-time.After(w.c.upTo(simRequest)): // the client is impatient, and the API server still at it
		}
		if attempt == 2 || w.c.chance(0.4) {
			return
		}
		time.Sleep(w.c.upTo(2 * time.Second))
	}
}

// burst is a controller that creates many alike pods, as fast as it can.
func (w *world) burst() {
	like := w.newPod()
	like.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(1+w.c.n(4))*250, resource.DecimalSI)}
	pods := 10 + w.c.n(60)
	for i := range pods {
		if i == pods/2 && w.c.chance(0.5) {
			w.go_([]func(){w.limit, w.partition, w.restart, w.freeze}[w.c.n(4)])
		}
		pod := *like
		pod.Name, pod.UID = fmt.Sprintf("b-%d", w.next()), types.UID(fmt.Sprintf("u%d", w.next()))
		w.go_(func() { w.createOnce(&pod) })
		time.Sleep(w.c.upTo(100 * time.Millisecond))
	}
}

// createOnce simulates a create in the API server.
func (w *world) createOnce(pod *quota.Pod) bool {
	req := request{pod: pod, deadline: time.Now().Add(simRequest)}
	came, g := w.ask(req)
	if came != allowed {
		return false
	}
	time.Sleep(w.c.upTo(time.Until(req.deadline)))
	if w.c.chance(w.refusals) {
		return false // another webhook, or a crash
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.c.isDown() || time.Now().After(req.deadline) || w.c.pods[podKey(pod)] != nil || w.c.failed {
		return false
	}
	w.c.stats.Stored++
	w.c.note("store %s", req)
	w.c.putPod(pod, &g)
	w.go_(func() { w.kubelet(pod) })
	return true
}

// update moves or resizes an existing pod, and retries on a conflict.
func (w *world) update() {
	old, version := w.anyPod()
	if old == nil {
		return
	}
	change := func(p *quota.Pod, _ nodeState) { p.Requests = w.amounts() }
	switch leaf := w.anyLeaf(); w.c.n(4) {
	case 0:
		change = func(p *quota.Pod, _ nodeState) { p.Label, p.Labelled = leaf, true }
	case 1:
		change = withdraw
	}
	for range 1 + w.c.n(3) {
		if old == nil || old.Ended {
			return
		}
		pod, node := *old, w.node(old)
		change(&pod, node)
		if !quantity.EqualAmounts(pod.Requests, old.Requests) {
			node.generation++
		}
		node.dress(&pod)
		if w.updateOnce(request{pod: &pod, old: old, version: version, deadline: time.Now().Add(simRequest)}) {
			return
		}
		old, version = w.pod(podKey(old))
	}
}

// withdraw resizes a pod to what its node has allocated.
func withdraw(p *quota.Pod, node nodeState) {
	if node.allocated != nil {
		p.Requests = node.allocated
	}
}

func (w *world) updateOnce(req request) bool {
	came, g := w.ask(req)
	if came != allowed {
		return false
	}
	time.Sleep(w.c.upTo(time.Until(req.deadline)))
	if w.c.chance(w.refusals) {
		return false
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	now := w.c.pods[podKey(req.pod)]
	if w.c.isDown() || time.Now().After(req.deadline) || now == nil || now.version != req.version || w.c.failed {
		return false
	}
	w.c.stats.Updated++
	w.c.note("store %s", req)
	w.c.putPod(req.pod, &g)
	if resized := w.c.pods[podKey(req.pod)]; !quantity.EqualAmounts(req.pod.Requests, req.old.Requests) {
		if resized.node.generation++; quantity.EqualAmounts(req.pod.Requests, resized.node.allocated) {
			w.c.stats.Withdrawn++
		}
	}
	return true
}

// dryRun judges a pod and must leave nothing behind.
func (w *world) dryRun() {
	ctx, cancel := context.WithTimeout(context.Background(), simWebhook)
	defer cancel()
	r := w.anyReplica()
	pod := w.newPod()
	pod.UID = "dry"
	_, _ = r.ledger.Judge(ctx, ask(pod))
}

// change changes a stored pod: it is deleted, at once or with a grace period, or ends, or changes in a way that does
// not count.
func (w *world) change() {
	old, _ := w.anyPod()
	if old == nil {
		return
	}
	key, how := podKey(old), w.c.n(4)
	w.change1(key, old.UID, how)
	if how != 1 || w.c.chance(0.2) {
		return // the node is dead: the end of a pod that is being deleted is never reported
	}
	time.Sleep(w.c.upTo(6 * time.Second))
	w.change1(key, old.UID, 0)
}

func (w *world) change1(key string, uid types.UID, how int) {
	grace := w.c.upTo(5 * time.Second)
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	one := w.c.pods[key]
	if one == nil || one.pod.UID != uid {
		return
	}
	next := *one.pod
	switch how {
	case 0:
		w.c.note("remove %s (%s)", key, uid)
		w.c.removePod(key)
		return
	case 1:
		if next.Gone().IsZero() {
			next.Special = &quota.Special{Gone: time.Now().Add(grace)}
		}
	case 2:
		next.Ended, next.Requests, next.Held, next.Unreported = true, nil, nil, false
	}
	w.c.note("change %s (%s): %s", key, uid, []string{"", "deleting", "ended", "touched"}[how])
	w.c.putPod(&next, nil)
}

// limit changes a limit, and touch another annotation: both conflict with writes of the record.
func (w *world) limit() {
	name := w.names[w.c.n(len(w.names))]
	amount := w.c.n(12) + 1
	w.changeQuota(name, func(next *quota.Quota) bool {
		if next.Max = next.Max.DeepCopy(); next.Max == nil {
			return false
		}
		next.Max[corev1.ResourceCPU] = *resource.NewQuantity(int64(amount), resource.DecimalSI)
		return true
	})
}

// changeQuota changes a quota as the API server does: a replica admits the change and announces it, and then it is
// stored, unless the quota has changed since. Some changes bypass usher, some are refused by another webhook, and some are
// stored later than a replica waits for them.
func (w *world) changeQuota(name string, how func(*quota.Quota) bool) {
	bypass, slow := w.c.chance(0.1), 500*time.Millisecond
	if w.c.chance(0.1) {
		slow = 2 * maxChange
	}
	for range 3 {
		w.c.mu.Lock()
		one := w.c.quotas[name]
		old, version, gone := one.Quota, one.Version, one.gone
		w.c.mu.Unlock()
		if gone {
			return
		}
		next := *old
		if !how(&next) {
			return
		}
		answered := time.Now()
		if !bypass {
			var err error
			if answered, err = w.announce(QuotaChange{Old: old, New: &next, From: version}); err != nil {
				return
			}
		}
		time.Sleep(w.c.upTo(slow))
		if w.c.chance(w.refusals) {
			return
		}
		if w.storeQuota(name, version, &next, bypass || time.Since(answered) > maxChange/2, bypass) {
			return
		}
	}
}

// announce lets a replica admit a change. It returns when that was decided.
func (w *world) announce(change QuotaChange) (decided time.Time, _ error) {
	ctx, cancel := context.WithTimeout(context.Background(), simWebhook)
	defer cancel()
	r := w.anyReplica()
	tree, err := r.known(ctx, "")
	if err == nil && change.New == nil && r.needs(tree, change.Old) {
		err = errNeeded
	}
	if err == nil {
		err = r.ledger.Announce(ctx, change)
	}
	if tree, known := r.known(ctx, ""); err == nil && known == nil && change.New == nil && r.needs(tree, change.Old) {
		err = errNeeded
	}
	decided = time.Now()
	if r.step(); err == nil {
		err = ctx.Err() // the API server has given up
	}
	if change.New == nil {
		w.c.say("%s announces that %s is deleted: %v", r.name, change.Old.Name, err)
	} else {
		w.c.say("%s announces %s (%s) of %s below %s: %v", r.name, change.New.Name, change.New.UID, inShort(change.New.Max), change.New.Parent, err)
	}
	if err == nil {
		w.c.count(func(s *simStats) { s.Announced++ })
	}
	return decided, err
}

// storeQuota stores a change that was judged on a version, and reports false if there is a newer one.
func (w *world) storeQuota(name, version string, next *quota.Quota, late, unwaited bool) bool {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	one := w.c.quotas[name]
	if parent := w.c.quotas[next.Parent]; w.c.isDown() || one.Version != version || parent != nil && parent.gone {
		return false
	}
	moves := !samePlace(one.Quota, next)
	if moves && !unwaited { // the mutating webhook has been asked
		one.Record = Moving(one.Record, version)
	}
	w.c.note("quota %s: %s below %s, for %v, late: %v", name, inShort(next.Max), next.Parent, next.Namespaces, late)
	before := w.c.tree
	if w.c.putQuota(name, next); moves {
		w.c.moved(before, late, unwaited)
		w.c.stats.Reroots++
	}
	last := &one.specs[len(one.specs)-1]
	last.late, last.unwaited = late, unwaited
	return true
}

// errNeeded means that a quota may not be deleted.
var errNeeded = errors.New("it has children or pods")

// needs reports whether a replica knows children or pods of a quota.
func (r *replica) needs(tree *quota.Tree, q *quota.Quota) (needed bool) {
	r.ledger.accounts.with(tree, func(a *accounts) { needed = len(a.keysOf[q.Name]) > 0 || len(tree.Children(q.Name)) > 0 })
	return needed
}

// recreate deletes a quota that has no pods, and creates it again with another limit.
func (w *world) recreate() {
	name := w.labels[w.c.n(len(w.labels))]
	w.c.mu.Lock()
	one := w.c.quotas[name]
	old, version, gone := one.Quota, one.Version, one.gone
	w.c.mu.Unlock()
	if !gone {
		answered, err := w.announce(QuotaChange{Old: old, From: version})
		if err != nil {
			return
		}
		time.Sleep(w.c.upTo(500 * time.Millisecond))
		w.c.mu.Lock()
		if w.c.isDown() || one.Version != version || one.gone || len(w.c.tree.Children(name)) > 0 {
			w.c.mu.Unlock()
			return
		}
		w.c.note("delete quota %s", name)
		before := w.c.tree
		w.c.removeQuota(one)
		w.c.moved(before, time.Since(answered) > maxChange/2, false)
		w.c.mu.Unlock()
		time.Sleep(w.c.upTo(4 * time.Second))
	}
	next := *old
	next.UID, next.Created, next.Max = types.UID(fmt.Sprintf("q%d", w.next())), time.Now(), old.Max.DeepCopy()
	if next.Max != nil {
		next.Max[corev1.ResourceCPU] = *resource.NewQuantity(int64(w.c.n(12)+1), resource.DecimalSI)
	}
	answered, err := w.announce(QuotaChange{New: &next})
	if err != nil {
		return
	}
	time.Sleep(w.c.upTo(500 * time.Millisecond))
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if parent := w.c.quotas[next.Parent]; w.c.isDown() || !one.gone || parent != nil && parent.gone {
		return
	}
	late := time.Since(answered) > maxChange/2
	w.c.note("quota %s (%s): %s below %s, created again, late: %v", name, next.UID, inShort(next.Max), next.Parent, late)
	w.c.stats.Recreated++
	before := w.c.tree
	w.c.putQuota(name, &next)
	w.c.moved(before, late, false)
	one.specs[len(one.specs)-1].late = late
}

func (w *world) touch() {
	name := w.names[w.c.n(len(w.names))]
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.c.putQuota(name, nil)
}

// reroot moves a leaf below another parent, gives a top quota a parent, or makes one that had been a top a top again.
func (w *world) reroot() {
	if !w.reroots {
		return
	}
	child, parent := w.anyLeaf(), w.names[w.c.n(len(w.names))]
	if w.c.chance(0.5) {
		child, parent = w.tops[w.c.n(len(w.tops))], w.tops[0]
	}
	w.changeQuota(child, func(next *quota.Quota) bool {
		w.c.mu.Lock()
		defer w.c.mu.Unlock()
		switch top, is := next.Parent == api.RootQuota, slices.Contains(w.tops, child); {
		case !is:
			next.Parent = parent
			return !top && w.c.quotas[parent].Quota.IsParent
		case child == w.tops[0]:
			return false
		case top:
			next.Parent = parent
		default:
			next.Parent = api.RootQuota
		}
		return true
	})
}

// borrow lets a quota take the namespace of a leaf, or give it back: of two that list a namespace, the one with the lower name has it.
func (w *world) borrow() {
	leaf, to := w.anyLeaf(), w.names[w.c.n(len(w.names))]
	if to >= leaf || slices.Contains(w.labels, leaf) || slices.Contains(w.labels, to) {
		return
	}
	w.changeQuota(to, func(next *quota.Quota) bool {
		if next.Namespaces = slices.Clone(next.Namespaces); slices.Contains(next.Namespaces, leaf) {
			next.Namespaces = slices.DeleteFunc(next.Namespaces, func(name string) bool { return name == leaf })
		} else {
			next.Namespaces = append(next.Namespaces, leaf)
		}
		return true
	})
}

// outage restarts the API server: it serves no requests, and all watches break.
func (w *world) outage() {
	long := w.c.upTo(simOutage)
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if time.Since(w.c.down) < simExpiry/2 {
		return
	}
	w.c.note("outage of %s", long)
	w.c.stats.Outages++
	w.c.down = time.Now().Add(long)
	w.c.broken++
	close(w.c.more)
	w.c.more = make(chan struct{})
}

// partition cuts a replica off the API server's store for some time: its calls and its watches stand still, and it answers as
// before.
func (w *world) partition() {
	r, long := w.anyReplica(), w.c.upTo(simPartition)
	r.mu.Lock()
	r.cut = time.Now().Add(long)
	r.mu.Unlock()
	w.c.say("%s is cut off for %s", r.name, long)
	w.c.count(func(s *simStats) { s.Partitions++ })
}

// freeze lets a replica stand still for some time.
func (w *world) freeze() {
	if r := w.anyReplica(); r.halts {
		r.freeze()
		r.awake()
	}
}

// restart kills a replica in the middle of its work and starts another.
func (w *world) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.c.n(len(w.replicas))
	w.c.say("kill %s", w.replicas[i].name)
	w.c.count(func(s *simStats) { s.Kills++ })
	w.replicas[i].kill()
	w.replicas[i] = w.start()
}
