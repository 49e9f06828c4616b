package validators

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"

	"usher.dev/usher/test/seed"
)

// judge runs a check on a new pod, or on an update of old, and returns its problems and warnings, one per line.
func judge(t testing.TB, check admit.Validator[admit.Pod], old, pod string) string {
	t.Helper()
	req := &admit.Request{Operation: "CREATE", Object: parsed(t, pod)}
	if old != "" {
		req.Operation, req.OldObject = "UPDATE", parsed(t, old)
	}
	problems, err := check.Run(t.Context(), req, admit.AsPod(req.Object))
	if err != nil || req.Object.Err() != nil || req.Object.Edits() > 0 {
		t.Fatalf("%s: %v, %v", pod, err, req.Object.Err())
	}
	for _, w := range req.Warnings() {
		if strings.HasSuffix(w, "…") {
			t.Errorf("a warning is cut: %s", w)
		}
	}
	return strings.Join(append(texts(problems), req.Warnings()...), "\n")
}

func texts(problems field.ErrorList) (all []string) {
	for _, p := range problems {
		all = append(all, p.Error())
	}
	return all
}

func parsed(t testing.TB, raw string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return d
}

// verdictCase is a row of a table. want is the beginning of each line of the verdict, or its content after "…"; none
// means accepted.
type verdictCase struct {
	name, old, pod string
	want           []string
}

func runVerdicts(t *testing.T, check admit.Validator[admit.Pod], cases []verdictCase) {
	t.Helper()
	for _, c := range cases {
		got := judge(t, check, c.old, c.pod)
		lines := strings.Split(got, "\n")
		if got == "" {
			lines = nil
		}
		ok := len(lines) == len(c.want)
		for i := 0; ok && i < len(lines); i++ {
			begin, inside, _ := strings.Cut(c.want[i], "…")
			ok = strings.HasPrefix(lines[i], begin) && strings.Contains(lines[i], inside)
		}
		if !ok {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, strings.Join(c.want, "\n"))
		}
	}
}

// qosPod returns a pod in short notation: "qos=BE class=koord-mid sub=1 prio=5000 del", and the rest of the spec.
func qosPod(short, spec string) string {
	labels, metadata, parts := map[string]string{}, "", []string{}
	for _, part := range strings.Fields(short) {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "qos":
			labels["koordinator.sh/qosClass"] = value
		case "class":
			labels["koordinator.sh/priority-class"] = value
		case "sub":
			labels["koordinator.sh/priority"] = value
		case "prio":
			parts = append(parts, `"priority":`+value)
		case "del":
			metadata = `,"deletionTimestamp":"2026-01-01T00:00:00Z"`
		}
	}
	if spec != "" {
		parts = append(parts, spec)
	}
	encoded, _ := json.Marshal(labels)
	return `{"metadata":{"name":"p","labels":` + string(encoded) + metadata + `},"spec":{` + strings.Join(parts, ",") + `}}`
}

// asking returns a spec with containers a, b, … that request the given lists.
func asking(requests ...string) string {
	return `"containers":[` + containersAsking("a", requests) + `]`
}

func containersAsking(first string, requests []string) string {
	var all []string
	for i, list := range requests {
		all = append(all, fmt.Sprintf(`{"name":"%c","resources":{"requests":{%s}}}`, int(first[0])+i, list))
	}
	return strings.Join(all, ",")
}

const (
	batch   = `"kubernetes.io/batch-cpu":"1000","kubernetes.io/batch-memory":"4Gi"`
	oneCPU  = `"cpu":"1","memory":"4Gi"`
	badCPU  = `"cpu":"100m"`
	qosPath = "metadata.labels[koordinator.sh/qosClass]: "
	cpuPath = "spec.containers[0].resources.requests.cpu: "
)

// TestQoSPriority has the cases of the reference's own tests, and their gaps.
func TestQoSPriority(t *testing.T) {
	runVerdicts(t, qosPriority(false), []verdictCase{
		{"create empty", "", `{}`, nil},
		{"create null", "", `{"metadata":null,"spec":null}`, nil},
		{"create BE batch", "", qosPod("qos=BE prio=5000", asking(batch)), nil},
		{"create batch without QoS", "", qosPod("prio=6666", asking("", batch)), []string{qosPath + `Required value: container "b" asks for 1k kubernetes.io/batch-cpu, which only pods of QoS BE may have; set`}},
		{"create batch with LS", "", qosPod("qos=LS", asking(`"kubernetes.io/batch-memory":"1Gi"`)), []string{qosPath + `Invalid value: "LS": container "a" asks for 1Gi kubernetes.io/batch-memory`}},
		{"create no batch but zero", "", qosPod("", asking(`"kubernetes.io/batch-cpu":"0"`)), nil},
		{"create batch limits only", "", qosPod("", `"containers":[{"name":"a","resources":{"limits":{`+batch+`}}}]`), []string{qosPath + "Required value"}},
		{"create batch in an init container", "", qosPod("", `"initContainers":[`+containersAsking("i", []string{batch})+`]`), []string{qosPath + `Required value: container "i"`}},
		{"create batch overhead", "", qosPod("", `"overhead":{"kubernetes.io/batch-cpu":"1"}`), []string{qosPath + "Required value: spec.overhead asks for 1"}},
		{"create BE + 5000", "", qosPod("qos=BE prio=5000", ""), nil},
		{"create BE + mid", "", qosPod("qos=BE prio=7000", ""), nil},
		{"create BE + free", "", qosPod("qos=BE prio=3999", ""), nil},
		{"create BE + 9999", "", qosPod("qos=BE prio=9999", ""), []string{`spec.priority: Forbidden: koordinator.sh/qosClass=BE does not go with priority class koord-prod (spec.priority is 9999); set spec.priorityClassName to a PriorityClass in koord-mid (7000 to 7999) or koord-batch (5000 to 5999) or koord-free (3000 to 3999), or`}},
		{"create BE + none", "", qosPod("qos=BE", ""), []string{`spec.priority: Forbidden: koordinator.sh/qosClass=BE needs a priority class, and the pod is in none (spec.priority is not set); set`}},
		{"create BE + 0", "", qosPod("qos=BE prio=0", ""), []string{`spec.priority: Forbidden: …(spec.priority is 0)`}},
		{"create BE + label", "", qosPod("qos=BE class=koord-batch prio=9999", ""), nil},
		{"create BE + prod label", "", qosPod("qos=BE class=koord-prod prio=5000", ""), []string{`metadata.labels[koordinator.sh/priority-class]: Forbidden: …(label koordinator.sh/priority-class=koord-prod)`}},
		{"create BE + a label that is no class", "", qosPod("qos=BE class=batch prio=5000", ""), []string{`metadata.labels[koordinator.sh/priority-class]: Forbidden: …the pod is in none (label koordinator.sh/priority-class=batch)`, `label koordinator.sh/priority-class: "batch" is no class`}},
		{"create LSR + 9999 + 1", "", qosPod("qos=LSR prio=9999", asking(oneCPU)), nil},
		{"create LSR + batch", "", qosPod("qos=LSR prio=5999", asking(oneCPU)), []string{`spec.priority: Forbidden: koordinator.sh/qosClass=LSR does not go with priority class koord-batch (spec.priority is 5999); set spec.priorityClassName to a PriorityClass in koord-prod (9000 to 9999), or`}},
		{"create LSR + mid", "", qosPod("qos=LSR prio=7999", asking(oneCPU)), []string{`spec.priority: Forbidden: …koord-mid`}},
		{"create LSR + free", "", qosPod("qos=LSR prio=3999", asking(oneCPU)), []string{`spec.priority: Forbidden: …koord-free`}},
		{"create LSR + none", "", qosPod("qos=LSR", asking(oneCPU)), []string{`spec.priority: Forbidden: …the pod is in none`}},
		{"create LS + 9999", "", qosPod("qos=LS prio=9999", asking(oneCPU)), nil},
		{"create LS + batch", "", qosPod("qos=LS prio=5000", ""), nil},
		{"create LSR without cpu", "", qosPod("qos=LSR prio=9999", asking(`"memory":"0Gi"`)), []string{cpuPath + `Required value: pods of QoS LSR own their CPUs and must ask for a whole number of cores, but nothing is asked for by container "a"; set requests.cpu`}},
		{"create LSR without cpu in two", "", qosPod("qos=LSR prio=9999", asking("", `"cpu":"0"`)), []string{cpuPath + `Required value: …by container "a", "b"; set`}},
		{"create LSR without containers", "", qosPod("qos=LSR prio=9999", ""), []string{qosPath + "Required value"}},
		{"create LSR + 100m", "", qosPod("qos=LSR prio=9999", asking(badCPU)), []string{cpuPath + `Invalid value: "100m": pods of QoS LSR own their CPUs and must ask for a whole number of cores, but container "a" asks for 100m, which makes 100m for the pod; ask for whole cores, or choose QoS LS`}},
		{"create LSE + 100m", "", qosPod("qos=LSE prio=9999", asking(badCPU)), []string{cpuPath + `Invalid value: "100m": pods of QoS LSE own`}},
		{"create LSE without cpu", "", qosPod("qos=LSE prio=9999", asking("")), []string{cpuPath + `Required value: pods of QoS LSE own`}},
		{"the second container breaks it", "", qosPod("qos=LSR prio=9999", asking(`"cpu":"2"`, `"cpu":"1500m"`)), []string{`spec.containers[1].resources.requests.cpu: Invalid value: "1500m": …but container "b" asks for 1500m, which makes 3500m for the pod`}},
		{"two containers break it", "", qosPod("qos=LSR prio=9999", asking(`"cpu":"250m"`, `"cpu":"1500m"`)),
			[]string{cpuPath + `Invalid value: "250m": …but container "a" asks for 250m and container "b" asks for 1500m, which makes 1750m`}},
		{"halves that make a whole", "", qosPod("qos=LSR prio=9999", asking(`"cpu":"500m"`, `"cpu":"1500m"`)), nil},
		{"cpu limits only", "", qosPod("qos=LSR prio=9999", `"containers":[{"name":"a","resources":{"limits":{"cpu":"2"}}}]`), nil},
		{"a small init container", "", qosPod("qos=LSR prio=9999", `"initContainers":[`+containersAsking("i", []string{badCPU})+`],`+asking(oneCPU)), nil},
		{"a large init container", "", qosPod("qos=LSR prio=9999", `"initContainers":[`+containersAsking("i", []string{`"cpu":"2500m"`})+`],`+asking(oneCPU)), []string{`spec.initContainers[0].resources.requests.cpu: Invalid value: "2500m": …container "i" asks for 2500m, which makes 2500m`}},
		{"a sidecar", "", qosPod("qos=LSR prio=9999", `"initContainers":[{"name":"s","restartPolicy":"Always","resources":{"requests":{`+badCPU+`}}}],`+asking(oneCPU)), []string{`spec.initContainers[0].resources.requests.cpu: Invalid value: "100m": …makes 1100m`}},
		{"an overhead", "", qosPod("qos=LSR prio=9999", `"overhead":{"cpu":"250m"},`+asking(oneCPU)), []string{`spec.overhead.cpu: Invalid value: "250m": …spec.overhead asks for 250m, which makes 1250m`}},
		{"the pod as a whole", "", qosPod("qos=LSR prio=9999", `"resources":{"requests":{"cpu":"1500m"}},`+asking(oneCPU)), []string{`spec.resources.requests.cpu: Invalid value: "1500m": …spec.resources asks for 1500m`}},
		{"the pod as a whole is what counts", "", qosPod("qos=LSR prio=9999", `"resources":{"requests":{"cpu":"2"}},`+asking(badCPU)), nil},
		{"the pod as a whole and an overhead", "", qosPod("qos=LSR prio=9999", `"overhead":{"cpu":"250m"},"resources":{"requests":{"cpu":"2"}},`+asking(badCPU)), []string{`spec.overhead.cpu: Invalid value: "250m": …which makes 2250m`}},
		{"two problems", "", qosPod("qos=LSR", asking(badCPU)), []string{`spec.priority: Forbidden`, cpuPath + "Invalid"}},
		{"LSE in another class", "", qosPod("qos=LSE prio=5000", asking(oneCPU)), []string{"pods of QoS LSE should have priority class koord-prod, not koord-batch; set priorityClassName"}},
		{"LSE in no class", "", qosPod("qos=LSE", asking(oneCPU)), []string{"pods of QoS LSE should have priority class koord-prod, not none"}},
		{"SYSTEM in another class", "", qosPod("qos=SYSTEM class=koord-mid", ""), []string{"pods of QoS SYSTEM should have"}},
		{"SYSTEM of the system", "", qosPod("qos=SYSTEM prio=2000001000", ""), nil},
		{"mid without QoS", "", qosPod("prio=7000", asking(`"kubernetes.io/mid-cpu":"500"`)), []string{`container "a" asks for kubernetes.io/mid-cpu; set label koordinator.sh/qosClass to LS or BE`}},
		{"mid with LS", "", qosPod("qos=LS prio=7000", asking(`"kubernetes.io/mid-cpu":"500"`)), nil},
		{"mid with BE", "", qosPod("qos=BE prio=7000", asking(`"kubernetes.io/mid-cpu":"500"`)), nil},
		{"a QoS that is none", "", qosPod("qos=be", ""), []string{`label koordinator.sh/qosClass: "be" is no QoS class and counts for nothing; LSE, LSR, LS, BE, SYSTEM are`}},
		{"empty labels", "", qosPod("qos= class= prio=5000", ""), nil},
	})
}

func TestQoSPriorityOnUpdate(t *testing.T) {
	classPath := "metadata.labels[koordinator.sh/priority-class]: "
	cases := []verdictCase{
		{"nothing changes", qosPod("qos=BE prio=5000", asking(batch)), qosPod("qos=BE prio=5000", asking(batch)), nil},
		{"QoS BE to LS", qosPod("qos=BE", ""), qosPod("qos=LS", ""), []string{qosPath + `Invalid value: "LS": was "BE" and cannot change while the pod exists`}},
		{"QoS BE to none", qosPod("qos=BE", ""), qosPod("", ""), []string{qosPath + `Invalid value: "": was "BE"`}},
		{"QoS none to BE", qosPod("prio=5000", ""), qosPod("qos=BE prio=5000", ""), []string{qosPath + `Invalid value: "BE": was ""`}},
		{"QoS none to what is none", qosPod("", ""), qosPod("qos=zzz", ""), []string{`label koordinator.sh/qosClass: "zzz" is no`}},
		{"QoS that is none stays", qosPod("qos=zzz", ""), qosPod("qos=zzz sub=1", ""), []string{`metadata.labels[koordinator.sh/priority]: Invalid value: "1": was ""`}},
		{"QoS LS to BE with batch", qosPod("qos=BE prio=5000", asking(batch)), qosPod("qos=LS prio=5000", asking(batch)), []string{qosPath + `Invalid value: "LS": was "BE"`, qosPath + `Invalid value: "LS": container "a"`}},
		{"priority 5000 to 9999", qosPod("prio=5000", ""), qosPod("prio=9999", ""), []string{`spec.priority: Invalid value: "koord-prod": the priority class was "koord-batch" and cannot`}},
		{"priority 5000 to null", qosPod("prio=5000", ""), qosPod("", ""), []string{`spec.priority: Invalid value: "": the priority class was "koord-batch"`}},
		{"priority null to 5000", qosPod("", ""), qosPod("prio=5000", ""), []string{`spec.priority: Invalid value: "koord-batch": the priority class was ""`}},
		{"priority 9600 to 9500", qosPod("prio=9600", ""), qosPod("prio=9500", ""), nil},
		{"the class changes by its label", qosPod("prio=5000", ""), qosPod("class=koord-prod prio=5000", ""), []string{classPath + `Invalid value: "koord-prod": the priority class was "koord-batch"`}},
		{"the class's label goes", qosPod("class=koord-mid prio=5000", ""), qosPod("prio=5000", ""), []string{classPath + `Invalid value: "koord-batch": the priority class was "koord-mid"`}},
		{"a label classes what had none", qosPod("prio=100", ""), qosPod("class=koord-prod prio=100", ""), nil},
		{"but not so that it breaks a rule", qosPod("qos=LSR prio=100", asking(oneCPU)), qosPod("qos=LSR class=koord-mid prio=100", asking(oneCPU)), []string{classPath + "Forbidden: koordinator.sh/qosClass=LSR does not go with priority class koord-mid"}},
		{"a class's label repeats the priority", qosPod("prio=5000", ""), qosPod("class=koord-batch prio=5000", ""), nil},
		{"sub-priority", qosPod("sub=9999", ""), qosPod("sub=8888", ""), []string{`metadata.labels[koordinator.sh/priority]: Invalid value: "8888": was "9999" and cannot`}},
		{"sub-priority goes", qosPod("sub=9999", ""), qosPod("", ""), []string{`metadata.labels[koordinator.sh/priority]: Invalid value: "": was "9999"`}},
		// Existing violations may stay.
		{"BE + prod gets a finalizer", qosPod("qos=BE prio=9999", ""), strings.Replace(qosPod("qos=BE prio=9999", ""), `"name"`, `"finalizers":["x"],"name"`, 1), nil},
		{"LSR without cpu is annotated", qosPod("qos=LSR", asking("")), strings.Replace(qosPod("qos=LSR", asking("")), `"name"`, `"annotations":{"x":"y"},"name"`, 1), nil},
		{"batch without BE is labelled", qosPod("", asking(batch)), strings.Replace(qosPod("", asking(batch)), `"labels":{`, `"labels":{"x":"y"`, 1), nil},
		{"batch without BE asks for more", qosPod("", asking(batch)), qosPod("", asking(batch, batch)), []string{qosPath + "Required value"}},
		{"a pod being deleted", qosPod("qos=LSR prio=5000 del", asking(badCPU)), qosPod("qos=BE prio=9999 sub=3 del", asking(batch)), nil},
		{"a pod that says so itself", qosPod("qos=LSR prio=9999", asking(oneCPU)), qosPod("qos=LSR prio=9999 del", asking(badCPU)), []string{cpuPath + "Invalid"}},
		{"no warnings again", qosPod("qos=LSE prio=5000", asking(oneCPU)), qosPod("qos=LSE prio=5000", asking(oneCPU)), nil},
		{"no warning of mid again", qosPod("", asking(`"kubernetes.io/mid-cpu":"1"`)), qosPod("", asking(`"kubernetes.io/mid-cpu":"1"`)), nil},
		// In-place resize: the object is the whole pod.
		{"LSR resized to a part", qosPod("qos=LSR prio=9999", asking(oneCPU)), qosPod("qos=LSR prio=9999", asking(`"cpu":"1500m"`)), []string{cpuPath + `Invalid value: "1500m"`}},
		{"LSE resized to a part", qosPod("qos=LSE prio=9999", asking(oneCPU)), qosPod("qos=LSE prio=9999", asking(`"cpu":"1500m"`)), []string{cpuPath + `Invalid value: "1500m"`}},
		{"LSR resized to nothing", qosPod("qos=LSR prio=9999", asking(oneCPU)), qosPod("qos=LSR prio=9999", asking(`"cpu":"0"`)), []string{cpuPath + `Required value`}},
		{"LSR resized to more", qosPod("qos=LSR prio=9999", asking(oneCPU)), qosPod("qos=LSR prio=9999", asking(`"cpu":"4"`)), nil},
		{"LSR resized by memory only", qosPod("qos=LSR prio=9999", asking(badCPU)), qosPod("qos=LSR prio=9999", asking(badCPU+`,"memory":"1Gi"`)), nil},
		{"LSR of no class resized", qosPod("qos=LSR", asking(oneCPU)), qosPod("qos=LSR", asking(`"cpu":"2"`)), nil},
		{"LS becomes LSR with a part", qosPod("qos=LS prio=9999", asking(badCPU)), qosPod("qos=LSR prio=9999", asking(badCPU)),
			[]string{qosPath + `Invalid value: "LSR": was "LS"`, cpuPath + `Invalid value: "100m"`}},
		{"LS resized to a part", qosPod("qos=LS prio=9999", asking(oneCPU)), qosPod("qos=LS prio=9999", asking(badCPU)), nil},
	}
	runVerdicts(t, qosPriority(false), cases)
	runVerdicts(t, qosPriority(true), []verdictCase{
		{"sub-priority may change", qosPod("sub=9999", ""), qosPod("sub=8888", ""), nil},
		{"sub-priority may go", qosPod("sub=9999", ""), qosPod("", ""), nil},
		{"QoS may not", qosPod("qos=LS", ""), qosPod("qos=SYSTEM", ""), []string{qosPath + `Invalid value: "SYSTEM": was "LS"`}},
	})
}

// TestQoSPriorityCombinations is the reference's matrix of QoS and priority classes.
func TestQoSPriorityCombinations(t *testing.T) {
	priorities := map[string]string{"none": "", "prod": "prio=9000", "mid": "prio=7999", "batch": "prio=5000", "free": "prio=3000"}
	refused := map[string]string{"LSR": "none mid batch free", "BE": "none prod"}
	for _, qos := range []string{"", "LS", "LSE", "LSR", "BE", "SYSTEM"} {
		for class, priority := range priorities {
			got := strings.Contains(judge(t, qosPriority(false), "", qosPod("qos="+qos+" "+priority, asking(oneCPU))), "Forbidden")
			if want := strings.Contains(refused[qos], class); got != want {
				t.Errorf("QoS %q, class %s: refused %v, want %v", qos, class, got, want)
			}
		}
	}
}

func pick(r *rand.Rand, choices ...string) string { return choices[r.IntN(len(choices))] }

// randomColocated is a pod with random classes and resources.
func randomColocated(r *rand.Rand) string {
	list := func() string {
		name := pick(r, "cpu", "memory", "kubernetes.io/batch-cpu", "kubernetes.io/mid-memory", "koordinator.sh/gpu", "koordinator.sh/gpu.shared", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio")
		return fmt.Sprintf(`%q:%s,"koordinator.sh/gpu-memory":%s`, name, pick(r, `"1"`, `"0"`, `1.5`, `"150"`, `"-1"`, `"x"`, `null`, `"9e99"`, `"1e-5000000"`), pick(r, `"1"`, `"0"`))
	}
	short := "qos=" + pick(r, "", "LS", "LSR", "LSE", "BE", "SYSTEM", "be") + pick(r, "", " class=koord-prod", " class=x") + pick(r, "", " prio=9000", " prio=5000", " prio=-1") + pick(r, "", "", " del")
	spec := `"initContainers":[` + containersAsking("i", []string{list()}) + `],` + asking(list(), list())
	return qosPod(short, spec+pick(r, "", `,"overhead":{"cpu":"1"}`, `,"resources":{"requests":{"cpu":"500m"}}`))
}

// TestRandomPodsAreJudged: no pod makes a check panic, or say something without a path and a way out; and an update
// that changes nothing is always let pass, whatever is wrong with the pod.
func TestRandomPodsAreJudged(t *testing.T) {
	r := seed.Random(t)
	for range 500 {
		pod, old := randomColocated(r), randomColocated(r)
		for _, check := range []admit.Validator[admit.Pod]{qosPriority(r.IntN(2) > 0), deviceResource(), topology(), reservePod()} {
			judge(t, check, old, pod)
			for line := range strings.Lines(judge(t, check, "", pod)) {
				if !strings.Contains(line, "; ") && !strings.Contains(line, ": ") {
					t.Fatalf("%s says %q of %s", check.Name, line, pod)
				}
			}
			if got := judge(t, check, pod, pod); got != "" {
				t.Fatalf("%s: nothing changes in %s, but: %s", check.Name, pod, got)
			}
		}
	}
}

// benchPod is a pod of 2.9 KB with three containers whose resource lists hold the members.
func benchPod(labels, annotations, members string) string {
	container := func(name string) string {
		return `{"name":"` + name + `","image":"registry.example.com/team/` + name + `@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",` +
			`"args":["--listen=:8080","--log-level=info"],"env":[{"name":"NODE_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"spec.nodeName"}}},{"name":"MODE","value":"production"}],` +
			`"ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"resources":{"limits":{` + members + `},"requests":{` + members + `}},` +
			`"livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},` +
			`"volumeMounts":[{"name":"kube-api-access-abcde","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],` +
			`"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}`
	}
	return `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-5d4f8c7b6-x7k2p","namespace":"apps","labels":{` + labels + `"app":"web"},"annotations":{` + annotations + `"prometheus.io/scrape":"true"}},` +
		`"spec":{"containers":[` + container("app") + "," + container("proxy") + "," + container("log") + `],"restartPolicy":"Always","priority":9500,"schedulerName":"default-scheduler"}}`
}

func benchCheck(b *testing.B, check admit.Validator[admit.Pod], pod string) {
	b.SetBytes(int64(len(pod)))
	b.ReportAllocs()
	for b.Loop() {
		d := parsed(b, pod)
		if _, err := check.Run(b.Context(), &admit.Request{Object: d}, admit.AsPod(d)); err != nil {
			b.Fatal(err)
		}
		d.Release()
	}
}

const nativeMembers = `"cpu":"500m","memory":"1Gi"`

func BenchmarkQoSPriority(b *testing.B) {
	b.Run("nothing to do", func(b *testing.B) { benchCheck(b, qosPriority(false), benchPod("", "", nativeMembers)) })
	b.Run("at work", func(b *testing.B) {
		benchCheck(b, qosPriority(false), benchPod(`"koordinator.sh/qosClass":"LSR",`, "", `"cpu":"2","memory":"1Gi"`))
	})
}
