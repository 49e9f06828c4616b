package suite

// Note is a suite's report about a review in addition to its verdict, such as the quota that a pod belongs to.
type Note struct {
	// Name is the member of the JSON report, and Value its value.
	Name  string
	Value any
	// Lines are the same as text, with indentation.
	Lines []string
}
