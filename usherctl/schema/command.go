package schema

import (
	"slices"

	"github.com/spf13/cobra"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/samples"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/tool"
)

const help = `Print the JSON Schema of a kind of file, for an editor that completes and checks it. Write it beside your files, and begin each of them
with a line that names it, which editors with the YAML language server read:

  usherctl schema policy
  # yaml-language-server: $schema=policy.schema.json

usher itself checks more than a schema can say. docs/policy.md has every field of a policy.`

// Command is `usherctl schema`. cases returns the schema of the cases of usherctl test.
func Command(env tool.Env, cases func(Words) *Node) *cobra.Command {
	c := &cobra.Command{Use: "schema", Short: "print the JSON Schema of a kind of file, for editors", Long: help, Args: cli.NoArgs,
		Example: "  # for an editor\n  usherctl schema policy",
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() }}
	for _, kind := range []struct {
		name, short string
		of          func() *Node
	}{
		{"policy", "print the JSON Schema of the policy file", func() *Node { return PolicyOf(env) }},
		{"case", "print the JSON Schema of the cases of usherctl test", func() *Node { return cases(wordsOf(env)) }},
	} {
		c.AddCommand(&cobra.Command{Use: kind.name, Short: kind.short, Args: cli.NoArgs, Example: "  usherctl schema " + kind.name,
			RunE: func(*cobra.Command, []string) error {
				_, err := env.Out.Write(kind.of().JSON())
				return err
			}})
	}
	return c
}

// PolicyOf returns the schema of the policy file, with the names that the suites know.
func PolicyOf(env tool.Env) *Node {
	return Policy(env.Suites.Schema(), wordsOf(env), []byte(samples.Policy()))
}

// wordsOf returns the names that the program knows.
func wordsOf(env tool.Env) Words {
	words := Words{"suite": env.Suites.Names()}
	words["step"], _ = env.Suites.Steps()
	gates := gate.Defaults(env.Suites.Gates())
	for _, route := range env.Suites.Table(suite.NoPolicy, gates) {
		words["route"] = append(words["route"], route.Path)
	}
	for _, g := range env.Suites.Gates() {
		words["gate"] = append(words["gate"], string(g.Name))
	}
	for _, names := range words {
		slices.Sort(names)
	}
	return words
}
