package examine

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestResourcesOfFiles: without a cluster, usher knows all resources that the API server serves: a rule in a file for
// each of them has no fault.
func TestResourcesOfFiles(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	admin := cluster.Admin()
	groups, err := admin.Get(ctx, "/apis")
	apply(t, err)
	paths := []string{"/api/v1"}
	for _, group := range groups.List("groups") {
		if name := group.String("name"); name == "apps" || strings.HasSuffix(name, ".k8s.io") || !strings.Contains(name, ".") {
			paths = append(paths, "/apis/"+group.String("preferredVersion", "groupVersion"))
		}
	}
	w := healthy.webhook("all")
	w["rules"] = nil
	count := 0
	for _, path := range paths {
		list, err := admin.Get(ctx, path)
		apply(t, err)
		group, version, found := strings.Cut(list.String("groupVersion"), "/")
		if !found {
			group, version = "", group
		}
		for _, r := range list.List("resources") {
			name := r.String("name")
			verbs := strings.Join(texts(r.At("verbs")), " ")
			operation := "UPDATE"
			switch _, sub, _ := strings.Cut(name, "/"); {
			case sub == "exec" || sub == "attach" || sub == "portforward" || sub == "proxy":
				operation = "CONNECT"
			case strings.Contains(verbs, "update") || strings.Contains(verbs, "patch"):
			case strings.Contains(verbs, "create"):
				operation = "CREATE"
			default:
				continue // it is never written
			}
			if slices.Contains([]string{"admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io"}, group) {
				continue // it is sent to no webhook, the reviews of tokens and access since 1.37
			}
			scope := "Cluster"
			if r.At("namespaced") == true {
				scope = "Namespaced"
			}
			before, _ := w["rules"].([]any)
			for _, rule := range rules(group, version, name, operation, scope) {
				before = append(before, rule)
			}
			w["rules"] = before
			count++
		}
	}
	if count < 80 {
		t.Fatalf("only %d resources", count)
	}
	dir := t.TempDir()
	apply(t, os.WriteFile(dir+"/all.json", []byte(encode(configuration("Validating", "all", w))), 0o600))
	out, _ := cluster.RunProgram(ctx, usherctl, "doctor", "--cluster-dir="+dir)
	if strings.Contains(out, "rule-") || !strings.Contains(out, "1 webhook in 1 configuration: ") {
		t.Error(out)
	}
	t.Logf("%d resources: %s", count, out)
}

func texts(list any) (all []string) {
	for _, one := range list.([]any) {
		all = append(all, one.(string))
	}
	return all
}
