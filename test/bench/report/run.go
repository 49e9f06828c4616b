package report

import (
	"context"
	"flag"
	"fmt"
	"io"
	"path/filepath"
)

// Run is a measurement with a place in docs.
type Run[T any] struct {
	Place
	Measure func(ctx context.Context, o Options, progress io.Writer) (*T, error) // with an error, what was measured before it, or nil
	Section func(*T) string                                                      // of the page
	Print   func(*T) string                                                      // nil prints the section
}

// Options are the flags of every run.
type Options struct {
	Quick, Write, Draw bool
	Docs, Out          string
}

// Command measures with the flags in args, prints the result, and writes what the flags say. The set may have flags of its own.
func (r Run[T]) Command(ctx context.Context, set *flag.FlagSet, args []string, out, progress io.Writer) error {
	var o Options
	set.SetOutput(progress)
	set.BoolVar(&o.Quick, "quick", false, "short: fewer and smaller measurements, for a look and not for the docs")
	set.BoolVar(&o.Write, "write", false, fmt.Sprintf("write %s, and the tables in %s", r.Data, r.Page))
	set.BoolVar(&o.Draw, "draw", false, "do not measure: write again from "+r.Data)
	set.StringVar(&o.Docs, "docs", "docs/design", "directory of these files")
	set.StringVar(&o.Out, "out", "", "write the data to this file, as JSON")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("%s: unknown argument %q: there are only flags, see -h", set.Name(), set.Arg(0))
	}
	if o.Draw {
		data, err := Read[T](filepath.Join(o.Docs, r.Data))
		if err != nil {
			return err
		}
		return r.write(o.Docs, data)
	}
	data, err := r.Measure(ctx, o, progress)
	if data == nil {
		return err
	}
	return r.finish(o, data, err, out)
}

// finish prints and writes what was measured, also if it is not all of it. Only all of it belongs into docs.
func (r Run[T]) finish(o Options, data *T, failed error, out io.Writer) error {
	print := r.Print
	if print == nil {
		print = r.Section
	}
	_, err := io.WriteString(out, print(data))
	if o.Out != "" && err == nil {
		err = Write(o.Out, data)
	}
	if failed != nil {
		return failed
	}
	if o.Write && err == nil {
		err = r.write(o.Docs, data)
	}
	return err
}

func (r Run[T]) write(docs string, data *T) error {
	return r.Place.Write(docs, data, r.Section(data))
}
