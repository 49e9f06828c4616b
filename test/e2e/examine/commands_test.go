package examine

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/e2e/binaries"
	"usher.dev/usher/e2e/kubetest"
)

// changed is what the command of a kind of findings may change, below the webhook that the finding is about; "" is all of it, and a | is
// between several.
var changed = map[string]string{
	"service-port-missing": "clientConfig/service/port",
	"ca-bundle-missing":    "clientConfig/caBundle", "ca-bundle-invalid": "clientConfig/caBundle", "ca-bundle-private-key": "clientConfig/caBundle",
	"ca-bundle-mismatch": "clientConfig/caBundle", "ca-bundle-stale": "clientConfig/caBundle",
	"registered-twice": "", "two-amplifiers": "",
	"usher-path-unknown": "clientConfig/service/path", "usher-path-differs": "clientConfig/service/path", "usher-registration-differs": "rules",
	"usher-not-registered": "", "usher-policy-unusable": "-", "usher-rights-missing": "-", "usher-replicas": "-",
	"fail-leases": "matchConditions", "fail-own-namespace": "matchConditions", "fail-kube-system": "matchConditions",
	"selector-no-effect": "namespaceSelector",
}

// without are the kinds whose command is not run here, with the reason.
var without = map[string]string{
	"service-headless": shows, "service-external-name": shows, "no-endpoints": shows, "no-ready-endpoints": shows, "url-invalid": shows,
	"url-host-unknown": shows, "connection-refused": shows, "plain-http": shows, "handshake-timeout": shows, "handshake-failed": shows,
	"certificate-usage": issued, "certificate-expired": issued, "certificate-not-yet-valid": issued, "certificate-common-name-only": issued,
	"certificate-name": issued, "certificate-expires-soon": issued, "ca-expired": issued, "ca-expires-soon": issued, "certificate-not-seen": shows,
	"policy-not-bound": shows, "policy-param-kind": shows, "policy-param-missing": shows, "rule-everything": shows, "rule-not-installed": shows, "not-readable": shows,
	"usher-not-deployed": shows, "usher-pods-refused": shows, "usher-disruption-budget": shows, "usher-idle": shows, "usher-steps-differ": shows, "some-endpoints-down": shows,
	"client-certificate-demanded": shows, "ca-source-missing": shows, "usher-policy-unusable": shows, "policy-refuses": shows,
	"match-condition-invalid": "the API server stores none", "side-effects": "the API server stores only None and NoneOnDryRun",
	"match-condition-never": shows, "match-condition-fails": shows, "fail-token-reviews": shows, "fail-nodes": shows, "fail-events": shows,
	"fail-control-plane": shows, "rule-unknown-resource": shows, "rule-wrong-group": shows, "rule-wrong-version": shows, "rule-wrong-scope": shows,
	"service-missing": shows, "koordinator-beside-usher": shows, "usher-leaves-out": shows, "selector-no-namespace": shows, "selector-near-miss": shows,
	"review-version-v1": shows, "pod-timeouts": shows, "timeout-long": shows, "policy-missing": shows,
	"rule-never-sent": shows, "object-selector-never": shows, "match-policy-exact": shows,
	"usher-servers-differ": "another server is found before, by its certificate; usherctl/doctor plants it in files",
	"pod-runs-again":       "the suite colocation is not registered here; the command is kubectl delete pod",
}

const (
	shows  = "the command only shows what a person has to correct"
	issued = "the command only shows the Secrets, apart from certificates that usher, cert-manager or OpenShift issues; test/e2e/certificates has usher's"
)

// ran are the kinds whose command has ended a finding.
var ran = map[string]bool{}

// correct runs the command of the first finding as it is printed. It fails the test unless the finding is gone then, no
// other has come, and nothing has changed but what the finding is about. A command that only shows something changes nothing.
func correct(ctx context.Context, t *testing.T, found []finding) {
	t.Helper()
	f := found[0]
	before := state(ctx, t)
	command := f.Fix + f.Look
	paste(ctx, t, command)
	after := state(ctx, t)
	if f.Fix == "" {
		if !maps.Equal(before, after) {
			t.Errorf("it should only show something: %s", command)
		}
		return
	}
	may, known := changed[f.ID]
	if !known {
		t.Fatalf("nothing says what the command of %s may change: %s", f.ID, command)
	}
	about := strings.NewReplacer(", webhook ", "/", " ", "/").Replace(f.Object) + "/"
	its := func(path string) bool {
		return slices.ContainsFunc(strings.Split(may, "|"), func(one string) bool { return strings.HasPrefix(path, about+one) })
	}
	for _, path := range differing(before, after) {
		if f.Object == "the cluster" && may != "-" && strings.Contains(path, "/"+may) || its(path) {
			continue
		}
		t.Errorf("%s changes %s from %q to %q", command, path, before[path], after[path])
	}
	err := kubetest.Eventually(ctx, func(ctx context.Context) error { // an authorizer follows later
		left, _ := doctor(ctx, t, cluster.AdminKubeconfig())
		for _, other := range left {
			same := func(was finding) bool { return was.ID == other.ID && was.Object == other.Object }
			if same(f) || !slices.ContainsFunc(found, same) {
				return fmt.Errorf("after %s: %+v", command, other)
			}
		}
		return nil
	})
	apply(t, err)
	ran[f.ID] = true
}

// paste runs a command in a shell, in a directory with a policy, with kubectl, and with usher and a person who says yes.
func paste(ctx context.Context, t *testing.T, command string) {
	t.Helper()
	kubectl, err := binaries.Find(binaries.Kubectl)
	apply(t, err)
	dir := t.TempDir()
	const usher = "#!/bin/sh\nyes=\n[ \"$1 $2\" = 'webhooks apply' ] && yes=--yes\nexec %s \"$@\" $yes\n"
	apply(t, os.WriteFile(filepath.Join(dir, "usher"), fmt.Appendf(nil, usher, binary), 0o700))
	apply(t, os.Symlink(usherctl, filepath.Join(dir, "usherctl")))
	out, err := cluster.RunProgram(ctx, "env", "KUBECONFIG="+cluster.AdminKubeconfig(), "KUBE_EDITOR=true", "PATH="+dir+":"+filepath.Dir(kubectl)+":"+os.Getenv("PATH"),
		"sh", "-c", "cd "+filepath.Join(cluster.Dir(), "etc-usher", "policy")+" && "+command)
	if err != nil {
		t.Fatalf("%s: %v %s", command, err, out)
	}
}

// state returns the values of all fields of webhook configurations and of the labels of namespaces.
func state(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, kind := range []string{"Mutating", "Validating"} {
		list, err := cluster.Admin().Get(ctx, registrations+strings.ToLower(kind)+"webhookconfigurations")
		apply(t, err)
		for _, c := range list.List("items") {
			at := kind + "WebhookConfiguration/" + c.String("metadata", "name")
			flatten(all, at+"/annotations", c.At("metadata", "annotations"))
			for _, w := range c.List("webhooks") {
				flatten(all, at+"/"+w.String("name"), map[string]any(w))
			}
		}
	}
	namespaces, err := cluster.Admin().Get(ctx, "/api/v1/namespaces")
	apply(t, err)
	for _, n := range namespaces.List("items") {
		flatten(all, "Namespace/"+n.String("metadata", "name"), n.At("metadata", "labels"))
	}
	return all
}

// flatten adds the fields of a value, each with its path.
func flatten(all map[string]string, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			flatten(all, path+"/"+key, field)
		}
	case []any:
		for i, field := range value {
			flatten(all, fmt.Sprintf("%s/%d", path, i), field)
		}
	case nil:
	default:
		all[path] = fmt.Sprint(value)
	}
}

// differing returns the paths of fields that differ.
func differing(before, after map[string]string) (paths []string) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if before[path] != after[path] {
			paths = append(paths, path)
		}
	}
	return paths
}
