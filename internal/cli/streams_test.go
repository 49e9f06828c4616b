package cli

import (
	"bytes"
	"testing"
)

// TestSayIsPrintable: what others have written into a registration reaches no terminal raw.
func TestSayIsPrintable(t *testing.T) {
	var out bytes.Buffer
	Streams{Out: &out}.Say("caBundle: none -> \x1b[2Jca\r\u202e until 2027", "é")
	if want := `caBundle: none -> \x1b[2Jca\r\u202e until 2027` + "\né\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
}
