package webhookmatch

import (
	"maps"
	"slices"

	celtypes "github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	registration "k8s.io/api/admissionregistration/v1"
)

// somebody is a user whom no condition names.
const somebody = "nobody-in-particular"

// privileged are users who may do nearly everything, or who create nearly everything.
var privileged = []struct {
	text, user string
	groups     []string
}{
	{"the group system:masters", somebody, []string{"system:masters"}},
	{"the group kubeadm:cluster-admins", somebody, []string{"kubeadm:cluster-admins"}},
	{"the group system:cluster-admins", somebody, []string{"system:cluster-admins"}},
	{"the user kubernetes-admin", "kubernetes-admin", nil},
	{"the user admin", "admin", nil},
	{"the user system:admin", "system:admin", nil},
	{"the controllers, which create the pods of workloads", "system:serviceaccount:kube-system:replicaset-controller",
		[]string{"system:serviceaccounts", "system:serviceaccounts:kube-system"}},
}

// LeavesOut returns the privileged users some or all of whose requests a match condition leaves out, sorted; none if it leaves out none, or
// does not compile. A condition that asks the authorizer counts as leaving out users by their rights, which others decide on.
func LeavesOut(c registration.MatchCondition, rules []registration.RuleWithOperations) (users []string) {
	e := expressionOf(c.Expression)
	if e.program == nil {
		return nil
	}
	for _, of := range e.tree.NativeRep().ReferenceMap() {
		if of.Name == "authorizer" {
			return []string{"users by their rights"}
		}
	}
	if !slices.ContainsFunc(chainsOf(e.tree, "request"), func(chain []string) bool { return chain[0] == "userInfo" }) {
		return nil
	}
	users = leftOut(e, rules)
	slices.Sort(users)
	return slices.Compact(users)
}

// leftOut returns the privileged users whom an expression leaves out for the requests of rules, unlike others; and "nearly everybody" if it
// leaves out the others.
func leftOut(e expression, rules []registration.RuleWithOperations) (users []string) {
	result := func(p partial) ref.Val {
		is, err := e.evaluate(map[string]any{"request": p.known}, p.unknown, objects, others, namespace)
		if err != nil || is != celtypes.True && is != celtypes.False {
			return nil
		}
		return is
	}
	for _, p := range requestsOf(rules) {
		anybody := result(p.by(somebody, nil))
		if anybody == celtypes.False {
			users = append(users, "nearly everybody")
		}
		for _, who := range privileged {
			if is := result(p.by(who.user, who.groups)); is != celtypes.True && is != anybody {
				users = append(users, who.text)
			}
		}
	}
	return users
}

// by returns the request as one of a user.
func (p partial) by(user string, groups []string) partial {
	known := maps.Clone(p.known)
	known["userInfo"] = map[string]any{"username": user, "groups": append([]string{"system:authenticated"}, groups...)}
	return partial{known: known, unknown: append(slices.Clone(p.unknown), attribute("request", "userInfo", "uid"),
		attribute("request", "userInfo", "extra"))}
}
