package oracle

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/usherctl/engine"
)

// answer is the answer to a request, in a form to compare.
type answer struct {
	Code     int
	Reason   metav1.StatusReason
	Message  []string // in parts that are sorted: the order of errors is not the same twice
	Causes   []string
	Warnings []string
	Object   any
	raw      string
}

func (a answer) String() string {
	return fmt.Sprintf("%d %s %s", a.Code, a.Reason, strings.Join(a.Message, ", "))
}

func newAnswer(code int, warnings []string, body []byte) (answer, error) {
	var status metav1.Status
	if code >= 300 {
		if err := json.Unmarshal(body, &status); err != nil {
			return answer{}, fmt.Errorf("%d %s: %w", code, body, err)
		}
		return refused(status, warnings), nil
	}
	return answer{Code: code, Warnings: warnings, raw: string(body)}, nil
}

func refused(s metav1.Status, warnings []string) answer {
	a := answer{Code: int(s.Code), Reason: s.Reason, Message: []string{s.Message}, Warnings: warnings}
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			a.Causes = append(a.Causes, fmt.Sprintf("%s %s: %s", c.Type, c.Field, c.Message))
		}
	}
	return a
}

// ofVerdict returns the engine's answer.
func ofVerdict(v engine.Verdict) answer {
	if !v.Allowed() {
		a := refused(*v.Refusal, v.Warnings)
		a.Code = v.Code
		return a
	}
	return answer{Code: v.Code, Warnings: v.Warnings, raw: string(v.Object)}
}

// random matches the parts of an answer that are not the same twice. Those that the request has are compared.
var random = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}` +
	`|20[0-9-]{8}T[0-9:.]*[0-9](?:Z|[+-][0-9]{2}:[0-9]{2})` +
	`|kube-api-access-[a-z0-9]{5}` +
	`|"clusterIPs?":(?:"[0-9a-f.:]+"|\["[0-9a-f.:",]+\])` +
	`|"(?:nodePort|healthCheckNodePort)":[0-9]+` +
	`|"token":"[^"]*"` +
	`|Key: /[^ ,]+`) // of a storage

var generated = regexp.MustCompile(`"generateName":"([^"]+)"`)

// masked returns the answer without what is not the same twice.
func (a answer) masked(request string) answer {
	mask := func(text string) string {
		return random.ReplaceAllStringFunc(text, func(found string) string {
			if strings.Contains(request, found) && !recent(found) {
				return found
			}
			return masks(found)
		})
	}
	if a.raw != "" {
		_ = json.Unmarshal([]byte(mask(a.raw)), &a.Object)
		forget(a.Object)
	}
	a.raw = ""
	if name := generated.FindStringSubmatch(request); name != nil {
		a.Message = []string{regexp.MustCompile(regexp.QuoteMeta(name[1])+"[a-z0-9]{5}").ReplaceAllString(strings.Join(a.Message, ""), name[1])}
		for i := range a.Causes {
			a.Causes[i] = regexp.MustCompile(regexp.QuoteMeta(name[1])+"[a-z0-9]{5}").ReplaceAllString(a.Causes[i], name[1])
		}
	}
	a.Message = parts(mask(strings.Join(a.Message, "")))
	a.Causes, a.Warnings = sorted(a.Causes, mask), sorted(a.Warnings, mask)
	return a
}

// masks keeps the name of a masked field.
func masks(found string) string {
	if name, _, is := strings.Cut(found, ":"); is && strings.HasPrefix(name, `"`) {
		return name + `:"MASKED"`
	}
	return "MASKED"
}

func recent(text string) bool {
	at, err := time.Parse(time.RFC3339, text)
	return err == nil && time.Since(at).Abs() < time.Hour
}

func sorted(texts []string, mask func(string) string) (all []string) {
	for _, text := range texts {
		all = append(all, strings.Join(parts(mask(text)), ", "))
	}
	slices.Sort(all)
	return all
}

// parts returns the parts of a text of errors, sorted.
func parts(text string) []string {
	if text == "" {
		return nil
	}
	all := regexp.MustCompile(`, |: \[|\]$`).Split(text, -1)
	slices.Sort(all)
	return all
}

// forget deletes what a storage writes.
func forget(object any) {
	o, is := object.(map[string]any)
	if !is {
		return
	}
	if m, is := o["metadata"].(map[string]any); is {
		for _, key := range []string{"managedFields", "uid", "resourceVersion", "creationTimestamp", "selfLink"} {
			delete(m, key)
		}
		if prefix, _ := m["generateName"].(string); prefix != "" && strings.HasPrefix(fmt.Sprint(m["name"]), prefix) {
			m["name"] = prefix
		}
	}
}

// difference returns what the answers differ in.
func difference(server, engine answer) (class, text string) {
	switch {
	case server.Code < 300 != (engine.Code < 300) && engine.Code < 300:
		class = "false allowed"
	case server.Code < 300 != (engine.Code < 300):
		class = "false refusal"
	case server.Code != engine.Code || server.Reason != engine.Reason:
		class = "code"
	case !reflect.DeepEqual(server.Message, engine.Message):
		class = "message"
	case !reflect.DeepEqual(server.Causes, engine.Causes):
		class = "causes"
	case !reflect.DeepEqual(server.Warnings, engine.Warnings):
		class = "warnings"
	case !reflect.DeepEqual(server.Object, engine.Object):
		class = "object"
	default:
		return "", ""
	}
	return class, udiff.Unified("API server", "engine", server.text(), engine.text())
}

func (a answer) text() string {
	text, _ := json.MarshalIndent(a, "", " ")
	return string(text) + "\n"
}
