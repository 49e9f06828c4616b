package process

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Outputs that nobody reads, or not fast enough. Those of audit logs in files are in audit_test.go.

// readers are the behaviours of readers of an output, by name, once the process serves.
var readers = map[string]func(out *os.File, to io.Writer){
	"healthy": func(out *os.File, to io.Writer) { _, _ = io.Copy(to, out) },
	"slow": func(out *os.File, to io.Writer) {
		for n := int64(1); n > 0; time.Sleep(time.Millisecond) {
			n, _ = io.CopyN(to, out, 2<<10)
		}
	},
	"stalled": func(*os.File, io.Writer) {},
	"gone":    func(out *os.File, _ io.Writer) { _ = out.Close() },
}

// output is a pipe whose other end is read by one of readers.
type output struct {
	in   *os.File // for the process
	read *syncBuffer
	done chan struct{} // closed when all has been read
}

// piped returns an output that is read to the line that contains begin, if any, before the reader gets it.
func piped(t *testing.T, reader, begin string) *output {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), out.Close() })
	o := &output{in, &syncBuffer{}, make(chan struct{})}
	go func() {
		defer close(o.done)
		one, line := make([]byte, 1), []byte(nil) // no more than the line
		for !strings.Contains(o.read.String(), begin) {
			if _, err := out.Read(one); err != nil {
				return
			}
			if line = append(line, one...); one[0] == '\n' {
				_, _ = o.read.Write(line)
				line = nil
			}
		}
		readers[reader](out, o.read)
	}()
	return o
}

// TestProcessOutputs: whoever reads standard error, and the audit log on standard output, reviews and operations are answered, SIGTERM is
// obeyed, no line is mixed with another one, and lost ones are counted. If a line was lost, a reader was too slow.
func TestProcessOutputs(t *testing.T) {
	user := `"username": "` + strings.Repeat("\u202e", 500) // seven characters each in a line
	long := edited(t, `"username": "`, user)
	groups, _ := json.Marshal(slices.Repeat([]string{strings.Repeat("g", 500)}, 50))
	long = []byte(strings.Replace(string(long), `"groups": [`, `"groups": `+strings.TrimSuffix(string(groups), "]")+`, `, 1))
	n := scaled(1500, 2500, 10_000)
	for reader := range readers {
		t.Run(reader, func(t *testing.T) {
			out, log := piped(t, reader, ""), piped(t, reader, `"msg":"serving"`)
			p := launched(t, launch{out: out.in, err: log.in, log: log.read, env: asDeployed.env, args: []string{"--audit-log=-", "--shutdown-grace=2s"}})
			_, _ = out.in.Close(), log.in.Close()
			inParallel(4, n, func(int) {
				if t.Failed() {
					return
				}
				if got, err := send(p.client, "https://"+p.reviews+"/mutate-pods?timeout=30s", long, nil); err != nil || got.code != 200 {
					t.Errorf("%v, %d %.300s", err, got.code, got.body)
				}
			})
			for _, path := range []string{"/healthz", "/readyz"} {
				if code, text := p.get(t, "http://"+p.operations+path); code != 200 {
					t.Errorf("%s: %d %s", path, code, text)
				}
			}
			read, lost := reader == "healthy" || reader == "slow", map[string]int{}
			for _, name := range []string{"usher_log_", "usher_audit_"} {
				eventually(t, "each line is written or dropped", func() bool {
					return !read || p.metric(t, name+"written_total ")+p.metric(t, name+"dropped_total ") >= float64(n)
				})
				failed := p.metric(t, name+"errors_total ")
				lost[name] = int(p.metric(t, name+"dropped_total "))
				if (failed > 0) != (reader == "gone") || !read && lost[name] == 0 {
					t.Errorf("%s: %d dropped, %v failed", name, lost[name], failed)
				}
			}
			p.wantMemory(t, deployedMemory)
			p.signal(t, syscall.SIGTERM)
			p.wantExit(t)
			if !read {
				return
			}
			for name, o := range map[string]*output{"usher_log_": log, "usher_audit_": out} {
				<-o.done
				if got := reviewsIn(t, o.read.String()); got+lost[name] != n {
					t.Errorf("%s: %d lines of %d reviews, %d dropped", name, got, n, lost[name])
				}
			}
			if got := log.read.String(); !strings.HasSuffix(got, `"msg":"stopped"`+got[strings.LastIndex(got, `,"time"`):]) {
				t.Errorf("the log ends with %s", got[max(0, len(got)-200):])
			}
		})
	}
}

// reviewsIn returns the number of lines about reviews in a log, which are whole.
func reviewsIn(t *testing.T, text string) (n int) {
	t.Helper()
	for line := range strings.Lines(text) {
		var review struct{ UID string }
		if err := json.Unmarshal([]byte(line), &review); err != nil {
			t.Errorf("%.200s: %v", line, err)
		}
		if review.UID != "" {
			n++
		}
	}
	return n
}

// TestProcessOutputFull: a full disk below an output stops nothing.
func TestProcessOutputFull(t *testing.T) {
	for _, full := range []string{"out", "err"} {
		t.Run(full, func(t *testing.T) {
			device, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Skip(err)
			}
			defer func() { _ = device.Close() }()
			l, lost := launch{out: device, args: []string{"--audit-log=-"}}, "usher_audit_"
			if full == "err" {
				l, lost = launch{err: device}, "usher_log_"
			}
			p := launched(t, l)
			p.wantAlive(t)
			eventually(t, "lines are lost", func() bool { return p.metric(t, lost+"dropped_total ") > 0 && p.metric(t, lost+"errors_total ") > 0 })
			p.signal(t, syscall.SIGTERM)
			p.wantExit(t)
			if n := p.logs("the audit log cannot be written; reviews go on"); full == "out" && n != 1 {
				t.Errorf("the log says so %d times", n)
			}
		})
	}
}
