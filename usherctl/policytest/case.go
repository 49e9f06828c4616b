// Package policytest runs cases: what should become of an object under a policy. It is `usherctl test`, and docs/testing-policies.md
// describes the files.
package policytest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"time"

	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/usherctl/schema"
)

// Case is one case of a file.
type Case struct {
	Name  string // with the directory of the file
	Place manifest.Place
	Err   error // why it cannot be run

	keys
	request request
	at      time.Time
	expect  map[string]expectation
	line    int // of expect
}

// keys are the keys of a case, as a file has them.
type keys struct {
	Name     string          `json:"name" doc:"shown in reports, and matched by --run, after the directory of the file" default:"the name of the file"`
	Manifest content         `json:"manifest" doc:"file with the object, or the object itself"`
	Review   content         `json:"review" doc:"file with an AdmissionReview, or the AdmissionReview itself, instead of manifest, old and request"`
	Request  json.RawMessage `json:"request" doc:"how the manifest is sent"`
	Old      content         `json:"old" doc:"the stored object of an UPDATE: file, or the object itself" default:"the object is unchanged"`
	Config   string          `json:"config" doc:"policy file" default:"--config, else the embedded policy"`
	Cluster  string          `json:"cluster" doc:"directory of manifests that stand for the cluster" default:"--cluster-dir, else an empty cluster"`
	Answers  string          `json:"answers" doc:"file with the answers of webhooks that are not usher's" default:"--answers, else they are not judged"`
	Gates    map[string]bool `json:"gates" doc:"feature gates, in addition to those of --feature-gates" schema:"keys=gate"`
	Suites   []string        `json:"suites" doc:"suites whose routes are called" schema:"is=suite" default:"--suite, else all"`
	Path     string          `json:"path" doc:"the only route to call" schema:"is=route" default:"those that an API server would call"`
	Reviewed string          `json:"reviewed" doc:"which of the two, if some routes are for an object with a pod template and others for its pods" schema:"enum=workload|pod"`
	At       string          `json:"at" doc:"the moment of the request, such as 2027-01-31 or 2027-01-31T18:00:00Z, for exceptions that end" schema:"is=moment" default:"now"`
	Once     string          `json:"once" doc:"a reason why the object is not sent again" schema:"is=name"`
	Expect   json.RawMessage `json:"expect" doc:"what should happen to the object; what it does not name is not compared" schema:"required"`
}

// request holds the fields of an AdmissionReview that a manifest lacks.
type request struct {
	Operation   string   `json:"operation" doc:"what is done to the object" schema:"enum=CREATE|UPDATE|DELETE|CONNECT" default:"CREATE"`
	User        string   `json:"user" doc:"who does it" default:"kubernetes-admin"`
	Groups      []string `json:"groups" doc:"the groups of the user" default:"those of every user"`
	Namespace   string   `json:"namespace" doc:"of objects that name none" default:"default"`
	DryRun      bool     `json:"dryRun" doc:"whether nothing is to be stored" default:"false"`
	SubResource string   `json:"subresource" doc:"the subresource that is requested, such as eviction" default:"none"`
}

// content is an object in the case, or the name of a file.
type content struct {
	file   string
	inline json.RawMessage
}

// given reports whether the case has it.
func (c content) given() bool { return c.file != "" || len(c.inline) > 0 }

// expectation is one member of expect.
type expectation struct {
	value    any // as decoded with review.DecodeJSON; nil if it is in a file
	file     string
	contains bool
	line     int // in the file of the case
}

// expected are the keys of expect, in the order of reports.
type expected struct {
	Verdict  string             `json:"verdict" doc:"allowed; denied: the object must be refused; invalid: the API server refuses it itself; not judged: the policy asks for a Namespace that is in no file; error: it could not be reviewed; skipped: no route is called for it" schema:"required,enum=allowed|denied|invalid|not judged|error|skipped"`
	Code     int                `json:"code" doc:"the HTTP status, such as 403; 200 if the object is allowed"`
	Reason   string             `json:"reason" doc:"the reason of the refusal, such as Forbidden"`
	Message  message            `json:"message" doc:"the message of the refusal, without the id at its end; or contains: a text or texts that are in it"`
	Causes   list               `json:"causes" doc:"reason, field and message of each problem, in order, without the ids; or contains: some of them"`
	Warnings lines              `json:"warnings" doc:"the warnings of all routes, in order; or contains: some of them"`
	Steps    map[string]outcome `json:"steps" doc:"what each step did; a step that is not named must have changed and refused nothing" schema:"keys=step"`
	Patch    operations         `json:"patch" doc:"the operations of the patches of all routes, in order, or a file with them; or contains: some of them"`
	After    stored             `json:"after" doc:"the object as it would be stored, or a file with it; or contains: a part of it"`
}

// The types of what is compared whole or in part; they are in schemas only.
type (
	message    struct{}
	list       struct{}
	lines      struct{}
	operations struct{}
	stored     struct{}
	outcome    string
)

// JSONSchema is a message in schemas.
func (message) JSONSchema() string {
	const some = `{"type":"string","minLength":1}`
	return `{"type":["string","object"],"required":["contains"],"additionalProperties":false,"properties":{"contains":` +
		`{"anyOf":[` + some + `,{"type":"array","minItems":1,"items":` + some + `}]}}}`
}

const someOfAList = `"required":["contains"],"additionalProperties":false,"properties":{"contains":{"type":"array","minItems":1}}}`

// JSONSchema is a list of texts in schemas.
func (lines) JSONSchema() string {
	return `{"type":["array","object"],"items":{"type":"string"},` + someOfAList
}

// JSONSchema is a list in schemas.
func (list) JSONSchema() string { return `{"type":["array","object"],` + someOfAList }

// JSONSchema is the list of the operations of a patch in schemas, or the name of a file.
func (operations) JSONSchema() string {
	return `{"type":["array","string","object"],"minLength":1,` + someOfAList
}

// JSONSchema is an object as it would be stored in schemas, or the name of a file.
func (stored) JSONSchema() string {
	return `{"type":["string","object"],"minLength":1,"properties":{"contains":{"type":"object","minProperties":1}}}`
}

// JSONSchema is what a step did in schemas. YAML reads the word off, without quotes, as false.
func (outcome) JSONSchema() string { return `{"enum":["changed","refused","untouched","off",false]}` }

// JSONSchema is an object or the name of a file in schemas.
func (content) JSONSchema() string { return `{"type":["string","object"],"minLength":1}` }

// Schema returns the schema of files of cases.
func Schema(words schema.Words) *schema.Node {
	return schema.Case(reflect.TypeFor[keys](), map[string]reflect.Type{"request": reflect.TypeFor[request](), "expect": reflect.TypeFor[expected]()},
		shared, words)
}

// members are the keys of expect, in the order of reports.
var members = []string{"verdict", "code", "reason", "message", "causes", "warnings", "steps", "patch", "after"}

// verdicts and outcomes list the valid values of members of expect.
var (
	verdicts = []string{"allowed", "denied", "invalid", "not judged", "error", "skipped"}
	outcomes = []string{"changed", "refused", "untouched", "off"}
)

// where returns a file and a line, such as "team.case.yaml:12".
func (c *Case) where(line int) string { return fmt.Sprintf("%s:%d", c.Place.File, line) }

// find returns the path of a file that the case names, which is relative to the case's own.
func (c *Case) find(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(c.Place.File), name)
}

// names returns the files and the directory that the case names.
func (c *Case) names() (files []string) {
	for _, name := range []string{c.Manifest.file, c.Review.file, c.Old.file, c.Config, c.Cluster, c.Answers,
		c.expect["patch"].file, c.expect["after"].file} {
		if name != "" {
			files = append(files, c.find(name))
		}
	}
	return files
}
