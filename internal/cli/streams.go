package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"usher.dev/usher/internal/answer"
	"usher.dev/usher/internal/printable"
)

// Streams are the input, output and error output of a command.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Say prints lines. They may have texts of others, such as the subject of a CA in a caBundle.
func (s Streams) Say(lines ...string) {
	for _, line := range lines {
		_, _ = fmt.Fprintln(s.Out, printable.Line(line))
	}
}

// Confirm asks a person. Without a terminal there must be --yes.
func (s Streams) Confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !IsTerminal(s.In) {
		return errors.New("standard input is no terminal, so there is no answer: pass --yes to continue without a question")
	}
	_, _ = fmt.Fprint(s.Out, question+" [y/N] ")
	answer, _ := bufio.NewReader(s.In).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	s.Say("nothing was done")
	return ErrDenied
}

var commit string // set by the linker in builds that do not record it

// VersionCommand prints the version of a program, and the commit that it was built from if that is known.
func (s Streams) VersionCommand(program, version string) *cobra.Command {
	from := map[string]string{"vcs.revision": commit}
	if info, ok := debug.ReadBuildInfo(); ok && commit == "" {
		for _, of := range info.Settings {
			from[of.Key] = of.Value
		}
	}
	return &cobra.Command{Use: "version", Short: "print the version", Args: NoArgs, Example: "  " + program + " version",
		Run: func(*cobra.Command, []string) {
			s.Say(strings.TrimSuffix(version+" (commit "+from["vcs.revision"]+")", " (commit )"))
		}}
}

// OpenFile opens a file; - is standard input.
func (s Streams) OpenFile(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(s.In), nil
	}
	return os.Open(name)
}

// Style returns how text is printed: in color on a terminal.
func (s Streams) Style() answer.Style {
	return answer.Style{Color: IsTerminal(s.Out) && os.Getenv("NO_COLOR") == ""}
}

// IsTerminal reports whether w is a terminal; other devices, such as /dev/null, are none.
func IsTerminal(w any) bool {
	if out, is := w.(*Output); is {
		w = out.Writer
	}
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
