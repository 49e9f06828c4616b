package rules

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// judgeDeletion refuses to delete quotas that are needed, unless their namespace is being deleted: a refusal would
// block that.
func (r Rules) judgeDeletion(t *quota.Tree, q *quota.Quota) (Verdict, error) {
	problems := r.needs(t, q)
	if len(problems) == 0 {
		return Verdict{}, nil
	}
	goes, err := r.NamespaceDeleting(q.Namespace)
	if err != nil {
		return Verdict{}, fmt.Errorf("namespace %s: %w", q.Namespace, err)
	}
	if goes {
		return Verdict{Warnings: []string{fmt.Sprintf("namespace %s is being deleted, so its quota goes too, although %s",
			q.Namespace, problems[0].Detail)}}, nil
	}
	return Verdict{Problems: problems}, nil
}

// needs returns a problem for each kind of object that needs a quota. If two quotas have the same name, children and
// pods belong to the quota that counts.
func (r Rules) needs(t *quota.Tree, q *quota.Quota) (problems field.ErrorList) {
	keep := func(format string, args ...any) {
		problems = append(problems, field.Forbidden(admit.NamePath, fmt.Sprintf(format, args...)))
	}
	if counts, ok := t.Get(q.Name); ok && counts.Identity() != q.Identity() {
		return nil
	}
	if api.ReservedQuota(q.Name) {
		keep("%s is a quota that the scheduler needs", q.Name)
		return problems
	}
	if children := t.Children(q.Name); len(children) > 0 {
		keep("%s has children (%s); move them to another parent or delete them first", q.Name, admit.SomeNames(children))
	}
	if pods, total := r.HasPods(q.Name); total > 0 {
		keep("%s has %s; let them end, or move them to another quota first", q.Name, somePods(pods, total))
	}
	return problems
}

// somePods formats a list of pods, of which total may be larger than the number of names.
func somePods(names []string, total int) string {
	listed := strings.Join(names[:min(admit.MaxNames, len(names))], ", ")
	switch {
	case total == 1 && listed != "":
		return "1 pod (" + listed + ")"
	case listed == "":
		return fmt.Sprintf("%d pods", total)
	case total > admit.MaxNames:
		return fmt.Sprintf("%d pods (%s, ...)", total, listed)
	}
	return fmt.Sprintf("%d pods (%s)", total, listed)
}
