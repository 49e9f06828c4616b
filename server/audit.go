package server

import (
	"context"
	"crypto/rand"

	"usher.dev/usher/handlers"
	"usher.dev/usher/internal/metric"
	"usher.dev/usher/server/auditlog"
)

var (
	auditWritten = metric.Counter("usher_audit_written_total", "Lines that were written to the audit log.")
	auditDropped = metric.Counter("usher_audit_dropped_total", "Lines of the audit log that were lost, because the disk was too slow or a write failed.")
	auditErrors  = metric.Counter("usher_audit_errors_total", "Failed writes to the audit log.")
)

// openAudit opens the audit log, if there is one.
func (s *service) openAudit() (err error) {
	if s.Audit.File == "" {
		return nil
	}
	if s.audit, err = auditlog.Open(s.Audit, s.Stdout, s.auditChanged); err != nil {
		return err
	}
	s.metrics.MustRegister(metric.Collector(func(add metric.Add) {
		stats := s.audit.Stats()
		add(auditWritten, float64(stats.Written))
		add(auditDropped, float64(stats.Dropped))
		add(auditErrors, float64(stats.Errors))
	}))
	s.observers = append(s.observers, handlers.Audit(rand.Text()[:8], s.audit.Write))
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
