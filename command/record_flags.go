package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"usher.dev/usher/handlers"
	"usher.dev/usher/server/recording"
)

// recordFlags say where reviews are recorded.
type recordFlags struct {
	file   string
	values bool
}

func (o *recordFlags) addTo(set *pflag.FlagSet) {
	set.StringVar(&o.file, "record", "",
		"new file that gets every review, with the whole object, for usherctl playground; for learning, not for production (default: none)")
	set.BoolVar(&o.values, "record-values", false,
		"with --record: also write what is otherwise hidden: values of environment variables, annotations and headers, data of Secrets, commands, "+
			"arguments and extra fields of users")
}

func (o *recordFlags) check() error {
	if o.values && o.file == "" {
		return errors.New("--record-values goes with --record")
	}
	return nil
}

// opener returns a function that begins the recording, if one is asked for.
func (o recordFlags) opener(log *logrus.Logger) func() (handlers.Observe, func(context.Context), error) {
	if o.file == "" {
		return nil
	}
	return func() (handlers.Observe, func(context.Context), error) {
		recorder, err := recording.Open(o.file, o.values, func(err error) {
			log.WithError(err).WithField("file", o.file).Error("the recording ends; reviews go on")
		})
		if err != nil {
			return nil, nil, fmt.Errorf("--record: %w", err)
		}
		const values = "values of environment variables, annotations and headers, data of Secrets, commands, arguments and extra fields of users"
		hidden := values + " are hidden"
		if o.values {
			hidden = "WITH " + values
		}
		log.WithField("file", o.file).Warn("EVERY REVIEW IS RECORDED, with its whole object: this is for learning, not for production; " + hidden)
		return recorder.Observe, func(ctx context.Context) {
			if left := recorder.Close(ctx); left > 0 {
				log.Warnf("%d reviews are not in the recording", left)
			}
		}, nil
	}
}
