//go:build linux

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
)

// TestProcessConnectsNowhere: without --cluster=api, usher opens no connection, whatever it reviews: no step, expression
// or library of it sends anything to anyone. Every socket of the process is one of its listeners, or was accepted by one.
func TestProcessConnectsNowhere(t *testing.T) {
	p := launched(t, launch{args: []string{"--config", "samples/policy.yaml", "--cluster-dir", "samples/cluster",
		"--feature-gates", strings.TrimSpace(harness.ReadFile(t, "samples/feature-gates"))}})
	before := p.sockets(t)
	for i, name := range harness.Samples(t) {
		if i%scaled(20, 3, 1) != 0 {
			continue
		}
		if _, err := send(p.client, "https://"+p.reviews+"/"+harness.Route(name), harness.ReadSample(t, name), nil); err != nil {
			t.Fatal(name, err)
		}
		eventually(t, "after "+name+" it has the sockets of before", func() bool { // one may be closed while they are read
			now := p.sockets(t)
			if now.outgoing != "" {
				t.Fatalf("after %s it has connected to %s", name, now.outgoing)
			}
			return now.others == before.others
		})
	}
}

// sockets lists the open network sockets of a process.
type sockets struct {
	outgoing string // the addresses of TCP connections that it has opened
	others   int    // sockets that are no TCP: UDP, such as for DNS, and local ones
}

// sockets reads them from /proc.
func (p *process) sockets(t *testing.T) (s sockets) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	own := map[string]bool{} // the inodes of its sockets
	files, err := filepath.Glob(proc + "fd/*")
	if err != nil || len(files) == 0 {
		t.Skip("open files are read from /proc: ", err)
	}
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && strings.HasPrefix(target, "socket:") {
			own[strings.Trim(target, "socket:[]")] = true
		}
	}
	var connections [][]string
	listening := map[string]bool{} // ports
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		for _, line := range tcpLine.FindAllStringSubmatch(harness.ReadFile(t, proc+table), -1) {
			const listen = "0A"
			switch {
			case !own[line[4]]:
				continue
			case line[3] == listen:
				listening[line[1]] = true
			default:
				connections = append(connections, line)
			}
			delete(own, line[4])
		}
	}
	for _, c := range connections {
		if !listening[c[1]] {
			s.outgoing += c[2] + " "
		}
	}
	s.others = len(own)
	return s
}

// tcpLine is a line of /proc/PID/net/tcp: local port, remote address, state and inode.
var tcpLine = regexp.MustCompile(`(?m)^ *\d+: [0-9A-F]+:([0-9A-F]{4}) ([0-9A-F]+:[0-9A-F]{4}) ([0-9A-F]{2}) \S+ \S+ \S+ +\d+ +\d+ (\d+)`)
