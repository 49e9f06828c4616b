package command

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"usher.dev/usher/server/auditlog"
)

// auditFlags say where the audit log goes.
type auditFlags struct{ auditlog.Options }

func (o *auditFlags) addTo(set *pflag.FlagSet) {
	set.StringVar(&o.File, "audit-log", "", "file that gets a line of JSON for each decision; - is standard output (default: none)")
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
