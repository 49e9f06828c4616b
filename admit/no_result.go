package admit

import (
	"errors"
	"fmt"
)

// NoResultError reports that a rule of the policy has no result for an object, because of how the rule is written, so that
// neither yes nor no can be said. Its text is for users. A request fails by it, as by any failure of ours.
type NoResultError struct {
	Rule string
	Why  error
}

func (e *NoResultError) Error() string { return fmt.Sprintf("rule %s: %v", e.Rule, e.Why) }

// Unwrap returns why the rule has no result.
func (e *NoResultError) Unwrap() error { return e.Why }

// takeNoResults adds the failures of a chain if all of them are rules without a result. Any other failure is returned.
func (v *PodVerdict) takeNoResults(err error) error {
	failures, all := noResults(err)
	if !all {
		return err
	}
	v.NoResults = append(v.NoResults, failures...)
	return nil
}

// noResults returns the rules without a result that an error consists of; all is false if it has other causes, too.
func noResults(err error) (failures []*NoResultError, all bool) {
	if err == nil {
		return nil, true
	}
	if one, ok := err.(*NoResultError); ok {
		return []*NoResultError{one}, true
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			more, only := noResults(e)
			if !only {
				return nil, false
			}
			failures = append(failures, more...)
		}
		return failures, len(failures) > 0
	}
	if inner := errors.Unwrap(err); inner != nil {
		return noResults(inner)
	}
	return nil, false
}
