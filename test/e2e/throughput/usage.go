package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"usher.dev/usher/e2e/kubetest"
)

// usage is what the processes and etcd have used so far, or per pod, or per second.
type usage struct {
	APIServer float64 `json:"apiServer"` // CPU in µs; also the next three
	Webhook   float64 `json:"webhook"`   // of usher or the constant webhook
	Etcd      float64 `json:"etcd"`
	Load      float64 `json:"load"` // of the clients

	Puts     float64 `json:"puts"`     // objects written to etcd
	PutBytes float64 `json:"putBytes"` // of these objects, with their keys
	WALBytes float64 `json:"walBytes"` // written to etcd's log
	Syncs    float64 `json:"syncs"`    // of the log to the disk
	Growth   float64 `json:"growth"`   // of etcd's database, in bytes
}

// all returns pointers to all numbers.
func (u *usage) all() []*float64 {
	return []*float64{&u.APIServer, &u.Webhook, &u.Etcd, &u.Load, &u.Puts, &u.PutBytes, &u.WALBytes, &u.Syncs, &u.Growth}
}

// since returns what was used since an earlier usage, divided by n.
func (u usage) since(earlier usage, n float64) usage {
	before := earlier.all()
	for i, value := range u.all() {
		*value = ratio(*value-*before[i], n)
	}
	return u
}

// middle returns the median of each number.
func middle(list []usage) (u usage) {
	for i, value := range u.all() {
		var values []float64
		for _, one := range list {
			values = append(values, *one.all()[i])
		}
		*value = rounded(median(values), 4)
	}
	return u
}

// cpu returns the CPU time of all processes together.
func (u usage) cpu() float64 { return u.APIServer + u.Webhook + u.Etcd + u.Load }

// meter reads what is used.
type meter struct {
	apiServer, etcd int    // process IDs
	etcdURL         string // of etcd's metrics
}

// read returns the usage up to now. webhook is the process ID of the webhook, or 0.
func (m meter) read(ctx context.Context, webhook int) (u usage, err error) {
	if err := m.readEtcd(ctx, &u); err != nil {
		return u, err
	}
	for pid, into := range map[int]*float64{m.apiServer: &u.APIServer, m.etcd: &u.Etcd, os.Getpid(): &u.Load, webhook: &u.Webhook} {
		if pid == 0 {
			continue
		}
		if *into, err = kubetest.CPUTime(pid); err != nil {
			return u, err
		}
	}
	return u, nil
}

// readEtcd reads etcd's metrics.
func (m meter) readEtcd(ctx context.Context, u *usage) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.etcdURL+"/metrics", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	return parseEtcd(string(text), u)
}

// parseEtcd takes the numbers from the text of etcd's metrics.
func parseEtcd(text string, u *usage) error {
	wanted := map[string]*float64{
		"etcd_mvcc_put_total":                         &u.Puts,
		"etcd_debugging_mvcc_total_put_size_in_bytes": &u.PutBytes,
		"etcd_disk_wal_write_bytes_total":             &u.WALBytes,
		"etcd_disk_wal_fsync_duration_seconds_count":  &u.Syncs,
		"etcd_mvcc_db_total_size_in_use_in_bytes":     &u.Growth,
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if into := wanted[name]; into != nil {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return fmt.Errorf("etcd's metric %s: %w", name, err)
			}
			*into = number
			delete(wanted, name)
		}
	}
	for name := range wanted {
		return fmt.Errorf("etcd's metrics lack %s: is this another version of etcd?", name)
	}
	return nil
}
