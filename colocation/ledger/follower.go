package ledger

// Follower receives every change of the objects of one kind, in order, from one goroutine at a time. It also receives
// changes that affect nothing it stores, because the resourceVersion has advanced. The source must apply a change
// before it calls the follower, so that a follower that reads the source finds the change there.
type Follower interface {
	// Replace passes all objects as of a version. Objects that are missing from it no longer exist.
	Replace(all []Seen, version string)
	// Put passes an object that was added or changed.
	Put(object Seen)
	// Remove passes an object that was deleted. Its Version is the version of the deletion, if known.
	Remove(object Seen)
	// Reached reports that no change older than the version is missing.
	Reached(version string)
}

// Seen is an object as delivered by a source.
type Seen struct {
	Key     string // namespace/name
	Version string // resourceVersion; for files, the number of the read
	// Object is the decoded object, a *quota.Pod or *quota.Quota. If the newest state does not decode, it is the last
	// state that did, or nil.
	Object any
	// Record and ChildRequest are the values of Annotation and api.AnnotationQuotaChildRequest on an ElasticQuota,
	// always from the newest state; empty if not set.
	Record, ChildRequest string
}
