package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/test/growth"
	"usher.dev/usher/test/quotatest"
)

func quotaOf(t testing.TB, short string) *quota.Quota {
	t.Helper()
	if object := quotatest.Object(t, short); object != nil {
		return quota.Of(object)
	}
	return nil
}

func treeOf(t testing.TB, lines ...string) *quota.Tree {
	t.Helper()
	var quotas []*quota.Quota
	for _, object := range quotatest.Objects(t, lines...) {
		quotas = append(quotas, quota.Of(object))
	}
	return quota.NewTree(quotas)
}

// calm returns rules for a cluster without pods, where no namespace is being deleted.
func calm() Rules {
	return Rules{
		HasPods:           func(string) ([]string, int) { return nil, 0 },
		NamespaceDeleting: func(string) (bool, error) { return false, nil },
	}
}

// told returns the content of a verdict: problems as "field: text", then warnings as "warning: text".
func told(v Verdict) []string {
	var all []string
	for _, problem := range v.Problems {
		all = append(all, problem.Error())
	}
	for _, warning := range v.Warnings {
		all = append(all, "warning: "+warning)
	}
	return all
}

// ruleCase is a change of a tree and its verdict.
type ruleCase struct {
	about, tree, old, new string
	wants                 []string
}

func (c ruleCase) run(t *testing.T, rules Rules) {
	t.Helper()
	verdict, err := rules.Judge(treeOf(t, c.tree), Change{quotaOf(t, c.old), quotaOf(t, c.new)})
	if err != nil {
		t.Errorf("%s: %v", c.about, err)
	}
	quotatest.WantTexts(t, c.about, told(verdict), c.wants...)
}

const (
	labelAt      = "metadata.labels[quota.scheduling.koordinator.sh/"
	annotationAt = "metadata.annotations[quota.scheduling.koordinator.sh/"
)

// The checks of a quota on its own.
func TestSelf(t *testing.T) {
	for _, c := range []ruleCase{
		{"max", "", "", "q max=cpu:120,memory:1048576", nil},
		{"S1", "", "", "q max=cpu:-1", []string{`spec.max[cpu]: Invalid value: "-1": must not be negative`}},
		{"S2 and S6", "", "", "q max=cpu:1 min=cpu:-1", []string{`spec.min[cpu]: Invalid value: "-1": must not be negative`}},
		{"S4", "", "", "q max=cpu:1 shared-weight=cpu:-1", []string{annotationAt + `shared-weight][cpu]: Invalid value: "-1"`}},
		{"negative admission", "", "", "q max=cpu:1 admission=cpu:-1", []string{annotationAt + `admission][cpu]: Invalid value: "-1"`}},
		{"names", "", "", "q max=c?u:1,requests.cpu:1,a.b/c:1 min=c?u:1 shared-weight=c?u:1 admission=a/b/c:1", []string{annotationAt + `admission]: Invalid value: "a/b/c": is not the name of a resource`,
			annotationAt + `shared-weight]: Invalid value: "c?u"`, `spec.max: Invalid value: "c?u": is not the name of a resource`, `spec.min: Invalid value: "c?u"`}},
		{"zero", "", "", "q max=cpu:0 min=cpu:0 shared-weight=cpu:0 admission=cpu:0", nil},
		{"S5", "", "", "q max=cpu:1 min=cpu:1,memory:1", []string{`spec.min[memory]: Invalid value: "1": spec.max does not name memory`}},
		{"S6", "", "", "q max=cpu:10 min=cpu:12", []string{`spec.min[cpu]: Invalid value: "12": is more than spec.max, which is 10`}},
		{"max without min", "", "", "q max=cpu:10,memory:1", nil},
		{"S9", "", "", "q max=cpu:1,memory:1048576 used=cpu:1,memory:10485760 max-strict-check-resource-keys=cpu,memory",
			[]string{`spec.max[memory]: Invalid value: "1048576": is less than the 10485760 that are used`}},
		{"S9 another key", "", "", "q max=cpu:1,memory:1048576 used=cpu:1,memory:10485760 max-strict-check-resource-keys=cpu", nil},
		{"S8 not in use", "", "", "q max=cpu:1 used=cpu:1 max-strict-check-resource-keys=memory", nil},
		{"S8", "", "", "q max=cpu:1 used=cpu:1,memory:5 max-strict-check-resource-keys=memory", []string{`spec.max: Invalid value: ["cpu"]: must name memory, of which 5 is used`}},
		{"all at once, sorted", "", "", "q max=cpu:-1,memory:1 min=cpu:-2,memory:2,x:1 shared-weight=b:-1,a:-1", []string{
			annotationAt + `shared-weight][a]`, annotationAt + `shared-weight][b]`,
			`spec.max[cpu]`, `spec.min[cpu]: Invalid value: "-2"`, `spec.min[memory]`, `spec.min[x]`}},
		{"S3, S7 and the others", "", "", "q max=cpu:1 shared-weight=!{ max-strict-check-resource-keys=![1] admission=!null guaranteed=![] namespaces=!{}", []string{
			annotationAt + `guaranteed]: Invalid value: "[]"`, annotationAt + `max-strict-check-resource-keys]: Invalid value: "[1]"`,
			annotationAt + `namespaces]: Invalid value: "{}": JSON type object does not belong here; write JSON such as ["team-a"]`, annotationAt + `shared-weight]: Invalid value: "{"`}},
		{"a hostile quantity", "", "", `q max=cpu:1 admission=!{"cpu":"1e-5000000"}`, []string{annotationAt + `admission]: Invalid value ... cpu: not a quantity`}},
	} {
		c.run(t, calm())
	}
}

// An update is judged only for what it changes.
func TestSelfUpdate(t *testing.T) {
	bad := "q max=cpu:-1,memory:1 min=cpu:0,memory:5,x:1 used=memory:9 max-strict-check-resource-keys=memory shared-weight=!{ admission=!no guaranteed=!no namespaces=!no"
	for _, c := range []ruleCase{
		{"nothing changes", "", bad, bad, nil},
		{"only the tree's own label", "", bad, bad + " is-root=true", nil},
		{"another amount of use", "", bad, strings.Replace(bad, "used=memory:9", "used=memory:99", 1), nil},
		{"the same in other words", "", "q max=cpu:-1 min=cpu:2", "q max=cpu:-1000m min=cpu:2000m", nil},
		{"a bad part changes for worse", "", bad, strings.Replace(bad, "cpu:-1", "cpu:-2", 1), []string{`spec.max[cpu]: Invalid value: "-2"`, `spec.min[cpu]`}},
		{"a bad text changes", "", bad, strings.Replace(bad, "admission=!no", "admission=!nonsense", 1), []string{annotationAt + `admission]: Invalid value: "nonsense"`}},
		{"min grows above max", "", "q max=cpu:1 min=cpu:1", "q max=cpu:1 min=cpu:2", []string{`spec.min[cpu]`}},
		{"max falls below min", "", "q max=cpu:1 min=cpu:1", "q max=cpu:500m min=cpu:1", []string{`spec.min[cpu]`}},
		{"max loses a resource of min", "", "q max=cpu:1 min=cpu:1", "q max=memory:1 min=cpu:1", []string{`spec.min[cpu]`}},
		{"max falls below use", "", "q max=cpu:9 used=cpu:5 max-strict-check-resource-keys=cpu", "q max=cpu:4 used=cpu:5 max-strict-check-resource-keys=cpu", []string{`spec.max[cpu]: Invalid value: "4"`}},
		{"max loses what is in use", "", "q max=cpu:9 used=cpu:5 max-strict-check-resource-keys=cpu", "q max=x:4 used=cpu:5 max-strict-check-resource-keys=cpu", []string{`spec.max: `}},
		{"max of nothing goes", "", "q max=cpu:0 used=cpu:5 max-strict-check-resource-keys=cpu", "q used=cpu:5 max-strict-check-resource-keys=cpu", []string{`spec.max: `}},
		{"max rises, but not enough", "", "q max=cpu:3 used=cpu:5 max-strict-check-resource-keys=cpu", "q max=cpu:4 used=cpu:5 max-strict-check-resource-keys=cpu", nil},
		{"use grows above max", "", "q max=cpu:3 used=cpu:1 max-strict-check-resource-keys=cpu", "q max=cpu:3 used=cpu:5 max-strict-check-resource-keys=cpu", nil},
		{"the annotation comes", "", "q max=cpu:3 used=cpu:5", "q max=cpu:3 used=cpu:5 max-strict-check-resource-keys=cpu", []string{`spec.max[cpu]: Invalid value: "3"`}},
		{"a negative weight comes", "", "q max=cpu:3 shared-weight=cpu:1", "q max=cpu:3 shared-weight=cpu:-1", []string{annotationAt + `shared-weight][cpu]`}},
	} {
		c.run(t, calm())
	}
}

// The tree, with its special cases.
func TestTopology(t *testing.T) {
	const parent = "temp is-parent=true max=cpu:120,memory:1048576 min=cpu:100,memory:51200\n"
	const children = parent + "sub-1 parent=temp max=cpu:120,memory:1048576 min=cpu:60,memory:12800\n"
	const max = " max=cpu:120,memory:1048576"
	for _, c := range []ruleCase{
		{"a child", parent, "", "sub-1 parent=temp" + max, nil},
		{"below the root", "", "", "q" + max, nil},
		{"below the root by name", "", "", "q parent=koordinator-root-quota" + max, nil},
		{"a parent below a root object", "koordinator-root-quota max=x:1", "", "q is-parent=true" + max, nil},
		{"SYSTEM, DEFAULT and ROOT are created", "", "", "koordinator-root-quota max=cpu:1", nil},

		{"unknown parent", "", "", "sub-1 parent=temp" + max, []string{labelAt + `parent]: Invalid value: "temp": there is no such quota; create the parent first`}},
		{"parent is none", "temp" + max, "", "sub-1 parent=temp" + max, []string{labelAt + `parent]: Invalid value: "temp": is no parent; set its label`}},
		{"parent goes", parent[:len(parent)-1] + " deleting", "", "sub-1 parent=temp" + max, []string{labelAt + `parent]: Invalid value: "temp": is being deleted`}},
		{"parent lost, child stays", "sub-1 parent=temp" + max, "sub-1 parent=temp" + max, "sub-1 parent=temp min=cpu:1" + max,
			[]string{`warning: elastic quota sub-1: its parent temp does not exist`}},
		{"parent is none, child stays", "temp" + max + " min=cpu:1\nsub-1 parent=temp" + max, "sub-1 parent=temp" + max, "sub-1 parent=temp min=cpu:1" + max,
			[]string{`warning: elastic quota sub-1: its parent temp has no label`}},
		{"children were first", "sub-1 parent=temp" + max, "", "temp" + max, []string{"warning: " + labelAt + `is-parent]: quotas name this one as their parent (sub-1), but it is none`}},

		{"no parent any more", parent, "temp is-parent=true" + max, "temp" + max, nil},
		{"no parent any more, with children", children, "temp is-parent=true" + max + " min=cpu:100,memory:51200", "temp" + max + " min=cpu:100,memory:51200",
			[]string{labelAt + `is-parent]: Invalid value: "false": the quota has children (sub-1)`}},
		{"a parent from now on", "temp" + max, "temp" + max, "temp is-parent=true" + max, nil},

		{"a tree id comes", children, "sub-1 parent=temp" + max, "sub-1 parent=temp tree-id=tree-1" + max, []string{
			labelAt + `tree-id]: Invalid value: "tree-1": was ""`}},
		{"a tree id changes", "q tree-id=tree-2" + max, "q tree-id=tree-2" + max, "q tree-id=tree-1 allow-force-update=true" + max, []string{labelAt + `tree-id]: Invalid value: "tree-1": was "tree-2"`}},
		{"a tree id goes", "q tree-id=tree-2" + max, "q tree-id=tree-2" + max, "q" + max, []string{labelAt + `tree-id]: Invalid value: "": was "tree-2"`}},
		{"tree ids are the same", "temp is-parent=true tree-id=t" + max, "", "sub parent=temp tree-id=t" + max, nil},
		{"only the child has a tree id", parent, "", "sub-1 parent=temp tree-id=t" + max, []string{labelAt + `tree-id]: Invalid value: "t": is not that of its parent temp, which is ""`}},
		{"only the parent has a tree id", "temp is-parent=true tree-id=t" + max, "", "sub parent=temp" + max, []string{labelAt + `tree-id]: Invalid value: "": is not that of its parent temp, which is "t"`}},
		{"only one between has none", "temp is-parent=true tree-id=t" + max + "\nsub parent=q tree-id=t" + max, "", "q parent=temp is-parent=true" + max, []string{
			labelAt + `tree-id]: Invalid value: "": is not that of its child sub, which is "t"`, labelAt + `tree-id]: Invalid value: "": is not that of its parent temp, which is "t"`}},
		{"only the child has none", "temp is-parent=true tree-id=t" + max + "\nsub parent=q" + max, "", "q parent=temp tree-id=t is-parent=true" + max, []string{
			labelAt + `tree-id]: Invalid value: "t": is not that of its child sub, which is ""`}},
		{"wrong tree stays", "temp is-parent=true tree-id=t" + max, "sub parent=temp" + max, "sub parent=temp shared-weight=cpu:1" + max, nil},

		{"fewer resources than the parent", parent, "", "sub parent=temp max=cpu:1", []string{`spec.max: Invalid value: ["cpu"]: its parent temp names cpu, memory: parent and child must name the same`}},
		{"more resources than the parent", parent, "", "sub parent=temp max=cpu:1,memory:1,x:1", []string{`spec.max: Invalid value: ["cpu","memory","x"]: its parent temp names cpu, memory`}},
		{"fewer resources than a child", children, "temp is-parent=true" + max + " min=cpu:60,memory:12800", "temp is-parent=true max=cpu:120 min=cpu:60,memory:12800", []string{
			`spec.max: Invalid value: ["cpu"]: its child sub-1 names cpu, memory`, `spec.min[memory]: Invalid value: "12800": spec.max does not name`}},
		{"a part of the parent's min", parent, "", "sub parent=temp min=cpu:1" + max, nil},
		{"more than the parent's min", "temp is-parent=true min=cpu:9" + max, "", "sub parent=temp min=cpu:1,memory:0" + max, []string{`spec.min[memory]: Invalid value: "0": the min of its parent temp does not name memory`}},
		{"min loses what a child has", children, "temp is-parent=true" + max + " min=cpu:100,memory:51200", "temp is-parent=true" + max + " min=cpu:100", []string{
			`spec.min: Invalid value: ["cpu"]: must name memory, as the min of its child sub-1 does`, `spec.min[memory]: Invalid value: "0": is less than the 12800`}},
		{"a move to a parent whose min names less", parent + "temp2 is-parent=true min=cpu:9" + max, "sub parent=temp min=cpu:1,memory:0" + max, "sub parent=temp2 min=cpu:1,memory:0" + max, []string{`spec.min[memory]: Invalid value: "0": the min of its parent temp2`}},
		{"a child was first, and its min names more", "sub parent=p max=a:1 min=a:0", "", "p is-parent=true max=a:1", []string{`spec.min: Invalid value: []: must name a, as the min of its child sub does`}},
		{"other resources stay", parent, "sub parent=temp max=cpu:1", "sub parent=temp max=cpu:2", nil},
		{"a child with other resources stays", parent + "sub parent=temp max=cpu:1", "temp is-parent=true" + max, "temp is-parent=true max=cpu:121,memory:1048576", nil},

		{"less min than the children", children, "temp is-parent=true" + max + " min=cpu:100,memory:51200", "temp is-parent=true" + max + " min=cpu:59,memory:12799", []string{
			`spec.min[cpu]: Invalid value: "59": is less than the 60 of its children together (sub-1)`, `spec.min[memory]`}},
		{"as much as the children", children, "temp is-parent=true" + max + " min=cpu:100,memory:51200", "temp is-parent=true" + max + " min=cpu:60,memory:12800", nil},
		{"too much for the parent", parent, "", "sub parent=temp min=cpu:101" + max, []string{`spec.min[cpu]: Invalid value: "101": makes 101 with the min of its siblings, more than the 100 of its parent temp`}},
		{"too much with the siblings", children, "", "sub-2 parent=temp min=cpu:41,memory:38400" + max, []string{`spec.min[cpu]: Invalid value: "41": makes 101`}},
		{"all that is left", children, "", "sub-2 parent=temp min=cpu:40,memory:38400" + max, nil},
		{"parent without min", "temp is-parent=true" + max, "", "sub parent=temp min=cpu:1" + max, []string{`spec.min[cpu]: Invalid value: "1": the min of its parent temp does not name cpu`}},
		{"parent lost its min, and the child's grows", "temp is-parent=true" + max, "sub parent=temp min=cpu:1" + max, "sub parent=temp min=cpu:2" + max, []string{`spec.min[cpu]: Invalid value: "2": makes 2 with`}},
		{"own min counts once", children, "sub-1 parent=temp min=cpu:60" + max, "sub-1 parent=temp min=cpu:100" + max, nil},
		{"force on create", parent, "", "sub parent=temp allow-force-update=true min=cpu:101" + max, []string{"warning: " + labelAt + "allow-force-update]: true exempts this quota from the checks of the sums of min"}},
		{"force of a sibling counts", parent + "greedy parent=temp allow-force-update=true min=cpu:100" + max, "", "sub parent=temp min=cpu:1" + max, []string{`spec.min[cpu]: Invalid value: "1": makes 101 with the min of its siblings, more than the 100 of its parent temp`}},
		{"is-root of a sibling counts", parent + "greedy parent=temp is-root=true min=cpu:60" + max, "", "sub parent=temp min=cpu:41" + max, []string{`makes 101 with the min of its siblings`}},
		{"what a forced sibling leaves", parent + "greedy parent=temp allow-force-update=true min=cpu:60" + max, "", "sub parent=temp min=cpu:40" + max, nil},
		{"nothing of what a forced sibling exceeds", parent + "greedy parent=temp allow-force-update=true min=cpu:101" + max, "", "sub parent=temp min=cpu:0" + max, []string{`spec.min[cpu]: Invalid value: "0": makes 101`}},
		{"below a parent that is exceeded, without a min", parent + "greedy parent=temp allow-force-update=true min=cpu:101" + max, "", "sub parent=temp" + max, []string{"warning: elastic quota temp: the min of its children makes 101 cpu"}},
		{"beside a sibling that exceeds, less", parent + "greedy parent=temp allow-force-update=true min=cpu:101" + max + "\nsub parent=temp min=cpu:2" + max, "sub parent=temp min=cpu:2" + max, "sub parent=temp min=cpu:1" + max, []string{"warning: elastic quota temp: the min of its children makes 102 cpu"}},
		{"force of a child counts", children + "greedy parent=temp allow-force-update=true min=cpu:40" + max, "temp is-parent=true" + max + " min=cpu:100,memory:51200", "temp is-parent=true" + max + " min=cpu:99,memory:51200", []string{
			`spec.min[cpu]: Invalid value: "99": is less than the 100 of its children together (greedy, sub-1)`}},
		{"is-root of a child counts", children + "greedy parent=temp is-root=true min=cpu:40" + max, "temp is-parent=true" + max + " min=cpu:120,memory:51200", "temp is-parent=true" + max + " min=cpu:99,memory:51200", []string{
			`spec.min[cpu]: Invalid value: "99": is less than the 100`}},
		{"a forced parent is exempt below its children", children, "temp is-parent=true allow-force-update=true" + max + " min=cpu:100,memory:51200", "temp is-parent=true allow-force-update=true" + max + " min=cpu:59,memory:51200", nil},
		{"force from before", parent, "sub parent=temp allow-force-update=true" + max, "sub parent=temp allow-force-update=true min=cpu:101" + max, nil},
		{"force with the request", parent, "sub parent=temp" + max, "sub parent=temp allow-force-update=true min=cpu:101" + max, []string{`spec.min[cpu]`}},
		{"force alone", parent, "sub parent=temp min=cpu:101" + max, "sub parent=temp allow-force-update=true min=cpu:101" + max, nil},
		{"force goes", parent, "sub parent=temp allow-force-update=true min=cpu:101" + max, "sub parent=temp min=cpu:101" + max, []string{`spec.min[cpu]`}},
		{"force goes from a parent", children, "temp is-parent=true allow-force-update=true min=cpu:1,memory:51200" + max, "temp is-parent=true min=cpu:1,memory:51200" + max, []string{`spec.min[cpu]`}},
		{"is-root on create", parent, "", "sub parent=temp is-root=true min=cpu:101" + max, []string{"warning: " + labelAt + "is-root]: the quota roots a tree, but stands below temp"}},
		{"is-root with the request", parent, "sub parent=temp" + max, "sub parent=temp is-root=true min=cpu:101" + max, []string{`spec.min[cpu]`, "warning: " + labelAt + "is-root]"}},
		{"a sum is fixed child by child", parent + "a parent=temp min=cpu:90" + max + "\nb parent=temp min=cpu:90" + max + "\nc parent=temp min=cpu:90" + max,
			"a parent=temp min=cpu:90" + max, "a parent=temp min=cpu:33" + max, []string{"warning: elastic quota temp: the min of its children makes 213 cpu, more than its own 100"}},
		{"a parent's min rises, but not enough", children, "temp is-parent=true" + max + " min=cpu:1,memory:51200", "temp is-parent=true" + max + " min=cpu:2,memory:51200", nil},

		// Max above the parent's.
		{"max above the parent's", parent, "", "sub parent=temp max=cpu:121,memory:1", []string{`warning: spec.max[cpu]: 121 is more than the 120 of its parent temp`}},
		{"max above the parent's stays", parent, "sub parent=temp max=cpu:121,memory:1", "sub parent=temp max=cpu:121,memory:2", nil},
		{"max below the children's", children, "temp is-parent=true" + max + " min=cpu:60,memory:12800", "temp is-parent=true max=cpu:100,memory:1048576 min=cpu:60,memory:12800",
			[]string{`warning: spec.max[cpu]: 100 is less than that of its children (sub-1)`}},

		// Moves
		{"a move", children + "temp2 is-parent=true min=cpu:60,memory:12800" + max, "sub-1 parent=temp min=cpu:60,memory:12800" + max, "sub-1 parent=temp2 min=cpu:60,memory:12800" + max, nil},
		{"a move back with too much", parent + "temp2 is-parent=true min=cpu:120,memory:1" + max + "\nsub-1 parent=temp2 min=cpu:1" + max, "sub-1 parent=temp2 min=cpu:1" + max, "sub-1 parent=temp min=cpu:120" + max,
			[]string{`spec.min[cpu]: Invalid value: "120"`}},
		{"a move of what is too much", parent, "sub-1 parent=temp2 min=cpu:120" + max, "sub-1 parent=temp min=cpu:120" + max, []string{`spec.min[cpu]`}},
		{"a move to nowhere", children, "sub-1 parent=temp" + max, "sub-1 parent=none" + max, []string{labelAt + `parent]: Invalid value: "none": there is no such quota`}},
		{"unknown to the tree", "", "tmp" + max, "tmp min=cpu:1" + max, nil}, // the request proves that it exists

		// Cycles
		{"its own parent on create", "", "", "q parent=q is-parent=true" + max, []string{labelAt + `parent]: Invalid value: "q": would put the quota below itself: q -> q`}},
		{"its own parent", "q is-parent=true" + max, "q is-parent=true" + max, "q parent=q is-parent=true" + max, []string{`would put the quota below itself: q -> q`}},
		{"its own parent already", "q parent=q is-parent=true max=a:1", "q parent=q is-parent=true max=a:1", "q parent=q is-parent=true max=b:1", []string{`warning: elastic quotas stand below themselves: q -> q`}},
		{"below its child", "a is-parent=true" + max + "\nb parent=a is-parent=true" + max, "a is-parent=true" + max, "a parent=b is-parent=true" + max, []string{`would put the quota below itself: a -> b -> a`}},
		{"below its grandchild", "a is-parent=true\nb parent=a is-parent=true\nc parent=b is-parent=true", "a is-parent=true", "a parent=c is-parent=true", []string{`below itself: a -> c -> b -> a`}},
		{"a cycle by a child that was first", "a parent=b is-parent=true", "", "b parent=a is-parent=true", []string{`below itself: b -> a -> b`}},
		{"below a cycle of others", "a parent=b is-parent=true\nb parent=a is-parent=true", "", "c parent=a", nil},
		{"out of a cycle", "a parent=b is-parent=true\nb parent=a is-parent=true", "a parent=b is-parent=true", "a is-parent=true", nil},
		{"still in a cycle", "a parent=b is-parent=true\nb parent=a is-parent=true", "a parent=b is-parent=true", "a parent=b is-parent=true max=cpu:1", []string{
			`spec.max: Invalid value: ["cpu"]: its child b names nothing`, `spec.max: Invalid value: ["cpu"]: its parent b names nothing`}},
		{"still in a cycle, with a warning", "a parent=b is-parent=true\nb parent=a is-parent=true", "a parent=b is-parent=true", "a parent=b is-parent=true shared-weight=cpu:1", []string{
			`warning: elastic quotas stand below themselves: a -> b -> a`}},
	} {
		c.run(t, calm())
	}
}

// chain returns quotas one below the other, from the top down: prefix1 to prefixN.
func chain(prefix, parent string, n int) string {
	var b strings.Builder
	for i := range n {
		name := fmt.Sprint(prefix, i+1)
		fmt.Fprintf(&b, "%s parent=%s is-parent=true\n", name, parent)
		parent = name
	}
	return b.String()
}

// No path may grow beyond 32 quotas; longer stored paths are kept and can be shortened.
func TestLevels(t *testing.T) {
	refused := func(parent, text string) []string {
		return []string{labelAt + `parent]: Invalid value: "` + parent + `": would make ` + text + ` ... , and 32 are allowed; choose a parent nearer to the root quota`}
	}
	cycle := "x parent=y is-parent=true\ny parent=x is-parent=true\n"
	for _, c := range []ruleCase{
		{"the last level", chain("a", "", 31), "", "q parent=a31", nil},
		{"one too many", chain("a", "", 32), "", "q parent=a32", refused("a32", "33 levels of quotas, 32 above this one and 0 below")},
		{"far too many", chain("a", "", 5000), "", "q parent=a5000", refused("a5000", "5001 levels")},
		{"below the root quota, which does not count", api.RootQuota + "\n" + chain("a", "", 31), "", "q parent=a31", nil},
		{"children were first", chain("a", "", 30) + chain("b", "q", 1), "", "q parent=a30 is-parent=true", nil},
		{"children were first, one too many", chain("a", "", 30) + chain("b", "q", 2), "", "q parent=a30 is-parent=true", refused("a30", "33 levels of quotas, 30 above this one and 2 below")},
		{"children were first, at the top", chain("b", "q", 32), "", "q is-parent=true", refused(api.RootQuota, "33 levels of quotas, 0 above")},
		{"a move with what is below", chain("a", "", 16) + chain("b", "", 16) + "c1 parent=b1", "b1 is-parent=true", "b1 parent=a16 is-parent=true", nil},
		{"a move with too much below", chain("a", "", 16) + chain("b", "", 17) + "c1 parent=b1", "b1 is-parent=true", "b1 parent=a16 is-parent=true", refused("a16", "33 levels of quotas, 16 above this one and 16 below")},
		{"stored deeper, changed", chain("a", "", 40), "a35 parent=a34 is-parent=true", "a35 parent=a34 is-parent=true shared-weight=cpu:1", nil},
		{"stored deeper, a move up", chain("a", "", 80), "a35 parent=a34 is-parent=true", "a35 parent=a2 is-parent=true", nil},
		{"stored deeper, a move to the top", chain("a", "", 80), "a35 parent=a34 is-parent=true", "a35 is-parent=true", nil},
		{"stored deeper, a move along", chain("a", "", 40) + chain("b", "", 34), "a35 parent=a34 is-parent=true", "a35 parent=b34 is-parent=true", refused("b34", "40 levels")},
		{"stored deeper, a move down", chain("a", "", 40) + chain("b", "", 35), "a35 parent=a34 is-parent=true", "a35 parent=b35 is-parent=true", refused("b35", "41 levels")},
		{"below a cycle", cycle, "", "q parent=x", nil},
		{"out of a cycle", cycle + chain("a", "", 31), "x parent=y is-parent=true", "x parent=a30 is-parent=true", nil},
		{"a long cycle is not told in full", chain("a", "", 40), "a1 is-parent=true", "a1 parent=a40 is-parent=true", []string{`below itself: a1 -> a40 -> a39 -> ... -> a1;`}},
	} {
		c.run(t, calm())
	}
}

// An answer is short, whatever the number of mistakes, and deterministic.
func TestVerdictIsBounded(t *testing.T) {
	many := func(n int, format string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return strings.Join(all, ",")
	}
	taken := "temp namespaces=" + many(10_000, "ns-%05d")
	var first []string
	for range 3 {
		verdict, err := calm().Judge(treeOf(t, taken), Change{New: quotaOf(t, "other namespaces="+many(10_000, "ns-%05d"))})
		got := told(verdict)
		if err != nil || len(got) != maxProblems || !strings.Contains(got[0], "ns-00000") || !strings.Contains(got[19], `"ns-00019"`) || !strings.HasSuffix(got[19], "(and 9980 more problems)") {
			t.Fatalf("%d problems, %.3000q %v", len(got), got, err)
		}
		if first == nil {
			first = got
		} else if !slices.Equal(got, first) {
			t.Errorf("%q, before %q", got, first)
		}
	}
	ruleCase{"twenty", taken, "", "other namespaces=" + many(20, "ns-%05d"), slices.Repeat([]string{"take it out of that quota's annotation first"}, 20)}.run(t, calm())
	ruleCase{"a long list of resources", "p is-parent=true max=x:1", "", "q parent=p max=" + many(1000, "r%d:1"), []string{`"r115","..."]: its parent p names x`}}.run(t, calm())
	ruleCase{"ten warnings", "p is-parent=true max=" + many(10, "r%d:1"), "", "q parent=p max=" + many(10, "r%d:2"), slices.Repeat([]string{"warning: spec.max[r"}, 10)}.run(t, calm())
	ruleCase{"a thousand warnings", "p is-parent=true max=" + many(1000, "r%d:1"), "", "q parent=p max=" + many(1000, "r%d:2"),
		append(slices.Repeat([]string{"warning: spec.max[r"}, 10), "warning: and 990 more warnings about this quota")}.run(t, calm())
}

// A chain or a cycle of ten thousand, as an unchecked tree may have, terminates.
func TestLongChain(t *testing.T) {
	const n = 10_000
	for _, last := range []string{"", "q0", "q5000"} {
		quotas := []*quota.Quota{{Name: fmt.Sprint("q", n-1), Parent: last, IsParent: true}}
		for i := range n - 1 {
			quotas = append(quotas, &quota.Quota{Name: fmt.Sprint("q", i), Parent: fmt.Sprint("q", i+1), IsParent: true})
		}
		if _, err := calm().Judge(quota.NewTree(quotas), Change{Old: quotas[0], New: &quota.Quota{Name: quotas[0].Name, Parent: "q0"}}); err != nil {
			t.Error(err)
		}
	}
}

// A quota that names very many resources is checked in linear time.
func TestManyNames(t *testing.T) {
	growth.WantLinear(t, 3_000, func(n int) func() {
		holds, before, now := quotaOf(t, "holds"), quotaOf(t, "q max=cpu:1"), quotaOf(t, "q max=cpu:2")
		for i := range n {
			name := fmt.Sprintf("name-%06d", i)
			holds.Namespaces, now.StrictKeys = append(holds.Namespaces, name), append(now.StrictKeys, corev1.ResourceName(name))
		}
		now.Namespaces, before.Namespaces, before.StrictKeys = holds.Namespaces, slices.Clone(holds.Namespaces), now.StrictKeys
		slices.Reverse(before.Namespaces)
		tree := quota.NewTree([]*quota.Quota{holds, before})
		return func() {
			j := &judge{Rules: calm(), tree: tree, old: before, new: now}
			j.checkSelf()
			j.checkNames()
			if len(j.Problems) > 0 {
				t.Errorf("%d problems", len(j.Problems))
			}
		}
	})
}

// Names are global, and a namespace belongs to one quota.
func TestNames(t *testing.T) {
	const temp = "temp@one namespaces=test1,test2"
	for _, c := range []ruleCase{
		{"another namespace", temp, "", "temp@two", []string{`metadata.name: Invalid value: "temp": names of elastic quotas are global: temp exists in namespace one`}},
		{"the same once more", temp, "", temp, nil}, // the API server's to refuse
		{"a double changes", temp, "temp@two max=cpu:1", "temp@two max=cpu:2", nil},
		{"a namespace that is taken", temp, "", "other namespaces=test1,test3", []string{annotationAt + `namespaces]: Invalid value: "test1": pods of this namespace count against quota temp already`}},
		{"no namespaces", temp, "", "other namespaces=*,Team_X!", []string{`Invalid value: "*": is not the name of a namespace`, `Invalid value: "Team_X!": is not`}},
		{"an empty one", temp, "", `other namespaces=![""]`, []string{`Invalid value: "": is not the name of a namespace`}},
		{"no namespace stays", temp, "other namespaces=*", "other namespaces=*,x", nil},
		{"two that are taken", temp, "", "other namespaces=test2,test1,test2", []string{`Invalid value: "test1"`, `Invalid value: "test2"`}},
		{"a taken one comes", temp, "other namespaces=x", "other namespaces=x,test2", []string{`Invalid value: "test2"`}},
		{"a taken one stays", temp, "other namespaces=test1", "other namespaces=test1,x", nil},
		{"its own", temp, temp, "temp@one namespaces=test2,test3", nil},
	} {
		c.run(t, calm())
	}
}

// With the gate a child may name fewer resources.
func TestUpdateResourceKey(t *testing.T) {
	rules := calm()
	rules.UpdateResourceKey = true
	for _, c := range []ruleCase{
		{"fewer", "p is-parent=true max=a:1,b:1", "", "q parent=p max=a:1", nil},
		{"others", "p is-parent=true max=a:1,b:1", "", "q parent=p max=c:1", []string{`spec.max: Invalid value: ["c"]: its parent p names a, b: a child may name only what its parent names`}},
		{"a child with fewer", "q parent=p max=a:1", "p is-parent=true max=a:1", "p is-parent=true max=a:1,b:1", nil},
		{"a child with more", "q parent=p max=a:1,b:1", "p is-parent=true max=a:1,b:1", "p is-parent=true max=a:1", []string{`spec.max: Invalid value: ["a"]: its child q names a, b`}},
		{"more min than the parent", "p is-parent=true max=a:1,b:1 min=a:1", "", "q parent=p max=a:1,b:1 min=b:0", []string{`spec.min[b]: Invalid value: "0": the min of its parent p`}},
	} {
		c.run(t, rules)
	}
}

// Quotas that the scheduler computes may not be changed.
func TestFixedQuotas(t *testing.T) {
	for _, name := range []string{api.RootQuota, api.SystemQuota} {
		for _, c := range []ruleCase{
			{"min", "", name, name + " min=cpu:1 max=cpu:-1", []string{`spec.max: Forbidden: ` + name + ` is the scheduler's own quota`, `spec.min: Forbidden`}},
			{"labels", "", name, name + " is-parent=true tree-id=x is-root=true allow-force-update=true", []string{labelAt + "allow-force-update]: Forbidden", labelAt + "is-parent]", labelAt + "is-root]", labelAt + "tree-id]"}},
			{"annotations", "", name, name + " shared-weight=a:1 namespaces=a admission=!{ max-strict-check-resource-keys=a", []string{
				annotationAt + "admission]", annotationAt + "max-strict-check-resource-keys]", annotationAt + "namespaces]", annotationAt + "shared-weight]"}},
			{"the parent", "", name, name + " parent=x", []string{labelAt + "parent]: Forbidden"}},
			{"the parent, which it has already", "", name + " parent=x", name + " parent=y", []string{labelAt + "parent]: Forbidden"}},
			{"the parent goes", "", name + " parent=x", name, []string{labelAt + "parent]: Forbidden"}},
			{"what the scheduler writes", "", name + " max=cpu:1", name + " max=cpu:1000m guaranteed=cpu:1 used=cpu:1", nil},
			{"created", "", "", name + " max=cpu:1", nil},
		} {
			c.run(t, calm())
		}
	}
	ruleCase{"DEFAULT", "", api.DefaultQuota, api.DefaultQuota + " max=cpu:1", nil}.run(t, calm())
}

// Pods keep a quota from becoming a parent.
func TestIsParentWithPods(t *testing.T) {
	rules := calm()
	rules.HasPods = func(quota string) ([]string, int) {
		return []string{"ns/p-1", "ns/p-2", "ns/p-3"}, map[string]int{"sub-1": 7, "sub-2": 0}[quota]
	}
	ruleCase{"pods", "", "sub-1", "sub-1 is-parent=true", []string{labelAt + `is-parent]: Invalid value: "true": a parent has no pods of its own, but this quota has 7 pods (ns/p-1, ns/p-2, ns/p-3, ...)`}}.run(t, rules)
	ruleCase{"none", "", "sub-2", "sub-2 is-parent=true", nil}.run(t, rules)
	ruleCase{"a parent already", "", "sub-1 is-parent=true", "sub-1 is-parent=true max=cpu:1", nil}.run(t, rules)
}

// The guarantee, with its special cases.
func TestGuarantee(t *testing.T) {
	rules := calm()
	rules.GuaranteeUsage = true
	const max = " max=cpu:99"
	const root = "root is-parent=true is-root=true tree-id=t min=cpu:10 guaranteed=cpu:10" + max + "\n"
	const middle = "root is-parent=true is-root=true tree-id=t min=cpu:20 guaranteed=cpu:20" + max + "\nmid parent=root is-parent=true tree-id=t min=cpu:10 guaranteed=cpu:5" + max + "\n"
	refused := func(text string) []string {
		return []string{`spec.min: Invalid value: ["cpu"]: the tree cannot guarantee it: its top root ` + text}
	}
	for _, c := range []ruleCase{
		{"at the top, not marked as the root", "", "", "q is-parent=true tree-id=t min=cpu:5" + max, nil},
		{"guaranteed already", root + "other parent=root tree-id=t guaranteed=cpu:2" + max, "", "q parent=root tree-id=t min=cpu:5 guaranteed=cpu:6" + max, nil},
		{"room beside a sibling", root + "other parent=root tree-id=t guaranteed=cpu:3" + max, "", "q parent=root tree-id=t min=cpu:7" + max, nil},
		{"no room beside a sibling", root + "other parent=root tree-id=t guaranteed=cpu:3" + max, "", "q parent=root tree-id=t min=cpu:8" + max, refused("would have to guarantee 11 cpu, but guarantees 10")},
		{"a root that is not guaranteed itself", "root is-parent=true is-root=true tree-id=t min=cpu:10 guaranteed=cpu:5" + max, "", "k parent=root tree-id=t min=cpu:1" + max, refused("would have to guarantee 10 cpu, but guarantees 5")},
		{"higher up", middle, "", "q parent=mid tree-id=t min=cpu:8" + max, nil},
		{"not even higher up", middle + "other parent=root tree-id=t guaranteed=cpu:11" + max, "", "q parent=mid tree-id=t min=cpu:8" + max, refused("would have to guarantee 21 cpu, but guarantees 20")},
		{"force", root, "", "q parent=root tree-id=t min=cpu:11 allow-force-update=true" + max, []string{"warning: " + labelAt + "allow-force-update]: true exempts"}},
		{"without a tree", "root is-parent=true min=cpu:10" + max, "", "q parent=root min=cpu:8" + max, nil},
		{"a leaf below the root quota", "", "", "q tree-id=t min=cpu:8" + max, nil},
		{"a parent below the root quota", "", "", "q tree-id=t is-parent=true min=cpu:8" + max, nil},
		{"force goes", "root is-parent=true is-root=true tree-id=t min=cpu:10 guaranteed=cpu:5" + max, "q parent=root tree-id=t min=cpu:8 allow-force-update=true" + max, "q parent=root tree-id=t min=cpu:8" + max, refused("")},
		{"min grows", "root is-parent=true is-root=true tree-id=t min=cpu:10 guaranteed=cpu:5" + max, "q parent=root tree-id=t min=cpu:8" + max, "q parent=root tree-id=t min=cpu:9" + max, refused("")},
		{"min stays", "root is-parent=true is-root=true tree-id=t min=cpu:10 guaranteed=cpu:5" + max, "q parent=root tree-id=t min=cpu:8" + max, "q parent=root tree-id=t min=cpu:8 max=cpu:100", []string{"warning: spec.max[cpu]"}},
		{"a cycle above ends", "a parent=b is-parent=true tree-id=t min=cpu:9" + max + "\nb parent=a is-parent=true tree-id=t min=cpu:9" + max, "", "q parent=a tree-id=t min=cpu:1" + max, []string{`spec.min[cpu]: Invalid value: "1": makes 10`}},
	} {
		c.run(t, rules)
	}
	off := ruleCase{"gate off", root, "", "q parent=root tree-id=t min=cpu:8 guaranteed=cpu:1" + max, nil}
	off.run(t, calm())
}

// A quota that is needed may not be deleted, unless its namespace is being deleted.
func TestDelete(t *testing.T) {
	pods := func(total int, names ...string) func(string) ([]string, int) {
		return func(quota string) ([]string, int) {
			if quota != "q" {
				return nil, 0
			}
			return names, total
		}
	}
	none := pods(0)
	tree := "p is-parent=true\na parent=p\nb parent=p\nq@one age=2\nq@two age=1"
	for _, c := range []struct {
		about, quota string
		pods         func(string) ([]string, int)
		wants        []string
	}{
		{"children", "p", none, []string{`metadata.name: Forbidden: p has children (a, b); move them`}},
		{"no children", "a", none, nil},
		{"unknown to the tree", "z", none, nil},
		{"a pod", "q@one", pods(1, "n/x"), []string{`metadata.name: Forbidden: q has 1 pod (n/x); let them end`}},
		{"two pods", "q@one", pods(2, "n/x", "n/y"), []string{`q has 2 pods (n/x, n/y);`}},
		{"many pods", "q@one", pods(9, "n/x", "n/y", "n/z", "n/w"), []string{`q has 9 pods (n/x, n/y, n/z, ...);`}},
		{"the double has neither", "q@two", pods(9), nil},
		{"ROOT", api.RootQuota, none, []string{`Forbidden: koordinator-root-quota is a quota that the scheduler needs`}},
		{"SYSTEM", api.SystemQuota, none, []string{`Forbidden`}},
		{"DEFAULT", api.DefaultQuota, none, []string{`Forbidden`}},
	} {
		rules, asked := calm(), 0
		rules.HasPods = c.pods
		rules.NamespaceDeleting = func(namespace string) (bool, error) {
			asked++
			return false, nil
		}
		change := Change{Old: quotaOf(t, c.quota)}
		verdict, err := rules.Judge(treeOf(t, tree), change)
		if err != nil || asked > len(c.wants) {
			t.Errorf("%s: %v, asked %d", c.about, err, asked)
		}
		quotatest.WantTexts(t, c.about, told(verdict), c.wants...)
		if c.wants == nil {
			continue
		}
		rules.NamespaceDeleting = func(namespace string) (bool, error) { return namespace == change.Old.Namespace, nil }
		verdict, err = rules.Judge(treeOf(t, tree), change)
		if err != nil {
			t.Error(err)
		}
		quotatest.WantTexts(t, c.about+", the namespace goes", told(verdict), fmt.Sprintf("warning: namespace %s is being deleted", change.Old.Namespace))
		unknown := errors.New("unknown")
		rules.NamespaceDeleting = func(string) (bool, error) { return false, unknown }
		if _, err := rules.Judge(treeOf(t, tree), change); !errors.Is(err, unknown) {
			t.Errorf("%s: %v", c.about, err)
		}
	}
}
