package command

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"usher.dev/usher/certs"
	"usher.dev/usher/certs/rotation"
	"usher.dev/usher/internal/apiserver"
)

// openCertificate opens where the certificate comes from, and keeps it current until ctx ends.
func (s *service) openCertificate(ctx context.Context) error {
	switch {
	case s.plain:
		return nil
	case s.certificates.managed():
		return s.keepCertificates(ctx)
	}
	return s.readCertificate(ctx)
}

// readCertificate serves the certificate of a directory.
func (s *service) readCertificate(ctx context.Context) error {
	dir := s.certificates.dir
	if dir == "" {
		dir = s.certificates.stateDir
		names, _ := certs.ServiceNames("")
		if _, err := certs.EnsureLocal(dir, names, time.Now(), func(made string) { s.log.Info(made) }); err != nil {
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
		current.Set(flag(err == nil))
		if err != nil {
			s.log.WithError(err).Error("the new certificate is bad; the one in force stays")
			return
		}
		s.log.WithField("until", source.NotAfter().Format(time.RFC3339)).Info("certificate in force")
	}
	changed(nil)
	s.serveCertificate(source.GetCertificate, func() error { return source.Valid(time.Now()) }, source.NotAfter)
	go source.Watch(ctx, s.times(ctx), changed)
	return nil
}

// keepCertificates serves the certificate that all replicas share.
func (s *service) keepCertificates(ctx context.Context) error {
	client, err := s.certificates.client(s.clusterSource.kubeconfig)
	if err != nil {
		return err
	}
	names, err := certs.ServiceNames(s.certificates.service)
	if err != nil {
		return err
	}
	log := rotation.Log{Info: func(text string) { s.log.Info(text) }, Warn: func(text string) { s.log.Warn(text) }}
	k := rotation.NewKeeper(client, s.certificates.target(), names, s.certificates.life, s.certificates.leafLife, log)
	s.serveCertificate(k.GetCertificate, k.Ready, func() time.Time { leaf, _ := k.Ends(); return leaf })
	s.metrics.MustRegister(
		timestamp("usher_ca_expiry_timestamp_seconds", "When the CA that signs the served certificates ends.", func() time.Time { _, ca := k.Ends(); return ca }),
		timestamp("usher_certificate_last_sync_timestamp_seconds", "When the Secrets and caBundles were last read and found or made right.", k.Synced),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "usher_ca_bundle_writes_total", Help: "Writes of caBundles into webhook configurations."},
			func() float64 { return float64(k.Writes()) }))
	go k.Run(ctx)
	return nil
}

// serveCertificate uses a certificate for TLS, readiness and metrics.
func (s *service) serveCertificate(get func(*tls.ClientHelloInfo) (*tls.Certificate, error), valid func() error, end func() time.Time) {
	s.certificate, s.health.Checks["certificate"] = get, valid
	s.metrics.MustRegister(timestamp("usher_certificate_expiry_timestamp_seconds", "When the served certificate ends.", end))
}

// timestamp is a gauge of a time, 0 if there is none.
func timestamp(name, help string, at func() time.Time) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		if t := at(); !t.IsZero() {
			return float64(t.Unix())
		}
		return 0
	})
}

func (o *certificateFlags) client(kubeconfig string) (apiserver.Client, error) {
	config, err := apiserver.LoadConfig(kubeconfig, "")
	if err != nil {
		return apiserver.Client{}, fmt.Errorf("--certs=managed: %w; pass --kubeconfig FILE, or run usher as a pod with the token of its service account", err)
	}
	return apiserver.New(config)
}

func (o *certificateFlags) target() rotation.Target {
	namespace, name, _ := strings.Cut(o.service, "/")
	return rotation.Target{Namespace: namespace, Service: name}
}
