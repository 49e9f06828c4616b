// Package podvalidation checks the containers and volumes of a pod by the rules of the API server (Kubernetes 1.37, with its defaults).
package podvalidation

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// list collects problems.
type list field.ErrorList

func (l *list) add(problems ...*field.Error) { *l = append(*l, problems...) }

// when adds a problem if the condition holds. So do the methods after it, which are calls and not inlined, because a
// small program links them.
func (l *list) when(wrong bool, problem *field.Error) {
	if wrong {
		l.add(problem)
	}
}

//go:noinline
func (l *list) invalid(wrong bool, at *field.Path, value any, detail string) {
	l.when(wrong, field.Invalid(at, value, detail))
}

//go:noinline
func (l *list) forbidden(wrong bool, at *field.Path, detail string) {
	l.when(wrong, field.Forbidden(at, detail))
}

//go:noinline
func (l *list) missing(wrong bool, at *field.Path, hint string) {
	l.when(wrong, field.Required(at, hint))
}

//go:noinline
func (l *list) duplicate(wrong bool, at *field.Path, value any) {
	l.when(wrong, field.Duplicate(at, value))
}

// required adds a problem if a text is empty.
func (l *list) required(at *field.Path, text, hint string) {
	l.missing(text == "", at, hint)
}

// valid adds the problems that a function of the package validation finds in a text.
func (l *list) valid(at *field.Path, text string, check func(string) []string) {
	for _, problem := range check(text) {
		l.add(field.Invalid(at, text, problem))
	}
}

// oneOf adds a problem if a text is none of those supported. An empty text has a default, and is none.
func oneOf[T ~string](l *list, at *field.Path, text T, supported ...T) {
	l.when(text != "" && !slices.Contains(supported, text), field.NotSupported(at, text, supported))
}

// chosen adds a problem if a text is empty, or none of those supported.
func chosen[T ~string](l *list, at *field.Path, text T, hint string, supported ...T) {
	l.required(at, string(text), hint)
	oneOf(l, at, text, supported...)
}

// between adds a problem if a number is outside of a range.
func (l *list) between(at *field.Path, number, least, most int64) {
	l.invalid(number < least || number > most, at, number, validation.InclusiveRangeError(int(least), int(most)))
}

// notNegative adds a problem if a number is below 0.
func (l *list) notNegative(at *field.Path, number int32) {
	l.invalid(number < 0, at, number, "must be 0 or more")
}

// mode adds a problem if the permissions of a file are none.
func (l *list) mode(at *field.Path, mode *int32) {
	l.invalid(mode != nil && (*mode < 0 || *mode > 0o777),
		at, mode, "must be between 0 and 0777 in octal, or between 0 and 511 in decimal")
}

// user adds a problem if the owner of a file is none (Kubernetes 1.37, alpha).
func (l *list) user(at *field.Path, id *int64) {
	if id != nil {
		l.between(at, *id, 0, 1<<31-1)
	}
}

// below adds a problem unless a path is relative and stays below its directory.
func (l *list) below(at *field.Path, text string) {
	l.invalid(path.IsAbs(text), at, text, "must be a relative path")
	l.noBacksteps(at, text)
}

func (l *list) noBacksteps(at *field.Path, text string) {
	l.invalid(slices.Contains(strings.Split(text, "/"), ".."), at, text, "must not contain '..'")
}

// file adds the problems of a path in a volume that the kubelet writes.
func (l *list) file(at *field.Path, text string) {
	l.required(at, text, "the path of the file in the volume")
	l.below(at, text)
	l.invalid(strings.HasPrefix(text, "..") && !strings.HasPrefix(text, "../") && text != "..",
		at, text, "must not begin with '..'")
}
