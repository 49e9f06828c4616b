package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/command/flags"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
)

// webhooksOptions are the flags of usher webhooks.
type webhooksOptions struct {
	registrationFlags
	compare      string
	rbac, static bool
	staticDir    string
	certs        string
	out          string
}

// webhooksCommand is `usher webhooks`: the configurations that make an API server call usher, or the rights that usher
// needs there.
func (p Program) webhooksCommand() *cobra.Command {
	var o webhooksOptions
	c := &cobra.Command{Use: "webhooks [flags]", Short: "print the webhook configurations for an API server, or register them", Args: cli.NoArgs,
		Example: `  # what your policy needs
  usher webhooks --config samples/policy.yaml
  # the rights of usher serve --cluster=api
  usher webhooks --rbac`}
	o.addTo(c.Flags(), p.Suites)
	suites := flags.AddSuites(c, p.Suites, false, p.Err)
	p.Suites = suites.List
	c.MarkFlagsMutuallyExclusive("compare", "rbac", "static")
	c.RunE = func(c *cobra.Command, _ []string) error {
		gates, err := suites.Parsed("files")
		if err != nil {
			return err
		}
		if (o.out != "" || c.Flags().Changed("static-dir")) && !o.static {
			return errors.New("--out and --static-dir go with --static")
		}
		if o.certs != "local" && (o.certs != "managed" || !o.rbac) {
			return fmt.Errorf("--certs %s: with --rbac, local or managed", o.certs)
		}
		if o.certs == "managed" {
			at, err := webhooks.NewAddress(o.service, "", "")
			if err != nil {
				return err
			}
			return writeYAML(p.Out, certificateRights(at.Namespace, o.user)...)
		}
		if o.rbac {
			served := p.Suites
			if c.Flags().Changed("suite") {
				if served, err = p.Suites.Named(o.suites); err != nil {
					return err
				}
			}
			return writeYAML(p.Out, clusterRole(served, suite.Instance{Suites: served, Policy: suite.NoPolicy, Gates: gates}.Routes()))
		}
		return p.printWebhooks(o, gates)
	}
	c.AddCommand(p.webhooksApplyCommand(), p.webhooksRemoveCommand(), goneCommand("save", saving), goneCommand("restore", saving))
	return c
}

// saving replaces usher webhooks save and restore.
const saving = "kubectl does it, as docs/operations.md says under Save and restore"

// goneCommand is a command that was once, and now only says what replaces it.
func goneCommand(name, instead string) *cobra.Command {
	return &cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true, RunE: func(c *cobra.Command, _ []string) error {
		return fmt.Errorf("%s is gone: %s", c.CommandPath(), instead)
	}}
}

func (o *webhooksOptions) addTo(set *pflag.FlagSet, suites suite.List) {
	o.registrationFlags.addTo(set, suites, "no caBundle")
	set.StringVar(&o.compare, "compare", "", "file with the registered configurations, or - for standard input: print how they differ from what is "+
		"needed, instead of configurations; the exit code is 1 if they do")
	set.BoolVar(&o.rbac, "rbac", false,
		"print the ClusterRole that usher serve --cluster=api needs, with the same --suite if any, instead of webhook configurations")
	set.StringVar(&o.certs, "certs", "local",
		"with --rbac: managed prints the Role, the ClusterRole and the bindings that usher serve --certs=managed needs")
	set.BoolVar(&o.static, "static", false, "print files for the API server's --admission-control-config-file instead: "+
		"it then calls usher from its first request, and the configurations cannot be changed through the API; needs --url")
	set.StringVar(&o.staticDir, "static-dir", "/etc/kubernetes/usher", "with --static: the directory where the API server finds the files")
	set.StringVar(&o.out, "out", "", "with --static: directory to write the files to (default: they are printed)")
}

func (p Program) printWebhooks(o webhooksOptions, gates gate.Set) error {
	served, at, err := p.needed(o.registrationFlags, gates)
	switch {
	case err != nil:
		return err
	case o.compare != "":
		return p.compareWebhooks(webhooks.HooksOf(served, at), o)
	case o.static:
		return p.printStatic(served, at, o)
	}
	return writeYAML(p.Out, webhooks.Mutating(served, at), webhooks.Validating(served, at))
}

// compareWebhooks prints how the registered webhooks differ from those that are needed.
func (p Program) compareWebhooks(needed []webhooks.Hook, o webhooksOptions) error {
	registered, err := webhooks.ReadRegistered(o.compare, p.In)
	if err != nil {
		return err
	}
	lines := webhooks.Differences(needed, registered)
	for _, line := range lines {
		if _, err := fmt.Fprintln(p.Out, printable.Line(line)); err != nil {
			return err
		}
	}
	if len(lines) > 0 {
		return cli.ErrDenied
	}
	same := "the registered webhooks are those that are needed"
	if o.caFile == "" {
		same += "; not looked at: their caBundles, which --ca-file compares"
	}
	_, err = fmt.Fprintln(p.Out, same)
	return err
}

// printStatic prints, or writes, the files of manifest-based admission.
func (p Program) printStatic(served []admit.Route, at webhooks.Address, o webhooksOptions) error {
	files, err := webhooks.Static(served, at, o.staticDir)
	if err != nil {
		return err
	}
	for i, file := range files {
		text := bytes.NewBufferString("# " + path.Join(o.staticDir, file.Name) + ": " + file.Purpose + "\n")
		if err := writeYAML(text, file.Object); err != nil {
			return err
		}
		if o.out != "" {
			err = p.writeFile(filepath.Join(o.out, file.Name), text.Bytes())
		} else {
			if i > 0 {
				_, _ = fmt.Fprintln(p.Out, "---")
			}
			_, err = p.Out.Write(text.Bytes())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file and its directory, and says so.
func (p Program) writeFile(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, content, 0o644); err != nil {
		return err
	}
	_, err := fmt.Fprintln(p.Out, file)
	return err
}

// clusterRole returns usher's rights with --cluster=api.
func clusterRole(s suite.List, served []admit.Route) rbacv1.ClusterRole {
	return rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: webhooks.Meta(),
		Rules:      s.Rights(served),
	}
}

func writeYAML(to io.Writer, objects ...any) error {
	for i, object := range objects {
		text, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := to.Write(text); err != nil {
			return err
		}
	}
	return nil
}
