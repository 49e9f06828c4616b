package ledger

// Moving returns the record of a quota whose parent or namespaces a change replaces, with a mark: a replica may decide by it only after it
// has observed the quota at version from, on which the change was judged. Announce does not write to the quota under review, so the change
// itself has to carry this. Otherwise a replica whose watch has shown neither that a top got a parent, nor that it became a top again,
// would find the object as it knows it, and would not count what was admitted in between and is in the record of the other tree.
// A damaged record is returned as it is.
func Moving(text, from string) string {
	found, err := parseRecord(text)
	if err != nil {
		return text
	}
	found.Tree = newest(found.Tree, from)
	return found.text()
}
