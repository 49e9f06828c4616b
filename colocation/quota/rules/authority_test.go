package rules

import (
	"errors"
	"strings"
	"testing"

	"usher.dev/usher/test/quotatest"
)

// tenancy is a tree in which namespace team-a has a boundary of its own, a, and namespace team-b another one. Quota
// c is the administrators', for the pods of team-c. The parent of lost, a boundary of team-a, is gone.
const tenancy = `all@quota-system is-parent=true max=cpu:8
	a@team-a parent=all is-parent=true max=cpu:4 min=cpu:1
	team-a-x@team-a parent=a is-parent=true max=cpu:2
	team-a-y@team-a parent=team-a-x max=cpu:2
	b@team-b parent=all is-parent=true max=cpu:4
	team-b@team-b parent=b
	c@quota-system parent=all namespaces=team-c
	lost@team-a parent=gone max=cpu:4
	orphan@team-b parent=team-a-ghost max=cpu:1`

// tenantRules are rules for a cluster with some namespaces, of which one is being deleted.
func tenantRules() Rules {
	rules := calm()
	rules.NamespaceDeleting = func(name string) (bool, error) { return name == "leaving", nil }
	rules.HasNamespace = func(name string) (bool, error) {
		return strings.Contains(" team-a team-b team-a-qa leaving ", " "+name+" "), nil
	}
	return rules
}

func TestOverreach(t *testing.T) {
	const only = "Forbidden: only administrators of quotas (quotas.administrators of usher's policy) may "
	const a, x, y = "a@team-a parent=all is-parent=true max=cpu:4 min=cpu:1", "team-a-x@team-a parent=a is-parent=true max=cpu:2", "team-a-y@team-a parent=team-a-x max=cpu:2"
	touches := func(at string) []string {
		return []string{at + ": " + only + "change a, which is not below a quota of namespace team-a; ask one of them"}
	}
	for _, c := range []struct {
		about, old, new string
		wants           []string
	}{
		{"a child", "", "team-a-z@team-a parent=a max=cpu:100", nil},
		{"a child of a child", "", "team-a-z@team-a parent=team-a-x", nil},
		{"for its namespace", "", "team-a@team-a parent=a namespaces=team-a", nil},
		{"a parent that does not exist is left to the rules", "", "team-a-z@team-a parent=nothing", nil},
		{"at the top", "", "team-a@team-a max=cpu:1000", []string{labelAt + "parent]: " + only + "put a quota at the top of a tree; ask one of them"}},
		{"below another's", "", "team-a-z@team-a parent=b", []string{labelAt + "parent]: " + only + "put a quota below b, which is of namespace team-b"}},
		{"below the administrators'", "", "team-a-z@team-a parent=all", []string{labelAt + "parent]: " + only + "put a quota below all, which is of namespace quota-system"}},
		{"lists another namespace", "", "team-a-z@team-a parent=a namespaces=team-a,team-d,team-e", []string{annotationAt + "namespaces]: " + only + "list namespaces other than team-a"}},
		{"exempt", "", "team-a-z@team-a parent=a allow-force-update=true", []string{labelAt + "allow-force-update]: " + only + "exempt a quota from the checks"}},
		{"a root", "", "team-a-z@team-a parent=a is-root=true", []string{labelAt + "is-root]: " + only + "make a quota the root of a tree"}},
		{"all at once", "", "q@team-a is-root=true allow-force-update=true namespaces=z", []string{
			annotationAt + "namespaces]", labelAt + "allow-force-update]", labelAt + "is-root]", labelAt + "parent]", "metadata.name"}},

		{"another's name", "", "team-b@team-a parent=a", []string{"metadata.name: " + only + "use a name that is neither team-a nor begins with team-a-"}},
		{"a free name", "", "q@team-a parent=a", []string{"metadata.name: " + only + "use a name that is neither"}},
		{"another's by the beginning", "", "team-ab@team-a parent=a", []string{"metadata.name: " + only + "use a name that is neither"}},
		{"the name of a longer namespace", "", "team-a-qa@team-a parent=a", []string{"metadata.name: " + only + "use a name that belongs to namespace team-a-qa"}},
		{"of a longer namespace", "", "team-a-qa-1@team-a parent=a", []string{"metadata.name: " + only + "use a name that belongs to namespace team-a-qa"}},
		{"nearly of a longer namespace", "", "team-a-qat@team-a parent=a", nil},
		{"the shorter namespace's, in the longer", "", "team-a-qa@team-a-qa parent=a", []string{labelAt + "parent]"}},
		{"awaited by another's child", "", "team-a-ghost@team-a parent=a", []string{"metadata.name: " + only + "use a name that quotas of other namespaces give as their parent"}},
		{"a reserved name", "", "koordinator-root-quota@koordinator", []string{"metadata.name: " + only + "use a name that is neither"}},

		{"its child grows", x, strings.Replace(x, "cpu:2", "cpu:200", 1), nil},
		{"its child moves within", y, strings.Replace(y, "team-a-x", "a", 1), nil},
		{"its child moves to another's", y, strings.Replace(y, "team-a-x", "b", 1), []string{labelAt + "parent]: " + only + "put a quota below b"}},
		{"its child moves to the top", y, strings.Replace(y, "parent=team-a-x", "", 1), []string{labelAt + "parent]: " + only + "put a quota at the top"}},
		{"its child lists another namespace", y, y + " namespaces=team-b", []string{annotationAt + "namespaces]"}},
		{"its child goes on listing it", y + " namespaces=team-b", y + " namespaces=team-b,team-a", nil},
		{"its child is exempt", y, y + " allow-force-update=true", []string{labelAt + "allow-force-update]"}},
		{"its child was exempt", y + " allow-force-update=true is-root=true", y + " allow-force-update=true is-root=true max=cpu:3", nil},
		{"its child loses an exemption", y + " is-root=true", y, nil},

		{"the boundary's max", a, strings.Replace(a, "cpu:4", "cpu:40", 1), touches("spec.max")},
		{"the boundary's max, with the weight that follows", a, strings.Replace(a, "cpu:4", "cpu:40", 1) + " shared-weight=cpu:40", touches("spec.max")},
		{"the boundary's min", a, strings.Replace(a, "min=cpu:1", "min=cpu:2", 1), touches("spec.min")},
		{"the boundary's admission", a, a + " admission=cpu:40", touches(annotationAt + "admission]")},
		{"the boundary's weight", a, a + " shared-weight=cpu:40", touches(annotationAt + "shared-weight]")},
		{"the boundary's namespaces", a, a + " namespaces=team-a", touches(annotationAt + "namespaces]")},
		{"the boundary's strict keys", a, a + " max-strict-check-resource-keys=cpu", touches(annotationAt + "max-strict-check-resource-keys]")},
		{"the boundary's is-parent", a, strings.Replace(a, "is-parent=true", "", 1), touches(labelAt + "is-parent]")},
		{"the boundary's tree", a, a + " tree-id=t", touches(labelAt + "tree-id]")},
		{"the boundary becomes a root", a, a + " is-root=true", touches(labelAt + "is-root]")},
		{"the boundary's force", a, a + " allow-force-update=true", touches(labelAt + "allow-force-update]")},
		{"the boundary moves to the top", a, strings.Replace(a, "parent=all", "", 1), touches(labelAt + "parent]")},
		{"the boundary moves below its own", a, strings.Replace(a, "parent=all", "parent=team-a-x", 1), touches(labelAt + "parent]")},
		{"the boundary's use and guarantee", a, a + " used=cpu:1 guaranteed=cpu:1", nil},
		{"a boundary at the top", "team-a@team-a max=cpu:1", "team-a@team-a max=cpu:2", []string{"spec.max: " + only + "change team-a, which"}},
		{"a quota without its parent", "team-a@team-a parent=gone max=cpu:1", "team-a@team-a parent=gone max=cpu:2", []string{"spec.max: " + only + "change team-a, which"}},

		{"a child goes", y, "", nil},
		{"the boundary goes", a, "", []string{"metadata.name: " + only + "delete a, which is not below a quota of namespace team-a; ask one of them"}},
		{"the boundary goes with its namespace", "l@leaving parent=all", "", nil},
	} {
		problems, err := tenantRules().Overreach(treeOf(t, tenancy), Change{quotaOf(t, c.old), quotaOf(t, c.new)})
		if err != nil {
			t.Errorf("%s: %v", c.about, err)
		}
		quotatest.WantTexts(t, c.about, told(Verdict{Problems: problems}), c.wants...)
	}
}

// TestOverreachUnknown: what is not known about namespaces is usher's own fault.
func TestOverreachUnknown(t *testing.T) {
	rules, unknown := calm(), errors.New("not listed yet")
	rules.HasNamespace = func(string) (bool, error) { return false, unknown }
	rules.NamespaceDeleting = rules.HasNamespace
	for about, c := range map[string]Change{
		"create": {New: quotaOf(t, "team-a-z@team-a parent=a")}, "delete": {Old: quotaOf(t, "a@team-a parent=all")},
	} {
		if _, err := rules.Overreach(treeOf(t, tenancy), c); !errors.Is(err, unknown) {
			t.Errorf("%s: %v", about, err)
		}
	}
}
