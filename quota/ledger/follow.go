package ledger

// Follower is told everything that happens to the objects of a kind, in order and one thing at a time: also what changes nothing that is
// kept, because the resourceVersion has moved on all the same. Whoever tells must have the change in force before, so that a follower
// who looks finds it there.
type Follower interface {
	// Replace tells all objects there are, as of a version; what is not among them is gone.
	Replace(all []Seen, version string)
	// Put tells an object that came or changed.
	Put(object Seen)
	// Remove tells an object that is gone. Its Version is that of the deletion, as far as known.
	Remove(object Seen)
	// Reached tells that nothing older than the version is missing.
	Reached(version string)
}

// Seen is an object as a source brought it.
type Seen struct {
	Key     string // namespace/name
	Version string // resourceVersion; of files, the number of their reading
	// Object is what is kept of it: *quota.Pod, *quota.Quota. If the newest state does not decode, it is the last one that did; nil if
	// none ever did.
	Object any
	// Record and ChildRequest are, of an ElasticQuota, the texts of Annotation and api.AnnotationQuotaChildRequest, always of the newest
	// state; empty without.
	Record, ChildRequest string
}
