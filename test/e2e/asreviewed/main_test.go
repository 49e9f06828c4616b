// Package asreviewed tests what `usherctl review` says against what happens: objects and policies are drawn at random, reviewed as files,
// and sent to an API server with usher registered for the same policy.
package asreviewed

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/e2e/kubetest"
)

var (
	cluster *kubetest.Cluster
	usher   *kubetest.Usher
)

func TestMain(m *testing.M) { kubetest.Main(m, kubetest.Options{ServiceAccounts: true}, start) }

func start(ctx context.Context, c *kubetest.Cluster) error {
	cluster = c
	options, err := cluster.Watching(kubetest.UsherOptions{Policy: "{}", Flags: []string{"--shutdown-delay=0s"}})
	if err != nil {
		return err
	}
	usher, err = cluster.StartUsher(ctx, options)
	return err
}

// serve starts usher anew with a policy, and registers it for what `usher webhooks` prints for that with the flags.
func serve(ctx context.Context, t *testing.T, policy string, round int, flags ...string) {
	t.Helper()
	unregister(ctx, t)
	if err := usher.SetPolicy(policy); err != nil {
		t.Fatal(err)
	}
	usher.Replicas[0].Kill()
	if err := kubetest.Eventually(ctx, func(context.Context) error { return gone() }); err != nil {
		t.Fatal(err)
	}
	if err := usher.Replicas[0].Start(ctx); err != nil {
		t.Fatalf("%v, with\n%s", err, policy)
	}
	if err := usher.Balancer.Wait(ctx, 1); err != nil {
		t.Fatal(err)
	}
	printed, err := usher.Webhooks(ctx, flags...)
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.SplitSeq(printed, "\n---\n") {
		var o kubetest.Object
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		if kind := o.String("kind"); kind != "" {
			create(ctx, t, configurations+strings.ToLower(kind)+"s", o)
		}
	}
	awaitLatest(ctx, t, round)
}

func gone() error {
	if usher.Balancer.Ready() > 0 {
		return fmt.Errorf("the balancer still has the former replica")
	}
	return nil
}

const configurations = "/apis/admissionregistration.k8s.io/v1/"

// marks are the resources whose creations are refused by a mark, for each kind of configuration.
var marks = map[string]string{"Mutating": "coordination.k8s.io/v1/leases", "Validating": "discovery.k8s.io/v1/endpointslices"}

func unregister(ctx context.Context, t *testing.T) {
	t.Helper()
	for kind := range marks {
		if _, err := cluster.Admin().Delete(ctx, configurations+strings.ToLower(kind)+"webhookconfigurations"); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitLatest waits until the API server acts by all configurations that were written before: a mark that is created after them,
// which cannot be called and refuses, is in effect.
func awaitLatest(ctx context.Context, t *testing.T, round int) {
	t.Helper()
	for kind, resource := range marks {
		group, plural := resource[:strings.Index(resource, "/")], resource[strings.LastIndex(resource, "/")+1:]
		name := fmt.Sprintf("mark-%d.example.com", round)
		create(ctx, t, configurations+strings.ToLower(kind)+"webhookconfigurations", kubetest.Decode(fmt.Sprintf(`{"apiVersion": "admissionregistration.k8s.io/v1",
			"kind": "%sWebhookConfiguration", "metadata": {"name": "zz-mark"}, "webhooks": [{"name": %q, "clientConfig": {"url": "https://127.0.0.1:1/"},
			"rules": [{"apiGroups": [%q], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [%q]}], "sideEffects": "None", "admissionReviewVersions": ["v1"],
			"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}]}`, kind, name, group, plural)))
		probe := `{"metadata": {"name": "probe"}, "addressType": "IPv4", "endpoints": []}`
		path := "/apis/" + strings.TrimSuffix(resource, plural) + "namespaces/default/" + plural + "?dryRun=All"
		if err := kubetest.Eventually(ctx, func(ctx context.Context) error {
			answer, err := cluster.Admin().Do(ctx, "POST", path, "application/json", probe)
			if err == nil && !strings.Contains(string(answer.Body), name) {
				err = fmt.Errorf("not refused by %s: %s", name, answer.Body)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func create(ctx context.Context, t *testing.T, path string, object kubetest.Object) {
	t.Helper()
	if _, err := cluster.Admin().Create(ctx, path, object); err != nil {
		t.Fatal(err)
	}
}

var counted = regexp.MustCompile(`(?m)^usher_reviews_total\{operation="[A-Z]+",outcome="([a-z]+)",route="([^"]+)"\} (\S+)$`)

// counts reads how many reviews each route of usher has answered, by outcome: "/validate-pods denied".
func counts(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	text := ""
	if err := kubetest.Eventually(ctx, func(ctx context.Context) (err error) { // a read may take longer than it waits, on a busy machine
		_, text, err = usher.Replicas[0].Get(ctx, "/metrics")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, m := range counted.FindAllStringSubmatch(text, -1) {
		all[m[2]+" "+m[1]] = m[3]
	}
	return all
}
