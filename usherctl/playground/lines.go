package playground

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/config"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/yamlnode"
)

// lineInText matches the line that the YAML decoder names.
var lineInText = regexp.MustCompile(`\bline (\d+)`)

// lineIn returns the line that the YAML decoder names in a text, counted from 1; 0 if it names none.
func lineIn(text string) (line int) {
	if m := lineInText.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
	}
	return line
}

// policyProblems returns the problems of a policy at their lines.
func policyProblems(text string, wrong []error) (all []Problem) {
	places := newPlaces(text, 1)
	for _, err := range wrong {
		p := Problem{Tab: "policy", Line: lineIn(err.Error()), Text: err.Error()}
		if at, ok := errors.AsType[*field.Error](err); ok {
			p.Line = places.lineOf(at.Field)
		} else if p.Line == 0 {
			p.Line = places.lineOf(fieldOf(p.Text))
		}
		all = append(all, p)
	}
	return all
}

// clusterProblems returns the problems of the manifests that stand for the cluster, one for each line of the error.
func clusterProblems(err error) (all []Problem) {
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line == "" || line == "cluster files:" {
			continue
		}
		p := Problem{Tab: "cluster", Text: line}
		if all := lineInText.FindAllStringSubmatch(line, -1); all != nil { // of the document, and then in it
			p.Line, _ = strconv.Atoi(all[len(all)-1][1])
		}
		all = append(all, p)
	}
	return all
}

// slipsOf returns what is probably not meant in the policy and the cluster, at its lines.
func slipsOf(in Input, policy *config.Policy, cluster requests.Slips) (all []Problem) {
	for _, text := range policy.Warnings() {
		all = append(all, Problem{Tab: "policy", Line: newPlaces(in.Policy, 1).lineOf(fieldOf(text)), Text: text})
	}
	for _, p := range cluster.Wrong {
		line := newPlaces(in.Cluster, p.Line).lineOf(fieldOf(p.Err.Error()))
		all = append(all, Problem{Tab: "cluster", Line: line, Text: p.Err.Error()})
	}
	if cluster.Unread != "" {
		all = append(all, Problem{Tab: "cluster", Text: cluster.Unread})
	}
	return all
}

// places knows the lines of the fields of a YAML document.
type places struct {
	root *yaml.Node
	off  int // lines before the document
}

// newPlaces returns the lines of the fields of the document that begins at a line of a text, counted from 1.
func newPlaces(text string, begins int) places {
	lines := strings.SplitAfter(text, "\n")
	off := min(max(begins-1, 0), len(lines))
	return places{yamlnode.Parse([]byte(strings.Join(lines[off:], ""))), off}
}

// lineOf returns the line of a field in the text, or of the deepest part of its path that is there. The path, such as
// spec.containers[0].env[1].name or metadata.labels[acme.com/tier], is that in the object, also if the text is an
// AdmissionReview. If nothing of it is there, the line is where the document begins.
func (p places) lineOf(path string) int {
	if p.root == nil {
		return p.off + 1
	}
	if _, request := yamlnode.Child(p.root, "request"); request != nil && !strings.HasPrefix(path, "request.") {
		path = "request.object." + path
	}
	return p.off + yamlnode.Line(p.root, partsOf(path))
}

// sent returns the object as it was typed, or of a workload the template of its pods; nil if there is none.
func (p places) sent(template bool) *yaml.Node {
	at := p.root
	if at == nil {
		return nil
	}
	if _, request := yamlnode.Child(at, "request"); request != nil {
		_, at = yamlnode.Child(request, "object")
	}
	for template && at != nil {
		_, spec := yamlnode.Child(at, "spec")
		if spec == nil {
			return nil
		}
		if _, at = yamlnode.Child(spec, "template"); at != nil {
			return at
		}
		_, at = yamlnode.Child(spec, "jobTemplate")
	}
	return at
}

var pathParts = regexp.MustCompile(`\[([^\]]*)\]|[^.\[\]]+`)

// partsOf splits a path into keys and indices.
func partsOf(path string) (parts []string) {
	for _, m := range pathParts.FindAllStringSubmatch(path, -1) {
		if m[1] != "" {
			parts = append(parts, m[1])
			continue
		}
		parts = append(parts, m[0])
	}
	return parts
}
