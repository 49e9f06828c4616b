package learn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/usherctl/doctor"
)

// Check is one thing that a learner has to do. Exactly one member beside Missing is set.
type Check struct {
	// Missing says in one line what is missing while the check fails.
	Missing string `json:"missing"`

	Case    json.RawMessage `json:"case,omitempty"`    // a case of `usherctl test`
	Called  *Called         `json:"called,omitempty"`  // `usherctl doctor -f`
	Doctor  *Doctor         `json:"doctor,omitempty"`  // `usherctl doctor`
	Trusts  *Trusts         `json:"trusts,omitempty"`  // the caBundle of each webhook
	Patch   *Patch          `json:"patch,omitempty"`   // a JSON patch
	Answer  *Answer         `json:"answer,omitempty"`  // an AdmissionReview with a response
	Probe   *Probe          `json:"probe,omitempty"`   // `usherctl probe`
	Same    *Same           `json:"same,omitempty"`    // what the task does not ask to change
	Text    *Text           `json:"text,omitempty"`    // a question, answered in a file
	Cluster *Cluster        `json:"cluster,omitempty"` // an object of a real cluster
}

// Called is whether the API server calls a webhook for each object of a manifest, in the cluster that a folder stands for. A
// Namespace in the manifest is one of the cluster.
type Called struct {
	Cluster  string   `json:"cluster"`
	Manifest string   `json:"manifest"` // of the learner, or in check/
	Webhook  string   `json:"webhook"`
	Requests []string `json:"requests"` // an operation, or one and a subresource, such as CREATE, or "UPDATE status"
	As       string   `json:"as,omitempty"`
	Is       bool     `json:"is"`
}

// Doctor lists what `usherctl doctor` must not find in the cluster that a folder stands for.
type Doctor struct {
	Cluster string   `json:"cluster"`
	Without []string `json:"without"`
}

// Text is the answer to a question, as a regular expression. Quotes around the text of a whole file and a period at its end do not matter.
type Text struct {
	File  string `json:"file"`
	Field string `json:"field,omitempty"` // with dots, of the YAML or JSON that the file holds: each of its values, or null; empty: the file
	Is    string `json:"is"`
}

// Cluster is a field of an object, or that there is no such object.
type Cluster struct {
	Path   string `json:"path"`
	Field  string `json:"field,omitempty"` // with dots
	Is     string `json:"is,omitempty"`    // a regular expression
	Absent bool   `json:"absent,omitempty"`
}

// ErrNoCluster is the error for a lesson that needs a cluster, without one.
var ErrNoCluster = errors.New("this lesson needs a cluster: its text says which, and that prints how to reach it")

// Verdict is the result of a lesson's check.
type Verdict struct {
	// Missing says in one line what is missing; empty if the lesson is done.
	Missing string `json:"missing,omitempty"`
	// Saw says in one line what the check saw, if one line can; Detail says all.
	Saw    string `json:"saw,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Done reports whether nothing is missing.
func (v Verdict) Done() bool { return v.Missing == "" }

// Unreadable is the error for a file of the learner that cannot be read, for example because it is not YAML.
type Unreadable struct{ Text string }

func (u Unreadable) Error() string { return u.Text }

// Check checks what a learner has done in a folder. An error means that it could not be checked.
func (l Lesson) Check(ctx context.Context, folder string, tools Tools) (Verdict, error) {
	webhook := &program{folder: folder, runs: tools.Programs}
	defer webhook.stop()
	for _, c := range l.Checks {
		detail, err := l.one(ctx, c, folder, tools, webhook)
		if unreadable, is := errors.AsType[Unreadable](err); is {
			text := strings.ReplaceAll(unreadable.Text, folder+string(filepath.Separator), "")
			return Verdict{Missing: "a file cannot be read: " + strings.Join(strings.Fields(text), " ")}, nil
		}
		if err != nil {
			return Verdict{}, err
		}
		if detail != "" {
			saw, _, _ := strings.Cut(detail, "\n")
			if strings.HasSuffix(saw, ":") { // it only introduces the lines after it
				saw = ""
			}
			return Verdict{c.Missing, saw, detail}, nil
		}
	}
	return Verdict{}, nil
}

// one returns what is wrong by one check, or "".
func (l Lesson) one(ctx context.Context, c Check, folder string, tools Tools, webhook *program) (string, error) {
	switch {
	case c.Case != nil:
		differences, err := runCase(ctx, tools.Env, folder, c.Case)
		return strings.Join(differences, "\n"), err
	case c.Called != nil:
		return l.called(ctx, *c.Called, folder, tools)
	case c.Doctor != nil:
		return examined(ctx, *c.Doctor, folder, tools)
	case c.Trusts != nil:
		return l.trusted(*c.Trusts, folder)
	case c.Patch != nil:
		return l.patched(*c.Patch, folder)
	case c.Answer != nil:
		return l.answered(ctx, *c.Answer, folder, webhook)
	case c.Probe != nil:
		return probed(ctx, *c.Probe, webhook)
	case c.Same != nil:
		return l.unchanged(*c.Same, folder)
	case c.Text != nil:
		return written(*c.Text, folder)
	case c.Cluster != nil:
		return stored(ctx, *c.Cluster, tools)
	}
	return "", fmt.Errorf("lesson %s: a check checks nothing", l.Name)
}

func (l Lesson) called(ctx context.Context, c Called, folder string, tools Tools) (string, error) {
	var text []byte
	var err error
	if strings.HasPrefix(c.Manifest, "check/") {
		text, err = fs.ReadFile(l.files, c.Manifest)
	} else {
		text, err = os.ReadFile(filepath.Join(folder, c.Manifest))
	}
	if err != nil {
		return c.Manifest + " is missing", nil
	}
	c.Cluster = filepath.Join(folder, c.Cluster)
	wrong, err := wronglyCalled(ctx, tools.Env, c, text)
	if err != nil {
		return "", Unreadable{err.Error()}
	}
	return wrong, nil
}

func examined(ctx context.Context, d Doctor, folder string, tools Tools) (string, error) {
	reports, err := doctor.ExamineFiles(ctx, tools.Env, filepath.Join(folder, d.Cluster))
	if err != nil {
		return "", Unreadable{err.Error()}
	}
	for _, r := range reports {
		for _, f := range r.Findings {
			if slices.Contains(d.Without, f.ID) {
				return fmt.Sprintf("usherctl doctor --cluster-dir %s finds %s: %s", d.Cluster, f.ID, f.Message), nil
			}
		}
	}
	return "", nil
}

func written(t Text, folder string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(folder, t.File))
	if err != nil {
		return t.File + " is missing", nil
	}
	is, err := regexp.Compile(t.Is)
	if err != nil {
		return "", err
	}
	if t.Field == "" {
		answer := strings.TrimRight(strings.TrimLeft(string(raw), " \t\r\n\"'`"), " \t\r\n\"'`.")
		if !is.MatchString(answer) {
			return fmt.Sprintf("%s says %q", t.File, answer), nil
		}
		return "", nil
	}
	documents, err := documentsOf(t.File, raw)
	if err != nil {
		return "", Unreadable{err.Error()}
	}
	values := valuesAt(documents, t.Field)
	if len(values) == 0 {
		values = []any{nil}
	}
	for _, v := range values {
		if !is.MatchString(text(v)) {
			return t.File + ": " + (&gap{at: t.Field, got: v}).String(), nil
		}
	}
	return "", nil
}

func stored(ctx context.Context, c Cluster, tools Tools) (string, error) {
	raw, err := tools.Get(ctx, c.Path)
	switch {
	case err != nil:
		return "", fmt.Errorf("the cluster cannot be asked: %w", err)
	case raw == nil && c.Absent:
		return "", nil
	case raw == nil:
		return c.Path + " does not exist", nil
	case c.Absent:
		return c.Path + " still exists", nil
	}
	is, err := regexp.Compile(c.Is)
	if err != nil {
		return "", err
	}
	if value := fieldOf(raw, c.Field); value == "null" || !is.MatchString(value) {
		return fmt.Sprintf("%s: %s is %q", c.Path, c.Field, value), nil
	}
	return "", nil
}

// fieldOf returns the text of a field; of a list or mapping, its JSON.
func fieldOf(raw []byte, path string) string {
	var object map[string]any
	_ = json.Unmarshal(raw, &object) // what is no object has no fields
	value, _, _ := unstructured.NestedFieldNoCopy(object, strings.Split(path, ".")...)
	return text(value)
}
