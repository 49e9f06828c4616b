package suite

// Remark is what a suite says about a review beside its verdict, such as the quota that a pod belongs to.
type Remark struct {
	// Name is the member of the report in JSON, and Value its value.
	Name  string
	Value any
	// Lines are the same as text, indented as they are printed.
	Lines []string
}
