package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// step is a part of the walk-through. Commands are indented by four spaces; the expected output follows after "-> ",
// where … stands for any text. The soak test runs the commands as printed, and checks their output.
type step struct {
	title string
	says  string
	tries []try
}

type try struct {
	command string
	answers []string
}

// guide returns the text that is printed when the cluster is up.
func (d *demo) guide() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n\nIn a second terminal:\n\n", d.heading("The cluster is up, until Ctrl-C here."))
	for _, command := range []string{"cd " + quoted(d.root), "export KUBECONFIG=" + quoted(d.cluster.AdminKubeconfig()),
		"export PATH=" + quoted(d.binFolder()) + ":$PATH"} {
		fmt.Fprintf(&b, "    %s\n", command)
	}
	b.WriteString("\nThen, one line after the other:\n")
	if d.options.policy != "" {
		b.WriteString("(What follows was written for deploy/overlays/demo/policy.yaml; with your policy, other answers may come.)\n")
	}
	for i, step := range d.walkThrough() {
		fmt.Fprintf(&b, "\n%s\n", d.heading(fmt.Sprintf("%d. %s", i+1, step.title)))
		if step.says != "" {
			fmt.Fprintf(&b, "%s\n", step.says)
		}
		b.WriteString("\n")
		for _, try := range step.tries {
			fmt.Fprintf(&b, "    %s\n", try.command)
			for _, answer := range try.answers {
				fmt.Fprintf(&b, "  -> %s\n", answer)
			}
		}
	}
	if pages := pagesToTry(d.root); d.options.policy == "" && len(pages) > 0 {
		fmt.Fprintf(&b, "\n%s\n%s\n\n", d.heading("More to try"), saysMore)
		for _, page := range pages {
			fmt.Fprintf(&b, "  %-31s %s\n", page[0], page[1])
		}
	}
	fmt.Fprintf(&b, "\n%s\n", d.heading("Where things are"))
	for _, line := range d.places() {
		fmt.Fprintf(&b, "  %-18s %s\n", line[0], line[1])
	}
	b.WriteString("\nNothing runs in the pods: `kubectl logs` and `exec` have nobody to talk to.\n")
	return b.String()
}

const (
	answersForbidden = `Error from server (Forbidden): …admission webhook "validate-pods.usher.dev" denied the request: ` +
		`denied-names: metadata.name: Forbidden: "offensive-pod" contains "offensive", which the policy does not allow…`
	answersDeleted = `mutatingwebhookconfiguration.admissionregistration.k8s.io "usher" deleted`
	answersCreated = "mutatingwebhookconfiguration.admissionregistration.k8s.io/usher created"
	answersMet     = "node/node-1 condition met"
	answersRolled  = `deployment "wide" successfully rolled out`
	tolerations    = `kubectl -n apps get pod lifespan-pod ` +
		`-o jsonpath='{.spec.tolerations[*].value} {.spec.containers[0].env}{"\n"}'`
)

// walkThrough returns the walk-through of deploy/README.md, with the numbers of these nodes.
func (d *demo) walkThrough() []step {
	steps := []step{
		{"A pod is refused", "usher is asked in namespaces with the label admission-webhook: enabled, such as apps.", []try{
			{"kubectl apply -f deploy/demo/offensive-pod.yaml", []string{answersForbidden}},
		}},
		{"A pod is changed", "Its label asks for 7 more days: a toleration for each value from 14 down to 7.", []try{
			{"kubectl apply -f deploy/demo/lifespan-pod.yaml", []string{"pod/lifespan-pod created"}},
			{tolerations, []string{`14 13 12 11 10 9 8 7 [{"name":"KUBE","value":"true"}]`}},
		}},
		{"Nodes are amplified", "With the kubelet's next status, every 3 s, 16 cores are 32, in capacity too.", []try{
			{"kubectl label node --all admission-webhook=enabled", []string{"node/node-1 labeled"}},
			{"kubectl wait node --all --for=jsonpath='{.status.allocatable.cpu}'=32 --timeout=1m", []string{answersMet}},
			{nodesCommand, []string{"node-1 32 32"}},
		}},
		{"A pod that is too large fits", "This Deployment's one pod asks for 24 cores, and no node has more than 16.", []try{
			{"kubectl apply -f deploy/demo/wide-deployment.yaml", []string{"deployment.apps/wide created"}},
			{"kubectl -n apps rollout status deployment/wide --timeout=2m", []string{answersRolled}},
			{"kubectl -n apps get pods -l app=wide -o wide", []string{"wide-… 1/1 Running…node-…"}},
		}},
		{"Without usher the nodes shrink back", "What runs goes on running. What comes next finds no room.", []try{
			{"kubectl delete mutatingwebhookconfiguration usher", []string{answersDeleted}},
			{"kubectl wait node --all --for=jsonpath='{.status.allocatable.cpu}'=16 --timeout=1m", []string{answersMet}},
			{"kubectl -n apps get pods -l app=wide", []string{"wide-… 1/1 Running"}},
			{"kubectl -n apps rollout restart deployment/wide", []string{"deployment.apps/wide restarted"}},
			{"kubectl -n apps get pods -l app=wide", []string{"wide-… 0/1 Pending"}},
			{"kubectl -n apps get events --field-selector reason=FailedScheduling",
				[]string{fmt.Sprintf("0/%d nodes are available: %[1]d Insufficient cpu…", d.options.nodes)}},
		}},
		{"With usher the pod is scheduled", "", []try{
			{"kubectl apply -f " + quoted(d.webhooksFile()), []string{answersCreated}},
			{"kubectl -n apps rollout status deployment/wide --timeout=2m", []string{answersRolled}},
		}},
	}
	if d.options.policy != "" {
		return steps // the user's own policy: its rules are unknown here
	}
	return append(steps,
		step{"The policy is changed", "usher reads the file again. A mistake leaves the old policy in force.", []try{
			{`sed -i.bak 's/cpu: "2"/cpu: "3"/' ` + quoted(d.usher.PolicyFile()), nil},
			{"kubectl wait node --all --for=jsonpath='{.status.allocatable.cpu}'=48 --timeout=1m", []string{answersMet}},
			{nodesCommand, []string{"node-1 48 48"}},
		}})
}

const nodesCommand = "kubectl get node -o custom-columns=" +
	"NAME:.metadata.name,CAPACITY:.status.capacity.cpu,ALLOCATABLE:.status.allocatable.cpu"

const saysMore = `The section "Try it in a cluster" of these pages is for the same terminal. try-policy makes usher serve another
policy. To return to the first one: try-policy deploy/overlays/demo/policy.yaml`

// pagesToTry returns the pages of docs/ that have commands for this cluster, and their titles.
func pagesToTry(root string) (pages [][2]string) {
	files, _ := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), "\n```console\n") {
			title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
			pages = append(pages, [2]string{"docs/" + filepath.Base(file), title})
		}
	}
	return pages
}

// places lists the addresses and files for further exploration.
func (d *demo) places() [][2]string {
	lines := [][2]string{
		{"policy", d.usher.PolicyFile()},
		{"webhooks", d.webhooksFile()},
		{"logs", filepath.Join(d.cluster.Dir(), "*.log")},
		{"requests", filepath.Join(d.cluster.Dir(), "audit.log") + ", with what webhooks patched"},
	}
	for _, r := range d.usher.Replicas {
		lines = append(lines, [2]string{r.Name, "curl http://" + r.Operations() + "/metrics"})
	}
	return lines
}

func (d *demo) heading(text string) string {
	if d.bold {
		return "\x1b[1m" + text + "\x1b[0m"
	}
	return text
}

// quoted quotes a path for a shell if necessary.
func quoted(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+") == "" {
		return path
	}
	return strconv.Quote(path)
}
