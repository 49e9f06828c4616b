package injection

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators/placement"
	"usher.dev/usher/test/configtest"
)

// TestApplying: the injections that apply are returned in order, and the namespace is asked for once.
func TestApplying(t *testing.T) {
	team := config.Selection{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}}
	app := config.Selection{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}
	all := Compile(Sidecars{{Name: "one", Selection: team}, {Name: "two", Selection: app}, {Name: "three", Selection: team}, {Name: "four"}})
	d, err := document.Parse([]byte(`{"metadata":{"labels":{"app":"web"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	ask := admit.Questions{Namespace: func(name string) (admit.Namespace, bool, error) {
		asked++
		return admit.Namespace{Labels: map[string]string{"team": strings.TrimPrefix(name, "team-")}}, true, nil
	}}
	applying, err := Applying(&admit.Request{Object: d, Namespace: "team-a"}, admit.AsPod(d), all, nil, ask)
	var names []string
	for _, in := range applying {
		names = append(names, in.Name)
	}
	if got := strings.Join(names, " "); err != nil || got != "one three four" || asked != 1 {
		t.Errorf("%s, asked %d times, %v", got, asked, err)
	}
}

// TestFill: a container without placeholders is the policy's own, and one with them is a copy.
func TestFill(t *testing.T) {
	c := corev1.Container{Name: "x", Args: []string{"a", "$(usher.namespace)", "$(POD)"}, Env: []corev1.EnvVar{{Name: "A", Value: "$(usher.owner)"}}}
	in := Compile(Sidecars{{Name: "one", Containers: []corev1.Container{c, {Name: "y", Args: []string{"b"}}}}})[0]
	d, err := document.Parse([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	req := &admit.Request{Object: d, Namespace: "ns"}
	x, err := in.Templates[0].Fill(req, admit.AsPod(d))
	if err != nil || strings.Join(x.Args, " ") != "a ns $(POD)" || x.Env[0].Value != "" || c.Args[1] != "$(usher.namespace)" {
		t.Errorf("%v %v %v, %v", x.Args, x.Env, c.Args, err)
	}
	y, err := in.Templates[1].Fill(req, admit.AsPod(d))
	if err != nil || y.Args[0] != "b" || !in.Names("y") || in.Names("z") {
		t.Errorf("%v, %v", y, err)
	}
}

// TestLeavesOut: which pods an injection is for, besides its selectors. Containers for Linux do not go into pods for Windows.
func TestLeavesOut(t *testing.T) {
	const (
		windows     = `{"spec":{"os":{"name":"windows"},"nodeSelector":{"kubernetes.io/os":"linux"}}}`
		byNode      = `{"spec":{"nodeSelector":{"kubernetes.io/os":"windows"}}}`
		onTheHost   = `{"spec":{"hostNetwork":true}}`
		ofASet      = `{"metadata":{"ownerReferences":[{"kind":"DaemonSet","controller":true}]}}`
		ownedByASet = `{"metadata":{"ownerReferences":[{"kind":"DaemonSet"}]}}`
		nodes       = `nodeSelector: {clusterDefault: {kubernetes.io/os: windows}}`
	)
	unannotated := admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) { return admit.Namespace{}, true, nil }}
	all := []string{windows, byNode, onTheHost, ofASet, ownedByASet}
	for _, c := range []struct {
		policy  string
		applies []string
	}{
		{`os: linux`, []string{onTheHost, ofASet, ownedByASet}},
		{``, []string{onTheHost, ofASet, ownedByASet}},
		{`os: windows`, []string{windows, byNode}},
		{`os: any`, []string{windows, byNode, onTheHost, ofASet, ownedByASet}},
		{`hostNetwork: true`, []string{onTheHost}},
		{`os: any, hostNetwork: false`, []string{windows, byNode, ofASet, ownedByASet}},
		{`ownerKinds: [DaemonSet, Job]`, []string{ofASet}},
		{`ownerKinds: [Pod]`, []string{onTheHost, ownedByASet}},
		{`exceptOwnerKinds: [DaemonSet]`, []string{onTheHost, ownedByASet}},
		{"\n" + nodes, nil},
		{"os: windows\n" + nodes, all},
		{"\nmodes: {node-selector: dryrun}\n" + nodes, []string{onTheHost, ofASet, ownedByASet}},
	} {
		injection, others, _ := strings.Cut(c.policy, "\n")
		policy := configtest.Parse(t, "sidecars: [{name: a, env: [{name: A}], "+injection+"}]\n"+others, Section, placement.Section, config.Section[admit.Modes]{Name: "modes"})
		injections := Compile(config.SectionOf[Sidecars](policy))
		for _, pod := range all {
			d, err := document.Parse([]byte(pod))
			if err != nil {
				t.Fatal(err)
			}
			applying, err := Applying(&admit.Request{Object: d}, admit.AsPod(d), injections, placement.Applied(policy), unannotated)
			if (len(applying) > 0) != slices.Contains(c.applies, pod) || err != nil || d.Err() != nil {
				t.Errorf("%s, %s: %d apply, %v, %v", c.policy, pod, len(applying), err, d.Err())
			}
		}
	}
}
