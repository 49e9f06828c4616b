package report

import (
	"encoding/json"
	"io"

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

// Write writes reports for other programs: as json, or as junit with the name of the command as its suite.
func Write(to io.Writer, output, command string, reports []Report) error {
	if output == "junit" {
		return JUnit(to, command, reports)
	}
	return WriteJSON(to, reports)
}
