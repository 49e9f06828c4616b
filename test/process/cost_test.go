package process

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/test/harness"
)

// Reviews at the limit of cost: on every route, within every limit that is checked before a chain runs.

// costly is a review that is made to be expensive.
type costly struct {
	name, path string
	body       func() []byte
}

// part is JSON that repeats something small: n times, or as often as fits.
type part struct {
	name, open, each, end string // each may hold %d
	n                     int
}

// text returns the part in at most size bytes.
func (p part) text(size int) string {
	var b strings.Builder
	if size < maxReview*2/3 { // there is a stored object too
		p.n = min(p.n, valueful/2)
	}
	b.WriteString(p.open)
	for i := 0; i < p.n; i++ {
		one := strings.ReplaceAll(p.each, "%d", strconv.Itoa(i))
		if b.Len()+len(one)+len(p.end)+1 > size {
			break
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(one)
	}
	b.WriteString(p.end)
	return b.String()
}

// Numbers of repetitions: as many as fit, almost the maximum of one list, and almost the maximum of a document.
const unbounded, listful, valueful = 1 << 30, 9_999, 480_000

// metaParts are expensive members of the metadata, for objects of any kind.
var metaParts = []part{
	{"labels", `"labels":{"sample":"base",`, `"l%d":"v"`, `}`, listful},
	{"annotations", `"annotations":{`, `"a%d":"v"`, `}`, listful},
	{"owners", `"ownerReferences":[`, `{}`, `]`, listful},
	{"many owners", `"ownerReferences":[`, `{}`, `]`, valueful},
	{"many finalizers", `"finalizers":[`, `""`, `]`, valueful},
}

// specParts are members of the spec, or of the object if it has none.
var specParts = map[string][]part{
	"Pod": {
		{"gpus", `"containers":[`, gpu, `]`, listful},
		{"gpus, init too", `"initContainers":[` + part{"", ``, gpu, ``, listful}.text(1600_000) + `],"containers":[`, gpu, `]`, listful},
		{"500 with everything", `"containers":[`, all, `]`, 500},
		{"empty containers", `"containers":[`, `{}`, `]`, valueful},
		{"a list of containers", `"containers":[`, `{"name":"c%d","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}}`, `]`, listful},
		{"400 with 1000 resources", `"containers":[`, `{"resources":{"limits":{` + part{"", ``, `"r%d":0`, ``, 1000}.text(unbounded) + `}}}`, `]`, 400},
		{"a list of resources", `"containers":[{"name":"c","resources":{"limits":{`, `"r%d":"1"`, `}}}]`, listful},
		{"env", `"containers":[{"name":"c","env":[`, `{"name":"e%d"}`, `]}]`, listful},
		{"400 with 1000 variables", `"containers":[`, `{"env":[` + part{"", ``, `{}`, ``, 1000}.text(unbounded) + `]}`, `]`, 400},
		{"tolerations", `"tolerations":[`, `{}`, `]`, listful},
		{"volumes", `"volumes":[`, `{}`, `]`, valueful},
		{"terms", `"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[`, `{"matchExpressions":[{}]}`, `]}}}`, listful},
		{"overhead", `"overhead":{`, `"r%d":"1"`, `}`, listful},
	},
	"Node": {
		{"taints", `"taints":[`, `{}`, `]`, valueful},
	},
	"ConfigMap": {},
	"Reservation": {
		{"owners of a reservation", `"owners":[`, `{}`, `]`, valueful},
		{"gpus", `"template":{"metadata":{"labels":{"sample":"base"}},"spec":{"containers":[`, gpu, `]}}`, listful},
		{"selectors", `"owners":[`, `{"labelSelector":{"matchLabels":{"a":"b"}}}`, `]`, listful},
		{"template of volumes", `"template":{"spec":{"volumes":[`, `{}`, `]}}`, valueful},
		{"template of empty containers", `"template":{"spec":{"containers":[`, `{}`, `]}}`, valueful},
	},
	"ElasticQuota": {
		{"max", `"max":{`, `"r%d":"1"`, `}`, listful},
		{"many max", `"max":{`, `"r%d":1`, `}`, valueful},
		{"min and max", `"min":{` + part{"", ``, `"r%d":1`, ``, listful}.text(unbounded) + `},"max":{`, `"r%d":2`, `}`, listful},
	},
	"ClusterColocationProfile": {
		{"profile labels", `"labels":{`, `"r%d":"1"`, `}`, listful},
		{"patch of containers", `"patch":{"spec":{"containers":[`, `{"name":"c%d"}`, `]}}`, valueful},
		{"patch of labels", `"patch":{"metadata":{"labels":{`, `"c%d":"x"`, `}}}`, listful},
		{"patch of anything", `"patch":{"spec":{"x":[`, `{"a":{}}`, `]}}`, valueful},
		{"selector", `"selector":{"matchExpressions":[`, `{}`, `]}`, valueful},
	},
	"Binding": {},
}

const gpu = `{"name":"c%d","image":"i","resources":{"requests":{"koordinator.sh/gpu":"200"},"limits":{"koordinator.sh/gpu":"200"}}}`

// all is a container that every mutating step on pods changes.
const all = `{"name":"c%d","image":"i","resources":{"requests":{"cpu":"1","memory":"1Gi","koordinator.sh/gpu":"200"},` +
	`"limits":{"cpu":"1","memory":"1Gi","koordinator.sh/gpu":"200"}}}`

// textParts are annotations that contain JSON, for chains that parse it.
var textParts = map[string][]string{
	"Pod":          {"scheduling.koordinator.sh/reservation-affinity", "scheduling.koordinator.sh/resource-spec", "node.koordinator.sh/extended-resource-spec"},
	"Node":         {"node.koordinator.sh/resource-amplification-ratio", "node.koordinator.sh/raw-allocatable", "usher.dev/amplified"},
	"Reservation":  {"scheduling.koordinator.sh/reservation-affinity"},
	"ElasticQuota": {"quota.scheduling.koordinator.sh/shared-weight", "quota.scheduling.koordinator.sh/guaranteed", "quota.scheduling.koordinator.sh/namespaces"},
}

var texts = []part{
	{"objects", `[`, `{}`, `]`, valueful},
	{"names", `{`, `\"r%d\":1`, `}`, valueful},
	{"tolerations", `{\"tolerations\":[`, `{}`, `]}`, valueful},
	{"containers", `{\"containers\":{`, `\"c%d\":{\"limits\":{\"kubernetes.io/batch-cpu\":1}}`, `}}`, valueful},
	{"amounts", `{\"cpu\":{\"raw\":{\"allocatable\":\"1\",\"capacity\":\"1\"}}`, `,\"r%d\":{\"raw\":{\"allocatable\":\"1\"},\"result\":{\"allocatable\":\"2\"},\"ratio\":\"2\"}`, `}`, valueful},
}

// costlyReviews returns the costly reviews for a route.
func costlyReviews(r admit.Route) (reviews []costly) {
	if len(r.For) == 0 {
		return nil // the policy uses it for nothing
	}
	m := r.For[0]
	op := m.Operations[len(m.Operations)-1]
	if slices.Contains(m.Operations, admissionv1.Update) {
		op = admissionv1.Update
	}
	add := func(name string, object func(size int) string) {
		for _, op := range slices.Compact([]admissionv1.Operation{m.Operations[0], op}) {
			reviews = append(reviews, costly{name: string(op) + " " + name, path: r.Path, body: func() []byte { return costlyReview(r, op, object) }})
		}
	}
	shape := func(meta, rest string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"a","namespace":"colocation",%s}%s}`,
			strings.TrimPrefix(m.Kind.Group+"/"+m.Kind.Version, "/"), m.Kind.Kind, meta, rest)
	}
	const noMeta = `"labels":{"sample":"base"}`
	for _, p := range metaParts {
		add(p.name, func(size int) string { return shape(p.text(size), "") })
	}
	for _, p := range specParts[m.Kind.Kind] {
		add(p.name, func(size int) string { return shape(noMeta, `,"spec":{`+p.text(size)+`}`) })
	}
	for _, key := range textParts[m.Kind.Kind] {
		for _, p := range texts {
			add(key+" of "+p.name, func(size int) string { return shape(`"annotations":{"`+key+`":"`+p.text(size)+`"},`+noMeta, "") })
		}
	}
	for _, p := range []part{{"numbers", `"unknown":[`, `0`, `]`, valueful}, {"escaped keys", `"unknown":[`, `{"\/":0,"a":0}`, `]`, valueful / 3}, {"one string", `"unknown":"`, strings.Repeat("x", 1023), `"`, unbounded}} {
		add(p.name, func(size int) string { return shape(noMeta, ","+p.text(size)) })
	}
	switch m.Kind.Kind {
	case "Node":
		for _, p := range []part{{"allocatable", `"allocatable":{"cpu":"4",`, `"r%d":"1"`, `}`, listful}, {"many allocatable", `"allocatable":{`, `"r%d":1`, `}`, valueful}} {
			add(p.name, func(size int) string { return shape(noMeta, `,"status":{`+p.text(size)+`}`) })
		}
	case "ConfigMap":
		for _, key := range []string{"colocation-config", "resource-threshold-config", "resource-qos-config", "cpu-burst-config", "system-config", "host-application-config"} {
			for _, p := range []part{{"strategies", `{\"nodeConfigs\":[`, `{}`, `]}`, valueful}, {"strategies with selectors", `{\"nodeConfigs\":[`,
				`{\"name\":\"n%d\",\"nodeSelector\":{\"matchLabels\":{\"a\":\"b%d\"}},\"enable\":true}`, `]}`, valueful}, {"anything", `{\"x\":[`, `{\"a\":{}}`, `]}`, valueful}} {
				add(key+" of "+p.name, func(size int) string {
					return strings.Replace(shape(noMeta, `,"data":{"`+key+`":"`+p.text(size)+`"}`), `"name":"a","namespace":"colocation"`, `"name":"slo-controller-config","namespace":"koordinator-system"`, 1)
				})
			}
		}
	}
	return reviews
}

// costlyReview returns a review filled by its object; on UPDATE half of it is the stored object.
func costlyReview(r admit.Route, op admissionv1.Operation, object func(size int) string) []byte {
	m := r.For[0]
	resource, sub, _ := strings.Cut(m.Resources[0], "/")
	size, old := maxReview-2000, ""
	if op == admissionv1.Update {
		size /= 2
		old = `,"oldObject":` + object(size-1000)
	}
	if op == admissionv1.Delete {
		return fmt.Appendf(nil, costlyEnvelope, m.Kind.Group, m.Kind.Version, m.Kind.Kind, m.Kind.Group, m.Kind.Version, resource, sub, op, `null,"oldObject":`+object(size-1000))
	}
	return fmt.Appendf(nil, costlyEnvelope, m.Kind.Group, m.Kind.Version, m.Kind.Kind, m.Kind.Group, m.Kind.Version, resource, sub, op, object(size-1000)+old)
}

const costlyEnvelope = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"group":%q,"version":%q,"kind":%q},` +
	`"resource":{"group":%q,"version":%q,"resource":%q},"subResource":%q,"operation":%q,"name":"a","namespace":"colocation",` +
	`"userInfo":{"username":"system:node:a","groups":["system:nodes"]},"object":%s}}`

// everything returns a server with all gates enabled and the sample cluster.
func everything(t *testing.T, env ...string) launch {
	t.Helper()
	gates, err := os.ReadFile("samples/feature-gates")
	if err != nil {
		t.Fatal(err)
	}
	return launch{env: env, args: []string{"--cluster-dir", "samples/cluster", "--feature-gates", strings.TrimSpace(string(gates))}}
}

// memoryGroup makes a cgroup with the memory limit of deploy/base, and returns the file that processes are added to, or
// why there is none.
func memoryGroup(t *testing.T) (procs, reason string) {
	t.Helper()
	if raceDetector() {
		return "", "the race detector needs several times the memory"
	}
	root, limit := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil { // version 2
		root, limit = "/sys/fs/cgroup", "memory.max"
	}
	dir := filepath.Join(root, fmt.Sprintf("usher-test-%d-%d", os.Getpid(), time.Now().UnixNano()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err.Error()
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := os.WriteFile(filepath.Join(dir, limit), []byte(strconv.Itoa(deployedMemory<<20)), 0o644); err != nil {
		return "", err.Error()
	}
	return filepath.Join(dir, "cgroup.procs"), ""
}

// attacked starts a service as deployed, in a cgroup if possible.
func attacked(t *testing.T) *process {
	t.Helper()
	l := everything(t, asDeployed.env...)
	var reason string
	if l.group, reason = memoryGroup(t); reason != "" {
		t.Log("not in a cgroup: ", reason)
	}
	return launched(t, l)
}

// wantStanding fails the test if the service was killed or restarted, or used too much memory.
func (p *process) wantStanding(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
		t.Fatalf("it is gone: %v", p.cmd.ProcessState)
	default:
	}
	bound := deployedMemory
	if !raceDetector() {
		bound += p.memory(t, "RssFile") // the kernel drops pages of the program's file when it needs room
	}
	p.wantMemory(t, bound)
}

// attackWidth is the number of concurrent clients.
const attackWidth = 64

// attack posts costly reviews from several clients until the time is over, each at least once. Ordinary reviews posted
// meanwhile must be answered: at once, or on a retry as the API server makes on 503.
func (p *process) attack(t *testing.T, reviews []costly, timeout string, during time.Duration) {
	t.Helper()
	bodies := make([][]byte, len(reviews))
	for i, c := range reviews {
		bodies[i] = c.body()
	}
	var codes sync.Map
	var attackers sync.WaitGroup
	end := time.Now().Add(during)
	for i := range attackWidth {
		attackers.Go(func() {
			for n := i; ; n += attackWidth {
				c := n % len(reviews)
				got, err := send(p.client, "https://"+p.reviews+reviews[c].path+"?timeout="+timeout, bodies[c], nil)
				if err != nil {
					got.code = 0 // a handshake that took too long on a busy machine; wantStanding tells the rest
				}
				count, _ := codes.LoadOrStore(got.code, new(atomic.Int64))
				count.(*atomic.Int64).Add(1)
				if n >= len(reviews)-attackWidth && time.Now().After(end) {
					return
				}
			}
		})
	}
	over := make(chan struct{})
	go func() {
		attackers.Wait()
		close(over)
	}()
	p.wantOrdinary(t, over)
	for code, count := range codes.Range {
		t.Logf("%5d answers of code %d", count.(*atomic.Int64).Load(), code)
		if !slices.Contains([]int{0, 200, 400, 413, 500, 503}, code.(int)) { // 500: its time was over before it was decided
			t.Errorf("code %d", code)
		}
	}
	p.wantStanding(t)
	if n := p.metric(t, "usher_panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
}

// wantOrdinary posts ordinary reviews one after the other until stopped.
func (p *process) wantOrdinary(t *testing.T, over chan struct{}) {
	t.Helper()
	body, answered, again := harness.ReadSample(t, podSample), 0, 0
	for {
		got, err := send(p.client, "https://"+p.reviews+"/mutate-pods?timeout=10s", body, nil)
		switch {
		case err == nil && got.code == 200 && strings.Contains(got.body, `"patch":"`):
			answered++
		case err == nil && got.code == 503:
			again++
		default:
			t.Errorf("an ordinary review: %v, %d %.200s", err, got.code, got.body)
		}
		select {
		case <-over:
			t.Logf("%5d ordinary reviews answered, %d told to come again", answered, again)
			if answered == 0 {
				t.Error("no ordinary review was answered")
			}
			return
		case <-p.ended:
			t.Fatalf("it is gone: %v", p.cmd.ProcessState)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// attackTime returns how long `make attack` attacks each route; 0 without it.
func attackTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("USHER_ATTACK")
	if text == "" {
		return 0
	}
	during, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal("USHER_ATTACK: ", err)
	}
	return during
}

// worst are the reviews that took most memory or time before there were limits. They are always tested.
var worst = map[string][]string{
	"/mutate-pods":          {"CREATE 400 with 1000 variables"},
	"/mutate-pod":           {"CREATE gpus, init too", "CREATE 500 with everything"},
	"/validate-pod":         {"UPDATE gpus, init too"},
	"/validate-reservation": {"CREATE template of empty containers"},
}

// TestProcessAttack: no review, however large and from however many clients, kills a service with the memory of
// deploy/base, and ordinary reviews are answered meanwhile.
func TestProcessAttack(t *testing.T) {
	during := attackTime(t)
	t.Run("rules", func(t *testing.T) { attackRules(t, during) })
	t.Run("callers", func(t *testing.T) { attackCallers(t, during) })
	t.Run("calls", func(t *testing.T) { attackCalls(t, during) })
	var brief []costly
	var p *process
	for _, r := range sampleInstance(t).Routes() {
		all := costlyReviews(r)
		if during > 0 && len(all) > 0 {
			t.Run(r.Path[1:], func(t *testing.T) { attacked(t).attack(t, all, "10s", during) })
		}
		for _, c := range all {
			if slices.Contains(worst[r.Path], c.name) {
				brief = append(brief, c)
			}
		}
	}
	if during > 0 {
		return
	}
	if p = attacked(t); len(brief) != 5 {
		t.Fatal("some of the worst have another name")
	}
	for _, c := range brief {
		p.attack(t, []costly{c}, "2s", 0)
	}
	p.wantAlive(t)
}

// TestCostTable prints what each costly review costs an otherwise idle service that collects garbage early.
func TestCostTable(t *testing.T) {
	if attackTime(t) == 0 {
		t.Skip("a table for docs/operations.md: make attack")
	}
	only := regexp.MustCompile(os.Getenv("USHER_ATTACK_ONLY")) // of "/route OPERATION kind"
	t.Log("| route | review | MiB | peak MiB | answer KiB | ms | code |")
	for _, r := range sampleInstance(t).Routes() {
		for _, c := range costlyReviews(r) {
			if !only.MatchString(c.path + " " + c.name) {
				continue
			}
			p, body := launched(t, everything(t, "GOGC=20")), c.body()
			start := time.Now()
			got, err := p.send(c.path+"?timeout=30s", body, nil)
			took := time.Since(start)
			if err != nil {
				t.Errorf("%s %s: %v", c.path, c.name, err)
				continue
			}
			t.Logf("| %s | %s | %.1f | %d | %d | %d | %d |", c.path, c.name, float64(len(body))/(1<<20), p.memory(t, "VmHWM"),
				len(got.body)>>10, took.Milliseconds(), got.code)
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	}
}
