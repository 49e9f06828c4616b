package answer

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Operation is one operation of a JSON patch.
type Operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from,omitempty"` // of copy and move, which only foreign webhooks send
	Value json.RawMessage `json:"value,omitempty"`
}

// String shows an operation on one line.
func (o Operation) String() string {
	if o.From != "" {
		return fmt.Sprintf("%-7s %s from %s", o.Op, o.Path, o.From)
	}
	return strings.TrimRight(fmt.Sprintf("%-7s %s %s", o.Op, o.Path, o.Value), " ")
}

// folded shows an operation that adds a long list with an element a line.
func (o Operation) folded(indent string) string {
	var elements []json.RawMessage
	line := o.String()
	if len(line) <= 120 || json.Unmarshal(o.Value, &elements) != nil {
		return line
	}
	line = fmt.Sprintf("%-7s %s [", o.Op, o.Path)
	for _, e := range elements {
		line += "\n" + indent + string(e)
	}
	return line + " ]"
}
