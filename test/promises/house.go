// Package promises tests what the program promises as a whole: the goldens of all samples, and that its routes, steps,
// manifests and pages tell the same. The root's only test runs it.
package promises

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"usher.dev/usher/command"
	"usher.dev/usher/routes"
	"usher.dev/usher/server/suite"
)

// House is the program under test. Its methods whose names begin with Test are the tests.
type House struct{}

// Suites returns the suites of the program, the core suite first.
func (House) Suites() suite.List { return routes.Suites() }

// Test runs all tests, each under the name of its method.
func (h House) Test(t *testing.T) {
	v := reflect.ValueOf(h)
	ran := 0
	for i := range v.NumMethod() {
		test, isTest := v.Method(i).Interface().(func(*testing.T))
		if name := v.Type().Method(i).Name; isTest && strings.HasPrefix(name, "Test") && name != "Test" {
			ran++
			t.Run(name, test)
		}
	}
	if ran < 30 {
		t.Errorf("only %d tests were found", ran)
	}
}

// core returns the name of the core suite.
func (h House) core() string { return h.Suites()[0].Name }

// usher runs a command and returns its exit code and what it printed.
func (h House) usher(t *testing.T, args ...string) (code int, out, errors string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = command.Program{Suites: h.Suites(), Version: "dev", In: strings.NewReader(""), Out: &stdout, Err: &stderr}.Run(t.Context(), args)
	return code, stdout.String(), stderr.String()
}
