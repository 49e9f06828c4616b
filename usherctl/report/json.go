package report

import (
	"encoding/json"
	"io"
	"iter"

	"usher.dev/usher/internal/printable"
)

// WriteJSON writes a value as indented JSON in which the characters that a terminal would obey are escaped.
func WriteJSON(to io.Writer, value any) error {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = to.Write(append(printable.JSON(raw), '\n'))
	return err
}

// Write writes reports for other programs: as a json list, one by one as they come, or as junit with the name of the command as its suite.
func Write(to io.Writer, output, command string, reports iter.Seq[Report]) error {
	if output == "junit" {
		return JUnit(to, command, reports)
	}
	before, after := "[\n  ", "[]\n"
	for r := range reports {
		raw, err := json.MarshalIndent(r, "  ", "  ")
		if err == nil {
			_, err = io.WriteString(to, before+string(printable.JSON(raw)))
		}
		if err != nil {
			return err
		}
		before, after = ",\n  ", "\n]\n"
	}
	_, err := io.WriteString(to, after)
	return err
}
