package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/server/auditlog"
)

// auditFlags say where the audit log goes.
type auditFlags struct{ auditlog.Options }

func (o *auditFlags) addTo(set *pflag.FlagSet) {
	set.StringVar(&o.File, "audit-log", "", "file to which a line of JSON is written about each decision; - is standard output (default: none)")
	set.IntVar(&o.MaxSizeMiB, "audit-log-max-size", 100, "size in MiB at which the audit log is rotated")
	set.IntVar(&o.Keep, "audit-log-keep", 5, "number of rotated audit logs to keep; 0 keeps all")
	set.IntVar(&o.MaxAgeDays, "audit-log-max-age", 0, "days after which rotated audit logs are deleted; 0 keeps them (default 0)")
	set.BoolVar(&o.Compress, "audit-log-compress", false, "compress rotated audit logs with gzip")
}

func (o *auditFlags) check() error {
	switch {
	case o.MaxSizeMiB < 1:
		return fmt.Errorf("--audit-log-max-size %d: must be at least 1", o.MaxSizeMiB)
	case o.Keep < 0 || o.MaxAgeDays < 0:
		return errors.New("--audit-log-keep and --audit-log-max-age must not be negative")
	}
	return nil
}

// openAudit opens the audit log, if there is one.
func (s *service) openAudit(stdout io.Writer) (err error) {
	if s.auditTo.File == "" {
		return nil
	}
	if s.audit, err = auditlog.Open(s.auditTo.Options, stdout, s.auditChanged); err != nil {
		return err
	}
	s.metrics.MustRegister(auditMetrics{s.audit})
	observe, record := s.edge.Observe, handlers.Audit(rand.Text()[:8], s.audit.Write)
	s.edge.Observe = func(r admit.Route, d handlers.Decision, took time.Duration) {
		observe(r, d, took)
		record(r, d, took)
	}
	s.log.WithField("file", s.auditTo.File).Info("audit log")
	return nil
}

func (s *service) auditChanged(err error) {
	if err != nil {
		s.log.WithError(err).Error("the audit log cannot be written; reviews go on, and usher_audit_dropped_total counts the lost lines")
		return
	}
	s.log.Info("the audit log can be written again")
}

// closeAudit writes what waits to be written, until ctx ends.
func (s *service) closeAudit(ctx context.Context) {
	if s.audit == nil {
		return
	}
	if err := s.audit.Close(ctx); err != nil {
		s.log.WithError(err).Warn("the audit log is incomplete")
	}
}

// auditMetrics count the lines of the audit log.
type auditMetrics struct{ *auditlog.Log }

var (
	auditWritten = prometheus.NewDesc("usher_audit_written_total", "Lines that were written to the audit log.", nil, nil)
	auditDropped = prometheus.NewDesc("usher_audit_dropped_total", "Lines of the audit log that were lost, because the disk was too slow or a write failed.", nil, nil)
	auditErrors  = prometheus.NewDesc("usher_audit_errors_total", "Failed writes to the audit log.", nil, nil)
)

// Describe is for the registry.
func (m auditMetrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

// Collect is for the registry.
func (m auditMetrics) Collect(to chan<- prometheus.Metric) {
	stats := m.Stats()
	to <- prometheus.MustNewConstMetric(auditWritten, prometheus.CounterValue, float64(stats.Written))
	to <- prometheus.MustNewConstMetric(auditDropped, prometheus.CounterValue, float64(stats.Dropped))
	to <- prometheus.MustNewConstMetric(auditErrors, prometheus.CounterValue, float64(stats.Errors))
}
