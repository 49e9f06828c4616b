package server

import (
	"context"
	"crypto/rand"

	"github.com/prometheus/client_golang/prometheus"

	"usher.dev/usher/handlers"
	"usher.dev/usher/internal/lines"
	"usher.dev/usher/internal/metric"
	"usher.dev/usher/server/auditlog"
)

// lineMetrics count the lines of a log.
type lineMetrics struct{ written, dropped, errors metric.Series }

var (
	auditMetrics = lineMetrics{
		metric.Counter("usher_audit_written_total", "Lines that were written to the audit log."),
		metric.Counter("usher_audit_dropped_total", "Lines of the audit log that were lost, because the disk was too slow or a write failed."),
		metric.Counter("usher_audit_errors_total", "Failed writes to the audit log."),
	}
	logMetrics = lineMetrics{
		metric.Counter("usher_log_written_total", "Lines that were written to the log."),
		metric.Counter("usher_log_dropped_total", "Lines of the log that were lost, because its reader was too slow or a write failed."),
		metric.Counter("usher_log_errors_total", "Failed writes to the log."),
	}
)

func (m lineMetrics) of(w *lines.Writer) prometheus.Collector {
	return metric.Collector(func(add metric.Add) {
		stats := w.Stats()
		add(m.written, float64(stats.Written))
		add(m.dropped, float64(stats.Dropped))
		add(m.errors, float64(stats.Errors))
	})
}

// openAudit opens the audit log, if there is one.
func (s *service) openAudit() (err error) {
	if s.Audit.File == "" {
		return nil
	}
	if s.audit, err = auditlog.Open(s.Audit, s.Stdout, s.auditChanged); err != nil {
		return err
	}
	s.metrics.MustRegister(auditMetrics.of(s.audit))
	s.observers = append(s.observers, handlers.Audit(rand.Text()[:8], s.audit))
	s.Log.WithField("file", s.Audit.File).Info("audit log")
	return nil
}

func (s *service) auditChanged(err error) {
	if err != nil {
		s.Log.WithError(err).Error("the audit log cannot be written; reviews go on, and usher_audit_dropped_total counts the lost lines")
		return
	}
	s.Log.Info("the audit log can be written again")
}

// closeAudit writes what waits to be written, until ctx ends.
func (s *service) closeAudit(ctx context.Context) {
	if s.audit == nil {
		return
	}
	if err := s.audit.Close(ctx); err != nil {
		s.Log.WithError(err).Warn("the audit log is incomplete")
	}
}

// openRecord opens what else observes reviews.
func (s *service) openRecord() error {
	if s.Record == nil {
		return nil
	}
	observe, closed, err := s.Record()
	if err != nil {
		return err
	}
	s.observers, s.closed = append(s.observers, observe), closed
	return nil
}
