package server

import (
	"bytes"
	"errors"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/sirupsen/logrus"
)

// TestGOGC: the variable wins.
func TestGOGC(t *testing.T) {
	percent := debug.SetGCPercent(50)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	t.Setenv("GOGC", "50")
	collectSeldom()
	if got := debug.SetGCPercent(percent); got != 50 {
		t.Errorf("%d", got)
	}
}

// TestLimitMemory: four fifths of the container's limit, unless GOMEMLIMIT says otherwise, and a line that says which.
func TestLimitMemory(t *testing.T) {
	before, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	t.Cleanup(func() {
		debug.SetMemoryLimit(before)
		debug.SetGCPercent(percent)
	})
	failing := func() (uint64, error) { return 0, errors.New("no cgroup") }
	unlimited := func() (uint64, error) { return 0, memlimit.ErrNoLimit }
	const inForce = 100 << 20 // by the runtime, which reads GOMEMLIMIT before main
	for _, test := range []struct {
		name, variable string
		from           memlimit.Provider
		want           int64
		line           string
	}{
		{"a limit", "", memlimit.Limit(256 << 20), 256 << 20 * 4 / 5, `msg="memory limit" from="the container's limit" limit="204 MiB"`},
		{"the variable wins", "100MiB", memlimit.Limit(256 << 20), inForce, `msg="memory limit" from=GOMEMLIMIT limit="100 MiB"`},
		{"no limit", "", unlimited, math.MaxInt64, `level=debug msg="no memory limit"`},
		{"unknown", "", failing, math.MaxInt64, "cannot be read; set the environment variable GOMEMLIMIT"},
	} {
		t.Run(test.name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			debug.SetGCPercent(100)
			t.Setenv("GOMEMLIMIT", test.variable)
			t.Setenv("GOGC", "")
			_ = os.Unsetenv("GOGC")
			if test.variable == "" {
				_ = os.Unsetenv("GOMEMLIMIT")
			} else {
				debug.SetMemoryLimit(inForce)
			}
			var out bytes.Buffer
			log := logrus.New()
			log.SetOutput(&out)
			log.SetLevel(logrus.DebugLevel)
			limitMemory(log, test.from)
			if got := debug.SetMemoryLimit(-1); got != test.want || !strings.Contains(out.String(), test.line) {
				t.Errorf("%d, want %d\n%swant %s", got, test.want, out.String(), test.line)
			}
			if got, limited := debug.SetGCPercent(100), test.want < math.MaxInt64; (got == seldom) != limited {
				t.Errorf("GOGC is %d, with a limit: %v", got, limited)
			}
		})
	}
}
