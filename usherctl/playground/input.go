package playground

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/handlers"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/review"
	"usher.dev/usher/usherctl/yamlnode"
)

// Input holds a user's input and choices. All members may be empty.
type Input struct {
	Object      string `json:"object"` // manifests, or an AdmissionReview, as YAML or JSON
	Old         string `json:"old"`    // the stored object, for an update
	Policy      string `json:"policy"` // empty: the default policy
	Cluster     string `json:"cluster"`
	Gates       string `json:"gates"`
	Operation   string `json:"operation"`
	Subresource string `json:"subresource"`
	User        string `json:"user"`
	Groups      string `json:"groups"` // separated by commas
	Namespace   string `json:"namespace"`
	DryRun      bool   `json:"dryRun"`
	Path        string `json:"path"` // the only route to call, or a suite; empty: those routes that an API server calls
}

// options returns how the object is sent.
func (in Input) options() (requests.Options, error) {
	o := requests.Options{Operation: admissionv1.Operation(cmp.Or(strings.ToUpper(in.Operation), "CREATE")), SubResource: in.Subresource,
		User: cmp.Or(in.User, "kubernetes-admin"), Namespace: cmp.Or(in.Namespace, "default"), DryRun: in.DryRun}
	o.Groups = requests.GroupsOf(o.User)
	if in.Groups != "" {
		o.Groups = strings.FieldsFunc(in.Groups, func(r rune) bool { return r == ',' || r == ' ' })
	}
	if strings.TrimSpace(in.Old) == "" || o.Operation != admissionv1.Update {
		return o, nil
	}
	old := requests.Read("-", strings.NewReader(in.Old))
	if len(old) != 1 {
		return o, errors.New("the stored object is one object, not several")
	}
	if tooDeep(old[0].JSON) {
		return o, fmt.Errorf("it has more than %d lists and mappings in one another", maxDepth)
	}
	o.Old = old[0].JSON
	return o, old[0].Err
}

// stored returns the objects of the tab Object that count as stored while others are reviewed: those that steps ask for, and that no
// step judges by what is stored.
func (in Input) stored() (given []manifest.Object) {
	for _, d := range requests.Read("object", strings.NewReader(in.Object)) {
		var is metav1.TypeMeta
		if d.Err == nil && json.Unmarshal(d.JSON, &is) == nil && slices.Contains([]string{"Namespace", "LimitRange", "PriorityClass"}, is.Kind) {
			given = append(given, manifest.Object{TypeMeta: is, Place: manifest.Place{File: "object"}, JSON: d.JSON})
		}
	}
	return given
}

// onPage names a setting of the request as the page has it.
func onPage(name, value string) string {
	names := map[string]string{"operation": "Operation", "subresource": "Subresource", "as": "User", "old": "the tab Stored object", "path": "Routes"}
	return strings.TrimSpace(names[name] + " " + value)
}

// maxDepth is the maximum nesting depth of an object. In YAML, each line is indented by its depth:
// the time that it takes to show an object grows with the depth's square.
const maxDepth = 500

// tooDeep reports whether a JSON document has more lists and mappings in one another than are shown.
func tooDeep(raw []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// withPods replaces workloads by the pods of their controllers, as `usherctl review` does.
func (w *instance) withPods(documents []requests.Document, o requests.Options) []requests.Document {
	makesPods := o.Operation == admissionv1.Create || o.Operation == admissionv1.Update
	if !makesPods || o.SubResource != "" {
		return documents
	}
	return requests.WithPods(documents, nil, o, func(object *unstructured.Unstructured) bool {
		request := &admit.Request{Kind: metav1.GroupVersionKind(object.GroupVersionKind()), Operation: o.Operation, Namespace: object.GetNamespace()}
		return slices.ContainsFunc(w.routes, func(r admit.Route) bool { return r.JudgesItself(request) })
	})
}

// Answer holds the results that the page shows.
type Answer struct {
	Problems []Problem `json:"problems"`
	Objects  []Object  `json:"objects"` // the worst first
	Micros   int64     `json:"micros"`  // how long it took
}

// Problem is something that a user can correct: in a tab of the page, at a line counted from 1, or 0.
type Problem struct {
	Tab     string `json:"tab"`
	Line    int    `json:"line"`
	Text    string `json:"text"`
	Warning bool   `json:"warning,omitempty"` // the object is not refused for it
}

// Object is the result for one object.
type Object struct {
	Report report.Report `json:"report"`
	Stages []Stage       `json:"stages"`
	Marks  []Problem     `json:"marks"`  // the fields that were refused or are unknown, at their lines
	Review string        `json:"review"` // the AdmissionReview of the first route
	// Responses are the answers of the routes, each with its complete patch.
	Responses []response `json:"responses"`
}

// response is the answer of a route, as text.
type response struct {
	Path   string `json:"path"`
	Patch  string `json:"patch"` // an operation a line
	Review string `json:"review"`
}

// responseOf returns what a route answered to a review.
func responseOf(body []byte, c report.Call) response {
	var asked admissionv1.AdmissionReview
	_ = json.Unmarshal(body, &asked) // it has been read
	answer := &admissionv1.AdmissionResponse{Allowed: c.Outcome == string(handlers.Allowed) || c.Outcome == string(handlers.Mutated),
		Warnings: c.Warnings, AuditAnnotations: c.Audit}
	if asked.Request != nil {
		answer.UID = asked.Request.UID
	}
	var operations []string
	for _, o := range c.Patch {
		text, _ := json.Marshal(o) // it has been decoded from JSON
		operations = append(operations, string(text))
	}
	if len(operations) > 0 {
		answer.PatchType, answer.Patch = ptr.To(admissionv1.PatchTypeJSONPatch), []byte("["+strings.Join(operations, ",")+"]")
	}
	if !answer.Allowed {
		answer.Result = &metav1.Status{Status: metav1.StatusFailure, Message: c.Message, Reason: metav1.StatusReason(c.Reason), Code: int32(c.Code)}
		if len(c.Causes) > 0 {
			answer.Result.Details = &metav1.StatusDetails{Causes: c.Causes}
		}
	}
	text, _ := json.Marshal(admissionv1.AdmissionReview{TypeMeta: asked.TypeMeta, Response: answer})
	return response{c.Path, strings.Join(operations, "\n"), indented(text)}
}

// Stage is the object at one point on its way.
type Stage struct {
	Name    string `json:"name"` // sent, stored, or the name of a step or of a plug-in of the API server
	Path    string `json:"path,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Mode    string `json:"mode,omitempty"`
	// Document is the object as YAML, empty if it is as at the stage before.
	Document string             `json:"document,omitempty"`
	Patch    []report.Operation `json:"patch,omitempty"`
	Refused  []string           `json:"refused,omitempty"`
	Marks    []Problem          `json:"marks,omitempty"` // what was refused, at the lines of the object then
	Why      []string           `json:"why,omitempty"`
	Micros   float64            `json:"micros"`
}

// objectOf returns what the page shows of a report.
func objectOf(d requests.Document, text string, body []byte, r report.Report) Object {
	places := newPlaces(text, d.Line)
	yamlOf := func(raw json.RawMessage) string { return yamlLike(raw, places.sent(d.Of != "")) }
	o := Object{Report: r, Review: indented(body), Stages: []Stage{{Name: "sent", Outcome: r.Operation, Document: yamlOf(r.Before)}}}
	plugins, now := pluginStages(r, yamlOf)
	o.Stages = append(o.Stages, plugins...)
	for _, call := range r.Calls {
		for _, s := range call.Steps {
			stage := stageOf(s, call.Path)
			if len(s.Patch) > 0 {
				now, call.Before = after(now, call.Before, s.After), s.After
				stage.Document = yamlOf(now)
			}
			stage.Marks = marksIn(yamlOf(now), s.Refused)
			o.Stages = append(o.Stages, stage)
		}
		o.Responses = append(o.Responses, responseOf(body, call))
		for _, cause := range call.Causes {
			o.Marks = append(o.Marks, Problem{Tab: "object", Line: places.lineOf(d.FieldInFile(cause.Field)),
				Text: fmt.Sprintf("%s: %s", cause.Field, cause.Message)})
		}
	}
	for _, problem := range r.Invalid {
		o.Marks = append(o.Marks, Problem{Tab: "object", Line: places.lineOf(fieldOf(problem)), Text: problem})
	}
	o.Marks = append(o.Marks, unknownIn(places, r)...)
	if r.Verdict == report.Allowed {
		o.Stages = append(o.Stages, Stage{Name: "stored", Document: yamlOf(r.After)})
	}
	return o
}

func stageOf(s report.Step, path string) Stage {
	stage := Stage{Name: s.Name, Path: path, Mode: s.Mode, Outcome: report.OutcomeOf(s, path), Patch: s.Patch, Refused: s.Refused, Why: s.Why,
		Micros: float64(s.Took.Nanoseconds()) / 1000}
	return stage
}

// pluginStages returns what built-in plug-ins changed before the first webhook was called, and the object then.
func pluginStages(r report.Report, yamlOf func(json.RawMessage) string) (stages []Stage, now json.RawMessage) {
	now = r.Before
	for _, p := range r.Plugins {
		if p.Outcome == "changed" && p.Round == 1 && !review.Routine(p.Name) {
			now = after(now, p.Before, p.After)
			stages = append(stages, Stage{Name: p.Name, Document: yamlOf(now)})
		}
	}
	return stages, now
}

// after returns an object as it was sent after a change of the API server's form of it, which has defaults.
func after(sent, before, changed json.RawMessage) json.RawMessage {
	if yamlOf(sent) == yamlOf(before) {
		return changed
	}
	return review.Merge(sent, before, changed)
}

// unknownIn returns the fields that the kind of the file does not know.
func unknownIn(places places, r report.Report) (marks []Problem) {
	for _, f := range r.Strictly() {
		if _, rest, found := strings.Cut(f.Message, `field "`); found && f.ID == "unknown-field" {
			field, _, _ := strings.Cut(rest, `"`)
			marks = append(marks, Problem{Tab: "object", Line: places.lineOf(field), Text: f.Message, Warning: true})
		}
	}
	return marks
}

// marksIn returns what was refused at the lines of a whole text.
func marksIn(text string, refused []string) (marks []Problem) {
	if len(refused) == 0 {
		return nil
	}
	places := newPlaces(text, 1)
	for _, problem := range refused {
		field := fieldOf(problem)
		if field == "metadata.name" && places.lineOf(field) == places.lineOf("metadata") { // the API server makes the name
			field = "metadata.generateName"
		}
		marks = append(marks, Problem{Line: places.lineOf(field), Text: problem})
	}
	return marks
}

// fieldOf returns the path that the text of a problem begins with.
func fieldOf(problem string) string {
	field, _, _ := strings.Cut(problem, ": ")
	return field
}

func indented(raw []byte) string {
	var text bytes.Buffer
	if json.Indent(&text, raw, "", "  ") != nil {
		return string(raw)
	}
	return text.String()
}

func yamlOf(raw json.RawMessage) string { return yamlLike(raw, nil) }

// yamlLike returns an object as YAML, with the keys in the order of another one, which may be nil; those that only the object has come last.
func yamlLike(raw json.RawMessage, like *yaml.Node) string {
	if len(raw) == 0 {
		return ""
	}
	var document yaml.Node
	if err := yaml.Unmarshal(raw, &document); err != nil || len(document.Content) == 0 {
		return string(raw)
	}
	arrange(document.Content[0], like)
	var text strings.Builder
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(&document); err != nil {
		return string(raw)
	}
	return text.String()
}

// truth matches the texts that Kubernetes' YAML takes for true or false, and this encoder for text, which it does not quote.
var truth = regexp.MustCompile(`(?i)^(y|yes|n|no|on|off)$`)

// unquote removes the style of JSON from a value or key.
func unquote(of *yaml.Node) {
	if of.Style = 0; truth.MatchString(of.Value) {
		of.Style = yaml.DoubleQuotedStyle
	}
}

// arrange removes the style of JSON from a value, and gives its mappings the order of another one, which may be nil.
func arrange(value, like *yaml.Node) {
	unquote(value)
	places := map[string]int{"apiVersion": math.MinInt, "kind": math.MinInt + 1} // which the template of a pod has not
	values := map[string]*yaml.Node{}
	for part, child := range parts(like) {
		places[part], values[part] = len(values)-len(like.Content), child // before the parts that it has not, which are at 0
	}
	for part, child := range parts(value) {
		arrange(child, values[part])
	}
	if value.Kind != yaml.MappingNode {
		return
	}
	members := slices.Collect(slices.Chunk(value.Content, 2))
	slices.SortStableFunc(members, func(a, b []*yaml.Node) int { return cmp.Compare(places[a[0].Value], places[b[0].Value]) })
	value.Content = slices.Concat(members...)
	for _, m := range members {
		unquote(m[0])
	}
}

// parts returns the members of a mapping by their keys, or the elements of a list by their names, or else by their indices.
func parts(of *yaml.Node) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		for i := 0; of != nil && i < len(of.Content); i++ {
			child, part := of.Content[i], strconv.Itoa(i)
			if of.Kind == yaml.MappingNode {
				i++
				child, part = of.Content[i], child.Value
			} else if _, name := yamlnode.Child(child, "name"); name != nil {
				part = name.Value
			}
			if !yield(part, child) {
				return
			}
		}
	}
}
