package promises

import (
	"context"
	"crypto/x509"
	"io/fs"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/test/harness"
)

// TestTroubleshootingQuotesRealErrors: a text in the first column of a table in docs/troubleshooting.md is printed by
// usher, as its source, a test or a golden shows, or by the Go and Kubernetes libraries.
func TestTroubleshootingQuotesRealErrors(t *testing.T) {
	known := slices.Concat(ourTexts(t), printedTexts(t), foreignTexts())
	quotes := regexp.MustCompile("(?m)^\\| [^|`]*`([^`]+)`[^|]*\\|").FindAllStringSubmatch(harness.ReadFile(t, "docs/troubleshooting.md"), -1)
	if len(quotes) < 25 {
		t.Fatalf("only %d texts were found", len(quotes))
	}
	for _, m := range quotes {
		parts := literals(m[1])
		holdsAll := func(text string) bool {
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
		}
		if !slices.ContainsFunc(known, holdsAll) {
			t.Errorf("no error reads %q: no Go file or golden contains all of %q", m[1], parts)
		}
	}
}

// TestTroubleshootingNamesCommands: each row of a table in docs/troubleshooting.md ends with the command that finds the
// fault.
func TestTroubleshootingNamesCommands(t *testing.T) {
	known := []string{"kubectl", "curl"}
	for _, root := range programs() {
		for _, c := range root.Commands() {
			if !c.Hidden {
				known = append(known, c.CommandPath())
			}
		}
	}
	_, faults, _ := strings.Cut(harness.ReadFile(t, "docs/troubleshooting.md"), "\n## ")
	rows := regexp.MustCompile(`(?m)^\|.*\| ([^|]*) \|$`).FindAllStringSubmatch(faults, -1)
	if len(rows) < 35 {
		t.Fatalf("only %d rows were found", len(rows))
	}
	for _, row := range rows {
		last := strings.Trim(row[1], "`")
		if row[1] != "found by" && !slices.ContainsFunc(known, func(c string) bool { return strings.HasPrefix(last+" ", c+" ") }) {
			t.Errorf("the row does not end with a command: %s", row[0])
		}
	}
}

// variable matches what differs from error to error in a quoted text: omissions, placeholders, names and numbers.
var variable = regexp.MustCompile(`\.\.\.|<name>|\b[A-Z]+\b|\bteam-a\b|\d+`)

// literals returns the parts of a quoted text that are the same in every such error.
func literals(quoted string) (parts []string) {
	for _, part := range variable.Split(quoted, -1) {
		if part = strings.Trim(part, " "); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// ourTexts returns the contents of all Go files outside this package, and of all goldens with their lines joined.
func ourTexts(t *testing.T) (texts []string) {
	t.Helper()
	for _, file := range harness.GoFiles(t, "usherctl") {
		if !strings.HasPrefix(file, "test/promises/") {
			texts = append(texts, strings.ReplaceAll(harness.ReadFile(t, file), `\"`, `"`))
		}
	}
	for _, dir := range append([]string{"test/testdata"}, harness.SampleDirs...) {
		_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
			if strings.HasSuffix(path, ".golden") {
				texts = append(texts, strings.Join(strings.Fields(harness.ReadFile(t, path)), " "))
			}
			return nil
		})
	}
	return texts
}

// printedTexts returns errors of which the source has only pieces, as usher prints them.
func printedTexts(t *testing.T) []string {
	t.Helper()
	_, _, noCertificate := usher(t, "serve", "--cert-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0")
	twice := harness.Post(defaultMux(t), "mutate-pods/twice", []byte(`{"kind":"AdmissionReview","kind":"AdmissionReview"}`))
	return []string{noCertificate, twice.Body.String()}
}

// foreignTexts returns the errors of the API server, of Go and of curl on the way to usher and back.
func foreignTexts() []string {
	certificate := &x509.Certificate{DNSNames: []string{"A"}}
	texts := []string{
		apierrors.NewNotFound(schema.GroupResource{Resource: "service"}, "usher").Error(),
		`no endpoints available for service "usher"`,
		`admission webhook "a" denied the request: denied-names: `,
		"curl: (60) SSL certificate problem: unable to get local issuer certificate",
		x509.UnknownAuthorityError{Cert: certificate}.Error(),
		x509.CertificateInvalidError{Cert: certificate, Reason: x509.Expired}.Error(),
		x509.HostnameError{Certificate: certificate, Host: "B"}.Error(),
		http.ErrSchemeMismatch.Error(),
		context.DeadlineExceeded.Error(),
		"connect: " + syscall.ECONNREFUSED.Error(),
		syscall.EADDRINUSE.Error(),
	}
	for code, text := range map[int]string{http.StatusBadRequest: "", http.StatusNotFound: "", http.StatusServiceUnavailable: "",
		http.StatusTooManyRequests: "", http.StatusUnauthorized: "",
		http.StatusInternalServerError: "internal error; usher's log says more"} {
		texts = append(texts, apierrors.NewGenericServerResponse(code, "POST", schema.GroupResource{}, "", text, 0, true).Error())
	}
	return texts
}
