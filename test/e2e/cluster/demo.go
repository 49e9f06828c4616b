package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"usher.dev/usher/e2e/binaries"
	"usher.dev/usher/e2e/kubetest"
)

// demo is the cluster and everything that runs with it.
type demo struct {
	options options
	out     io.Writer
	bold    bool

	root    string // of the repository, where the walk-through is run
	cluster *kubetest.Cluster
	usher   *kubetest.Usher
}

// start starts everything, and prints the beginning and the duration of each step.
func (d *demo) start(ctx context.Context) error {
	module, err := binaries.Module()
	if err != nil {
		return err
	}
	d.root = filepath.Dir(filepath.Dir(module))
	if err := built(); err != nil {
		return err
	}
	fmt.Fprintln(d.out, "Starting a Kubernetes cluster on this machine, all of it on 127.0.0.1.")
	for _, step := range []struct {
		does string
		run  func(context.Context) error
	}{
		{"etcd, API server, scheduler and controller manager", d.startControlPlane},
		{fmt.Sprintf("%d nodes: real kubelets, of 16 cores and 64Gi, with nothing below them", d.options.nodes), d.startNodes},
		{"deploy/crds, for the colocation suite", d.applyCRDs},
		{"usher, built from this tree", d.startUsher},
		{"deploy/base and the namespace apps", d.applyManifests},
		{"the webhook configurations", d.register},
		{"a folder for your PATH", d.linkPrograms},
	} {
		fmt.Fprintf(d.out, "  %s…", step.does)
		began := time.Now()
		stepCtx, cancel := context.WithTimeout(ctx, 3*time.Minute)
		err := step.run(stepCtx)
		cancel()
		if err != nil {
			fmt.Fprintln(d.out)
			return err
		}
		fmt.Fprintf(d.out, " %.1fs\n", time.Since(began).Seconds())
	}
	return nil
}

// built checks for all programs first, so that a missing one is reported before anything runs.
func built() error {
	for _, name := range binaries.All {
		if _, err := binaries.Find(name); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) startControlPlane(ctx context.Context) (err error) {
	d.cluster, err = kubetest.Start(ctx, kubetest.Options{Scheduler: true, ControllerManager: true})
	return err
}

// startNodes omits the label by which a node opts in, because setting it is a step of the walk-through.
func (d *demo) startNodes(ctx context.Context) error {
	for i := range d.options.nodes {
		if _, err := d.cluster.StartHollow(ctx, fmt.Sprintf("node-%d", i+1), kubetest.HollowOptions{}); err != nil {
			return err
		}
	}
	_, err := d.cluster.Kubectl(ctx, "wait", "node", "--all", "--for=condition=Ready", "--timeout=1m")
	return err
}

// applyCRDs makes the kinds known before usher starts: later it would look for them only every 15 s.
func (d *demo) applyCRDs(ctx context.Context) error {
	if err := d.cluster.ApplyDeploy(ctx, "deploy/crds"); err != nil {
		return err
	}
	_, err := d.cluster.Kubectl(ctx, "wait", "crd", "--all", "--for=condition=Established", "--timeout=1m")
	return err
}

func (d *demo) startUsher(ctx context.Context) (err error) {
	policy, err := kubetest.ReadFile("deploy/overlays/demo/policy.yaml")
	if err != nil {
		return err
	}
	asked := kubetest.UsherOptions{Replicas: 2, PolicyFile: d.options.policy, Policy: policy}
	if d.options.record != "" { // each replica would need a file of its own
		asked.Replicas, asked.Flags = 1, []string{"--record=" + d.options.record}
	}
	options, err := d.cluster.Watching(asked)
	if err != nil {
		return err
	}
	d.usher, err = d.cluster.StartUsher(ctx, options)
	return err
}

// applyManifests applies the manifests of a real cluster. Only the Deployment is scaled to no pods: nothing would run
// in them, and usher runs outside the cluster.
func (d *demo) applyManifests(ctx context.Context) error {
	base, err := d.cluster.RenderDeploy(ctx, "deploy/base")
	if err != nil {
		return err
	}
	none := strings.Replace(base, "\n  replicas: 2\n", "\n  replicas: 0\n", 1)
	if none == base {
		return errors.New("deploy/base has no Deployment with 2 replicas any more: fix test/e2e/cluster/demo.go")
	}
	if err := d.cluster.Apply(ctx, none); err != nil {
		return err
	}
	_, err = d.cluster.Kubectl(ctx, "apply", "-f", "deploy/demo/namespace.yaml")
	return err
}

// register also writes the configurations to a file, with which the walk-through restores them.
func (d *demo) register(ctx context.Context) error {
	configurations, err := d.usher.Webhooks(ctx)
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.webhooksFile(), []byte(configurations), 0o600); err != nil {
		return err
	}
	if err := d.usher.RegisterThese(ctx, configurations); err != nil {
		return err
	}
	_, err = d.cluster.Kubectl(ctx, "delete", "namespace", "usher-e2e-probe", "--wait=false") // where the webhooks were probed
	return err
}

func (d *demo) webhooksFile() string { return filepath.Join(d.cluster.Dir(), "webhooks.yaml") }
func (d *demo) binFolder() string    { return filepath.Join(d.cluster.Dir(), "bin") }

func (d *demo) linkPrograms(ctx context.Context) error {
	kubectl, err := binaries.Find(binaries.Kubectl)
	if err != nil {
		return err
	}
	if err := os.Mkdir(d.binFolder(), 0o700); err != nil {
		return err
	}
	if err := os.Symlink(kubectl, filepath.Join(d.binFolder(), "kubectl")); err != nil {
		return err
	}
	if err := os.Symlink(d.usher.Binary(), filepath.Join(d.binFolder(), "usher")); err != nil {
		return err
	}
	usherctl, err := d.cluster.BuildUsherctl(ctx)
	if err != nil {
		return err
	}
	if err := os.Symlink(usherctl, filepath.Join(d.binFolder(), "usherctl")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.binFolder(), "try-policy"), []byte(d.tryPolicy()), 0o700)
}

// tryPolicy returns the program with which the pages of docs/ make usher serve a policy of the samples. It replaces the
// policy file, which is not done to a file of the user.
func (d *demo) tryPolicy() string {
	if d.options.policy != "" {
		return "#!/bin/sh\necho try-policy: usher serves " + quoted(d.options.policy) + ". Edit it, or start the cluster without -policy. >&2\nexit 2\n"
	}
	var logs []string
	for _, r := range d.usher.Replicas {
		logs = append(logs, quoted(filepath.Join(d.cluster.Dir(), r.Name+".log")))
	}
	return strings.NewReplacer("{URL}", d.usher.URL, "{CA_FILE}", quoted(d.usher.CAFile), "{POLICY}", quoted(d.usher.PolicyFile()),
		"{LOGS}", strings.Join(logs, " "), "{REPLICAS}", fmt.Sprint(len(logs))).Replace(tryPolicy)
}

const tryPolicy = `#!/bin/sh
set -eu
case ${1:-} in "" | -*)
	cat >&2 <<-END
	usage: try-policy FILE [FLAG...], such as try-policy samples/policies/restrictions.yaml

	makes usher serve a copy of FILE, and registers its webhooks for it. After a change of FILE, run it again.
	Flags are those of "usher webhooks". To return to the first policy: try-policy deploy/overlays/demo/policy.yaml
	END
	exit 2
esac
policy=$1
shift
configurations=$(usher webhooks --config "$policy" --url {URL} --ca-file {CA_FILE} "$@")
loads() { cat {LOGS} | grep -c "policy in force" || true; }
before=$(loads)
if ! cmp -s "$policy" {POLICY}; then
	cat "$policy" >{POLICY}.new
	mv {POLICY}.new {POLICY} # at once, so that usher reads all of it
	tries=0
	until [ "$(loads)" -ge $((before + {REPLICAS})) ]; do
		tries=$((tries + 1))
		[ $tries -lt 150 ] || { echo "usher does not take up $policy: see its logs, {LOGS}" >&2; exit 1; }
		sleep 0.2
	done
fi
printf '%s\n' "$configurations" | kubectl apply -f - >/dev/null
sleep 2 # until the API server has noticed
echo "usher serves $policy, and is registered for it"
`

// stay waits until it is asked to stop, or until a process ends unexpectedly.
func (d *demo) stay(ctx context.Context) error {
	for {
		if ended := d.cluster.Ended(); len(ended) > 0 {
			return fmt.Errorf("%s ended unasked\n%s", strings.Join(ended, ", "), d.cluster.LogsOf(15, ended...))
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil
		}
	}
}

func (d *demo) close() {
	if d.cluster == nil {
		return
	}
	fmt.Fprintln(d.out, "\nstopping, and removing", d.cluster.Dir())
	if d.usher != nil {
		d.usher.Stop()
	}
	if err := d.cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
	}
}
