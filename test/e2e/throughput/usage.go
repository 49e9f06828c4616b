package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"

	"usher.dev/usher/e2e/kubetest"
)

// usage holds what the processes and etcd have used so far, or per pod, or per second.
type usage map[string]float64

// CPU time in µs, and TCP connections that were accepted on this machine. The other numbers are etcd's.
const apiServerCPU, webhookCPU, etcdCPU, loadCPU, connections = "apiServer", "webhook", "etcd", "load", "connections"

// etcdMetrics lists the metrics that are read of etcd.
var etcdMetrics = map[string]string{
	"etcd_mvcc_put_total":                         "puts",     // objects
	"etcd_debugging_mvcc_total_put_size_in_bytes": "putBytes", // of these objects, with their keys
	"etcd_disk_wal_write_bytes_total":             "walBytes", // written to the log
	"etcd_disk_wal_fsync_duration_seconds_count":  "syncs",    // of the log to the disk
	"etcd_mvcc_db_total_size_in_use_in_bytes":     "growth",   // of the database, in bytes
}

// since returns what was used since an earlier usage, divided by n.
func (u usage) since(earlier usage, n float64) usage {
	used := usage{}
	for name, value := range u {
		used[name] = (value - earlier[name]) / n
	}
	return used
}

// meter reads what is used.
type meter struct {
	apiServer, etcd int    // process IDs
	etcdURL         string // of etcd's metrics
}

// read returns the usage up to now. webhook is the process ID of the webhook, or 0.
func (m meter) read(ctx context.Context, webhook int) (usage, error) {
	answer, err := ask(ctx, http.MethodGet, m.etcdURL+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	u, err := parseEtcd(string(answer))
	if err != nil {
		return nil, err
	}
	if u[connections], err = accepted(); err != nil {
		return nil, err
	}
	for name, pid := range map[string]int{apiServerCPU: m.apiServer, etcdCPU: m.etcd, loadCPU: os.Getpid(), webhookCPU: webhook} {
		if pid == 0 {
			continue
		}
		if u[name], err = kubetest.CPUTime(pid); err != nil {
			return nil, err
		}
	}
	return u, nil
}

var tcpCounters = regexp.MustCompile(`(?m)^Tcp:( \S+){5} (\d+) `)

// accepted returns how many TCP connections this machine has accepted so far: the API server's to the webhook are nearly all.
func accepted() (float64, error) {
	text, err := os.ReadFile("/proc/net/snmp")
	if err != nil {
		return 0, err
	}
	counters := tcpCounters.FindStringSubmatch(string(text))
	if counters == nil {
		return 0, fmt.Errorf("/proc/net/snmp has no PassiveOpens of TCP: %s", text)
	}
	return strconv.ParseFloat(counters[2], 64)
}

// parseEtcd takes the numbers from the text of etcd's metrics.
func parseEtcd(text string) (usage, error) {
	u := usage{}
	for line := range strings.Lines(text) {
		metric, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name := etcdMetrics[metric]; name != "" {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return nil, fmt.Errorf("etcd's metric %s: %w", metric, err)
			}
			u[name] = number
		}
	}
	for metric, name := range etcdMetrics {
		if _, found := u[name]; !found {
			return nil, fmt.Errorf("etcd's metrics lack %s: is this another version of etcd?", metric)
		}
	}
	return u, nil
}
