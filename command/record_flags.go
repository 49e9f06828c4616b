package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"usher.dev/usher/admit"
	"usher.dev/usher/command/recording"
	"usher.dev/usher/handlers"
)

// recordFlags say where reviews are recorded.
type recordFlags struct {
	file   string
	values bool
}

func (o *recordFlags) addTo(set *pflag.FlagSet) {
	set.StringVar(&o.file, "record", "", "new file to which every review is written, with the whole object, for usher playground; for learning, not for production (default: none)")
	set.BoolVar(&o.values, "record-values", false, "with --record: also write the values of environment variables and annotations, and the data of Secrets")
}

func (o *recordFlags) check() error {
	if o.values && o.file == "" {
		return errors.New("--record-values goes with --record")
	}
	return nil
}

// openRecording begins a recording, if one is asked for. stop ends it.
func (s *service) openRecording() (stop func(), err error) {
	if s.record.file == "" {
		return func() {}, nil
	}
	recorder, err := recording.Open(s.record.file, s.record.values, func(err error) {
		s.log.WithError(err).WithField("file", s.record.file).Error("the recording ends; reviews go on")
	})
	if err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	observe := s.edge.Observe
	s.edge.Observe = func(r admit.Route, d handlers.Decision, took time.Duration) {
		observe(r, d, took)
		recorder.Observe(r, d, took)
	}
	hidden := "values of environment variables and annotations, and the data of Secrets, are hidden"
	if s.record.values {
		hidden = "WITH the values of environment variables and annotations, and the data of Secrets"
	}
	s.log.WithField("file", s.record.file).Warn("EVERY REVIEW IS RECORDED, with its whole object: this is for learning, not for production; " + hidden)
	return func() {
		if left := recorder.Close(); left > 0 {
			s.log.Warnf("%d reviews are not in the recording", left)
		}
	}, nil
}
