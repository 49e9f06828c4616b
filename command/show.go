package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"usher.dev/usher/internal/answer"
	"usher.dev/usher/internal/cli"
)

// showCommand is `usher show`: what curl brought back, readable.
func (p Program) showCommand() *cobra.Command {
	return &cobra.Command{Use: "show [FILE]",
		Short: "print the AdmissionReview that a server returned, read from a file or standard input, in readable form",
		Example: "  # while usher serves in another terminal\n" +
			"  curl -sS --cacert .state/ca.crt -H 'Content-Type: application/json' -d @samples/reviews/validate-pods/denied-names.json " +
			"https://127.0.0.1:9443/validate-pods | usher show",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			in, err := p.streams().OpenFile(append(files, "-")[0])
			if err != nil {
				return err
			}
			defer func() { _ = in.Close() }()
			allowed, err := answer.Print(in, p.Out, p.streams().Style())
			if err == nil && !allowed {
				return cli.ErrDenied
			}
			return err
		}}
}

func (p Program) streams() cli.Streams { return cli.Streams{In: p.In, Out: p.Out, Err: p.Err} }

// movedCommands are those that were usher's: of usherctl, or gone.
func movedCommands() []*cobra.Command {
	all := []*cobra.Command{moved("quota", "`kubectl get elasticquotas`, or for manifests `usherctl review --cluster=api FILE`,")}
	for _, name := range []string{"review", "test", "steps", "schema", "new", "doctor", "explain", "learn", "playground"} {
		all = append(all, moved(name, "`usherctl "+name+"`"))
	}
	return all
}

func moved(name, to string) *cobra.Command {
	return &cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error {
		return fmt.Errorf("this is %s now; make install, and each release, has both programs", to)
	}}
}
