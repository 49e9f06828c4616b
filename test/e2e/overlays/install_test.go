package overlays

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"usher.dev/usher/e2e/kubetest"
)

// installation is an overlay that is installed.
type installation struct {
	name    string
	objects []kubetest.Object
	folder  string // in place of /etc/usher

	mu    sync.Mutex
	ready []string // the addresses of the replicas that are ready
	pods  []*kubetest.Process
}

// install applies an overlay. Its namespace and its Service exist before, so that the API server can be led to the
// replicas.
func install(ctx context.Context, t *testing.T, name string) *installation {
	t.Helper()
	i := &installation{name: name, folder: t.TempDir()}
	if err := cluster.ServeService(ctx, "usher", "usher", i.backend); err != nil {
		t.Fatal(err)
	}
	var err error
	if i.objects, err = cluster.Rendered(ctx, "deploy/overlays/"+name); err != nil {
		t.Fatal(err)
	}
	var manifests []string
	for _, o := range i.objects {
		manifests = append(manifests, strings.ReplaceAll(kubetest.Encode(o), "API-SERVER-CIDR", "127.0.0.1")) // what a user fills in
	}
	cluster.MustApply(ctx, t, strings.Join(manifests, "\n---\n"))
	i.podsAreAccepted(ctx, t)
	i.write(t, "policy/policy.yaml", i.object("ConfigMap", "usher-policy").String("data", "policy.yaml"))
	return i
}

// podsAreAccepted waits until the pods of the Deployment and of the Job exist, which PodSecurity and the quota allow,
// and then removes them, because no kubelet would start them.
func (i *installation) podsAreAccepted(ctx context.Context, t *testing.T) {
	t.Helper()
	replicas := int(i.object("Deployment", "usher").At("spec", "replicas").(float64))
	for label, want := range map[string]int{"usher": replicas, "usher-webhooks": 1} {
		err := kubetest.Eventually(ctx, func(ctx context.Context) error {
			list, err := cluster.Admin().Get(ctx, "/api/v1/namespaces/usher/pods?labelSelector=app.kubernetes.io/name%3D"+label)
			if err == nil && len(list.List("items")) != want {
				err = fmt.Errorf("%d pods of %s, want %d", len(list.List("items")), label, want)
			}
			return err
		})
		if err != nil {
			events, _ := cluster.Kubectl(context.WithoutCancel(ctx), "-n", "usher", "get", "events")
			t.Fatalf("%v\n%s", err, events)
		}
	}
	for _, command := range []string{"scale deployment/usher --replicas=0", "delete job/usher-webhooks"} {
		if _, err := cluster.Kubectl(ctx, append([]string{"-n", "usher"}, strings.Fields(command)...)...); err != nil {
			t.Fatal(err)
		}
	}
}

// object returns an object of the overlay.
func (i *installation) object(kind, name string) kubetest.Object {
	for _, o := range i.objects {
		if o.String("kind") == kind && o.String("metadata", "name") == name {
			return o
		}
	}
	return nil
}

// args returns the arguments of a container, with the directories of this machine and ports that are free.
func (i *installation) args(kind, name string) (args []string) {
	for _, arg := range i.object(kind, name).List("spec", "template", "spec", "containers")[0].At("args").([]any) {
		switch text := strings.ReplaceAll(arg.(string), "/etc/usher", i.folder); {
		case strings.HasPrefix(text, "--listen=:"), strings.HasPrefix(text, "--ops-listen=:"):
			flag, _, _ := strings.Cut(text, "=")
			args = append(args, flag+"=127.0.0.1:0")
		case strings.HasPrefix(text, "--shutdown-delay="):
			args = append(args, "--shutdown-delay=2s")
		default:
			args = append(args, text)
		}
	}
	return args
}

// credentials returns the environment of a pod: a kubeconfig for its service account, or nothing if it mounts no token.
func (i *installation) credentials(ctx context.Context, t *testing.T, kind, name string) string {
	t.Helper()
	spec := kubetest.Object(i.object(kind, name).At("spec", "template", "spec").(map[string]any))
	if spec.At("automountServiceAccountToken") != true {
		return "KUBECONFIG=/dev/null"
	}
	file, err := cluster.ServiceAccountKubeconfig(ctx, "usher", spec.String("serviceAccountName"))
	if err != nil {
		t.Fatal(err)
	}
	return "KUBECONFIG=" + file
}

// serve starts two replicas and waits until they are ready; the Service then leads to them.
func (i *installation) serve(ctx context.Context, t *testing.T) {
	t.Helper()
	env := i.credentials(ctx, t, "Deployment", "usher")
	for n := range 2 {
		p, err := cluster.StartProgram(fmt.Sprintf("usher-%s-%d", i.name, n), "env", append([]string{env, binary}, i.args("Deployment", "usher")...)...)
		if err != nil {
			t.Fatal(err)
		}
		i.pods = append(i.pods, p)
	}
	for _, p := range i.pods {
		var address string
		err := kubetest.Eventually(ctx, func(ctx context.Context) (err error) {
			if !p.Running() {
				t.Fatalf("%s has ended: %s", p.Name, p.Tail(10))
			}
			address, err = readyAt(ctx, p.Log())
			return err
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, p.Tail(10))
		}
		i.mu.Lock()
		i.ready = append(i.ready, address)
		i.mu.Unlock()
	}
	i.endpoints(ctx, t, true)
}

// readyAt returns where a replica serves reviews, once it is ready.
func readyAt(ctx context.Context, log string) (string, error) {
	for line := range strings.Lines(log) {
		var serving struct{ Msg, Reviews, Operations string }
		if json.Unmarshal([]byte(line), &serving) != nil || serving.Msg != "serving" {
			continue
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+serving.Operations+"/readyz", nil)
		if err != nil {
			return "", err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", err
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return "", fmt.Errorf("/readyz: %s", answer.Status)
		}
		return serving.Reviews, nil
	}
	return "", fmt.Errorf("it does not serve yet")
}

// backend returns the address of a replica, or "".
func (i *installation) backend() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.ready) == 0 {
		return ""
	}
	return i.ready[rand.IntN(len(i.ready))]
}

// endpoints sets whether the Service has a ready endpoint.
func (i *installation) endpoints(ctx context.Context, t *testing.T, ready bool) {
	t.Helper()
	cluster.MustApply(ctx, t, fmt.Sprintf(`{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata": {"name": "by-hand", "namespace": "usher", "labels": {"kubernetes.io/service-name": "usher"}},
		"ports": [{"name": "https", "port": 9443}],
		"endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": %t}}]}`, ready))
}

// register runs the Job's pod.
func (i *installation) register(ctx context.Context, t *testing.T) string {
	t.Helper()
	env := i.credentials(ctx, t, "Job", "usher-webhooks")
	out, err := cluster.RunProgram(ctx, "env", append([]string{env, binary}, i.args("Job", "usher-webhooks")...)...)
	if err != nil {
		t.Fatal(out, err)
	}
	return out
}

// uninstall does what deploy/README.md says, in this order: the configurations, the overlay.
func (i *installation) uninstall(ctx context.Context, t *testing.T) {
	t.Helper()
	if out, err := cluster.RunProgram(ctx, binary, "webhooks", "remove", "--yes", "--kubeconfig="+cluster.AdminKubeconfig()); err != nil || strings.Count(out, "removed") != 2 {
		t.Errorf("%s %v", out, err)
	}
	called(ctx, t, false)
	i.mu.Lock()
	i.ready = nil
	i.mu.Unlock()
	var ending sync.WaitGroup
	for _, p := range i.pods {
		ending.Go(func() {
			if err := p.Terminate(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	ending.Wait()
	for _, kind := range []string{"namespace/usher", "clusterrole,clusterrolebinding -l app.kubernetes.io/name=usher"} {
		if _, err := cluster.Kubectl(ctx, append([]string{"delete", "--ignore-not-found"}, strings.Fields(kind)...)...); err != nil {
			t.Error(err)
		}
	}
}

// write writes a file below what stands for /etc/usher.
func (i *installation) write(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join(i.folder, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// issue does the work of a controller that issues the certificate: it creates the Secret, which a kubelet then mounts.
// It returns the CA.
func (i *installation) issue(ctx context.Context, t *testing.T, withCA bool) (ca string) {
	t.Helper()
	dir := t.TempDir()
	if out, err := cluster.RunProgram(ctx, binary, "certs", "init", "--service=usher/usher", "--out="+dir+"/certs"); err != nil {
		t.Fatal(out, err)
	}
	data := kubetest.Object{}
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		text, err := os.ReadFile(filepath.Join(dir, "certs", name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "ca.crt" {
			ca = base64.StdEncoding.EncodeToString(text)
		}
		if name != "ca.crt" || withCA {
			i.write(t, "certs/"+name, string(text))
			data[name] = text
		}
	}
	cluster.MustApply(ctx, t, kubetest.Encode(kubetest.Object{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
		"metadata": kubetest.Object{"name": "usher-tls", "namespace": "usher"}, "data": data}))
	return ca
}
