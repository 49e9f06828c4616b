package promises

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
	"usher.dev/usher/usherctl/doctor"
)

var kebab = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)

// TestFindingsAreDescribed: each finding of usherctl doctor has its section in docs/troubleshooting.md, to which it links,
// and each section is about a finding.
func TestFindingsAreDescribed(t *testing.T) {
	_, section, found := strings.Cut(harness.ReadFile(t, "docs/troubleshooting.md"), "\n## What usherctl doctor finds\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var described []string
	for _, m := range regexp.MustCompile(`(?m)^### ([a-z0-9-]+)\n\n(\S.*)`).FindAllStringSubmatch(section, -1) {
		described = append(described, m[1])
	}
	if !found || len(described) < 40 {
		t.Fatalf("only %d findings are described", len(described))
	}
	for _, c := range doctor.Checks() {
		id := c.ID
		if !slices.Contains(described, id) {
			t.Errorf("docs/troubleshooting.md does not describe %s", id)
		}
		if !kebab.MatchString(strings.ReplaceAll(id, "v1", "v")) {
			t.Errorf("%s: ids are in kebab-case", id)
		}
	}
	for i, id := range described {
		if !slices.ContainsFunc(doctor.Checks(), func(c doctor.Check) bool { return c.ID == id }) || slices.Contains(described[:i], id) {
			t.Errorf("docs/troubleshooting.md describes %s, which is no finding, or twice", id)
		}
	}
}

// TestDoctorList: the list has a line for each check, needs no cluster, and takes no files.
func TestDoctorList(t *testing.T) {
	for _, args := range [][]string{{"doctor", "--list"}, {"doctor", "--list", "-o", "json"}} {
		code, out, errs := usherctl(t, args...)
		if code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, errs)
		}
		for _, c := range doctor.Checks() {
			if !strings.Contains(out, c.ID) || !strings.Contains(out, c.Doc) {
				t.Errorf("%v: %s is missing", args, c.ID)
			}
		}
	}
	for _, args := range [][]string{{"doctor", "--list", "-o", "junit"}, {"doctor", "--list", "a.yaml"}} {
		if code, out, _ := usherctl(t, args...); code != 2 || out != "" {
			t.Errorf("%v: exit code %d: %s", args, code, out)
		}
	}
}
