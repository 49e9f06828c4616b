package slo

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// finding holds the problems of one key.
type finding struct {
	key      string
	problems []Problem
	more     int // the number of problems that were not kept
	warn     func(Warning)
}

// maxProblems is the number of reported problems per key: a text of 1 MiB may have 100,000.
const maxProblems = 100

// shorten truncates a quoted value.
func shorten(text string) string { return admit.Shorten(text, 81) }

// pathOf returns the field path of a data key.
func pathOf(key string) *field.Path { return field.NewPath("data").Key(key) }

func (f *finding) path() *field.Path { return pathOf(f.key) }

// add adds a problem, with the quoted value truncated.
func (f *finding) add(err *field.Error) {
	if len(f.problems) == maxProblems {
		f.more++
		return
	}
	if text, ok := err.BadValue.(string); ok {
		err.BadValue = shorten(text)
	}
	f.problems = append(f.problems, Problem{Key: f.key, Err: err})
}

func (f *finding) invalid(at *field.Path, value any, format string, args ...any) {
	f.add(field.Invalid(at, value, fmt.Sprintf(format, args...)))
}

// count returns the number of problems.
func (f *finding) count() int { return len(f.problems) + f.more }

func (f *finding) warnf(format string, args ...any) {
	f.warn(Warning{f.key, fmt.Sprintf(format, args...)})
}

// all returns the problems that were kept, and the number of the others.
func (f *finding) all() []Problem {
	if f.more == 0 {
		return f.problems
	}
	err := field.Invalid(f.path(), field.OmitValueType{}, fmt.Sprintf("%d more problems; fix those above first", f.more))
	return append(f.problems[:len(f.problems):len(f.problems)], Problem{Key: f.key, Err: err})
}
