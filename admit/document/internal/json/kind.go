package json

// Kind is the type of a JSON value: its first byte, or '0' for a number.
type Kind byte

// The kinds of values.
const (
	Object Kind = '{'
	Array  Kind = '['
	Text   Kind = '"'
	Number Kind = '0'
	True   Kind = 't'
	False  Kind = 'f'
	Null   Kind = 'n'
)

// KindOf returns the kind of JSON.
func KindOf(raw []byte) Kind {
	if raw[0] == '-' || isDigit(raw[0]) {
		return Number
	}
	return Kind(raw[0])
}

// String returns the kind with its article, such as "an object".
func (k Kind) String() string { return kindNames[k] }

var kindNames = map[Kind]string{
	Object: "an object", Array: "an array", Text: "a string", Number: "a number", True: "a boolean", False: "a boolean", Null: "null",
}
