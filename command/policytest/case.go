// Package policytest runs cases: what should become of an object under a policy. It is `usher test`, and docs/testing-policies.md
// describes the files.
package policytest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"usher.dev/usher/cluster/manifest"
)

// Case is one case of a file.
type Case struct {
	Name  string // with the directory of the file
	Place manifest.Place

	manifest, review, old      content
	request                    request
	config, cluster            string
	gates                      map[string]bool
	suites                     []string
	path, reviewed, once, atIn string
	at                         time.Time
	expect                     map[string]expectation
	line                       int   // of expect
	problem                    error // why it cannot be run
}

// request holds the fields of an AdmissionReview that a manifest lacks.
type request struct {
	operation, user, namespace, subresource string
	groups                                  []string
	dryRun                                  bool
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
	value    any // as decoded with decodeJSON; nil if it is in a file
	file     string
	contains bool
	line     int // in the file of the case
}

// members are the keys of expect, in the order of reports.
var members = []string{"verdict", "code", "reason", "message", "causes", "warnings", "steps", "patch", "after"}

// verdicts and outcomes list the valid values of members of expect.
var (
	verdicts = []string{"allowed", "denied", "error", "skipped"}
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
	for _, name := range []string{c.manifest.file, c.review.file, c.old.file, c.config, c.cluster, c.expect["patch"].file, c.expect["after"].file} {
		if name != "" {
			files = append(files, c.find(name))
		}
	}
	return files
}
