package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"usher.dev/usher/certs"
	"usher.dev/usher/certs/rotation"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/internal/metric"
)

// openCertificate opens where the certificate comes from, and keeps it current until ctx ends.
func (s *service) openCertificate(ctx context.Context) error {
	switch {
	case s.Plain:
		return nil
	case s.Certificates.Managed:
		return s.keepCertificates(ctx)
	}
	return s.readCertificate(ctx)
}

// readCertificate serves the certificate of a directory.
func (s *service) readCertificate(ctx context.Context) error {
	dir := s.Certificates.Dir
	if dir == "" {
		dir = s.Certificates.StateDir
		names, _ := certs.ServiceNames("")
		if _, err := certs.EnsureLocal(dir, names, time.Now(), func(made string) { s.Log.Info(made) }); err != nil {
			return fmt.Errorf("certificate of our own: %w", err)
		}
		s.caFile = filepath.Join(dir, certs.CACertFile)
	}
	source, err := certs.Open(dir)
	if err != nil {
		return err
	}
	current := prometheus.NewGauge(prometheus.GaugeOpts{Name: "usher_certificate_current",
		Help: "1 if the certificate in the files is served, 0 if it is bad and an older one is kept."})
	s.metrics.MustRegister(current)
	changed := func(err error) {
		current.Set(metric.Flag(err == nil))
		if err != nil {
			s.Log.WithError(err).Error("the new certificate is bad; the one in force stays")
			return
		}
		s.Log.WithField("until", source.NotAfter().Format(time.RFC3339)).Info("certificate in force")
	}
	changed(nil)
	if err := s.serveCertificate(source.GetCertificate, func() error { return source.Valid(time.Now()) }, source.NotAfter); err != nil {
		return err
	}
	go source.Watch(ctx, times(ctx), changed)
	return nil
}

// keepCertificates serves the certificate that all replicas share.
func (s *service) keepCertificates(ctx context.Context) error {
	config, err := apiserver.LoadConfig(s.Cluster.Kubeconfig, "")
	if err != nil {
		return fmt.Errorf("--certs=managed: %w; pass --kubeconfig FILE, or run usher as a pod with the token of its service account", err)
	}
	client, err := apiserver.New(config)
	if err != nil {
		return err
	}
	names, err := certs.ServiceNames(s.Certificates.Service)
	if err != nil {
		return err
	}
	log := rotation.Log{Info: func(text string) { s.Log.Info(text) }, Warn: func(text string) { s.Log.Warn(text) }}
	k := rotation.NewKeeper(client, rotation.TargetOf(s.Certificates.Service), names, s.Certificates.Life, s.Certificates.LeafLife, log)
	if err := s.serveCertificate(k.GetCertificate, k.Ready, func() time.Time { leaf, _ := k.Ends(); return leaf }); err != nil {
		return err
	}
	s.metrics.MustRegister(
		timestamp("usher_ca_expiry_timestamp_seconds", "When the CA that signs the served certificates ends.",
			func() time.Time { _, ca := k.Ends(); return ca }),
		timestamp("usher_certificate_last_sync_timestamp_seconds", "When the Secrets and caBundles were last read and found or made right.", k.Synced),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "usher_ca_bundle_writes_total", Help: "Writes of caBundles into webhook configurations."},
			func() float64 { return float64(k.Writes()) }))
	go k.Run(ctx)
	return nil
}

// serveCertificate uses a certificate for TLS, readiness and metrics. It fails if no client could connect.
func (s *service) serveCertificate(get func(*tls.ClientHelloInfo) (*tls.Certificate, error), valid func() error, end func() time.Time) error {
	s.certificate, s.health.checks["certificate"] = get, valid
	s.metrics.MustRegister(timestamp("usher_certificate_expiry_timestamp_seconds", "When the served certificate ends.", end))
	served, _ := get(nil) // nil for a managed one, which is not there before the keeper runs
	warnings, err := s.Certificates.Profile.Check(served)
	for _, text := range warnings {
		s.Log.Warn(text)
	}
	return err
}
