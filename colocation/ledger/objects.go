package ledger

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// objects holds the newest quota objects that this replica knows, from its watch or from its own reads and writes,
// which are often newer. It is a Follower of the quotas.
type objects struct {
	mu      sync.Mutex
	known   map[types.NamespacedName]Object
	records map[types.NamespacedName]bool // the objects that carry a record
	parsed  map[types.NamespacedName]parsed

	shown   map[types.NamespacedName]shown
	version string // the quotas are known up to this resourceVersion
	writers map[types.NamespacedName]*writers
	floor   string        // the newest resourceVersion at which the watch has shown a change of the tree
	changed chan struct{} // closed at the next change
	// onRecord, if not nil, is called for each record that admits a pod which had ended.
	onRecord func([]reservation)
	// onRecall, if not nil, is called with the name of a quota for each change of its record that stops grants.
	onRecall func(top string)

	misplaced misplaced
}

// parsed caches the last record of an object, so that its text is parsed once.
type parsed struct {
	text   string
	record record // shared: must not be modified
}

// shown is a quota as the watch has shown it last.
type shown struct {
	quota   *quota.Quota
	version string
}

func newObjects() *objects {
	return &objects{
		shown: map[types.NamespacedName]shown{}, writers: map[types.NamespacedName]*writers{},
		known: map[types.NamespacedName]Object{}, records: map[types.NamespacedName]bool{}, parsed: map[types.NamespacedName]parsed{},
		changed: make(chan struct{}), misplaced: newMisplaced(),
	}
}

// record returns the record of an object.
func (o *objects) record(object Object) (record, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.parse(object)
}

func (o *objects) parse(object Object) (record, error) {
	key := keyOf(object.Quota)
	if last, known := o.parsed[key]; known && last.text == object.Record {
		return last.record, nil
	}
	made, err := parseRecord(object.Record)
	if err == nil {
		o.parsed[key] = parsed{object.Record, made}
	}
	return made, err
}

// cacheRecord caches the record that was written as text.
func (o *objects) cacheRecord(key types.NamespacedName, text string, rec record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.parsed[key] = parsed{text, rec}
}

func (o *objects) Replace(all []Seen, version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, seenBefore := o.known, o.shown
	restored := older(version, o.version) // the store, from a backup: what was known before is wrong
	o.shown = make(map[types.NamespacedName]shown, len(all))
	if older(version, o.floor) {
		o.floor = ""
	}
	needs, seen := o.misplaced.needs, o.misplaced.seen
	if restored {
		o.version, needs, seen = "", "", ""
	}
	o.known, o.records, o.misplaced = map[types.NamespacedName]Object{}, map[types.NamespacedName]bool{}, newMisplaced()
	o.misplaced.needs, o.misplaced.seen = needs, seen
	for _, seen := range all {
		if object, ok := objectOf(seen); ok {
			key := keyOf(object.Quota)
			o.put(object)
			o.show(object, seenBefore[key].quota)
			if b, known := before[key]; known && !restored { // it may be newer than the list, from a read or a write
				o.put(b)
			}
		}
	}
	for key := range seenBefore {
		if _, exists := o.shown[key]; !exists { // it was deleted at some version up to that of the list
			o.treeChanged(version)
			break
		}
	}
	o.upTo(version)
}

func (o *objects) Put(seen Seen) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if object, ok := objectOf(seen); ok {
		o.put(object)
		o.show(object, o.shown[keyOf(object.Quota)].quota)
	}
	o.upTo(seen.Version)
}

func (o *objects) Remove(seen Seen) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if object, ok := objectOf(seen); ok {
		o.remove(keyOf(object.Quota), seen.Version)
		delete(o.shown, keyOf(object.Quota))
		o.treeChanged(seen.Version)
	}
	o.upTo(seen.Version)
}

// show records the state of a quota in the watch. before is the state before, or nil. The caller holds mu.
func (o *objects) show(object Object, before *quota.Quota) {
	o.shown[keyOf(object.Quota)] = shown{object.Quota, object.Version}
	if !sameForPods(before, object.Quota) {
		o.treeChanged(object.Version)
	}
}

// treeChanged notes a change of the tree that the watch has shown at a version. The caller holds mu.
func (o *objects) treeChanged(version string) {
	o.floor = newest(o.floor, version)
	o.misplaced.moved()
}

// remove forgets an object that was deleted at a version, unless a newer one of its name is known.
func (o *objects) remove(key types.NamespacedName, version string) {
	if now, known := o.known[key]; known && !older(version, now.Version) {
		delete(o.known, key)
		delete(o.records, key)
		delete(o.parsed, key)
		delete(o.writers, key)
		o.misplaced.forget(key)
	}
}

func (o *objects) Reached(version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.upTo(version)
}

// reached returns the resourceVersion that the quotas are known up to. A newer state of some of them may be known, from
// reads and writes.
func (o *objects) reached() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.version
}

// treeVersion returns the newest resourceVersion at which the watch has shown a change of the tree, if the watch had come
// that far when it had reached a version; else nothing.
func (o *objects) treeVersion(reached string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if older(reached, o.floor) {
		return ""
	}
	return o.floor
}

// change returns a channel that is closed when the watch brings the next change.
func (o *objects) change() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changed
}

// upTo records that the watch has come to a version. The caller holds mu.
func (o *objects) upTo(version string) {
	o.version = newest(o.version, version)
	close(o.changed)
	o.changed = make(chan struct{})
}

// objectOf returns a quota object as the watch delivered it; false if it does not decode.
func objectOf(seen Seen) (Object, bool) {
	q, ok := seen.Object.(*quota.Quota)
	return Object{Quota: q, Version: seen.Version, Record: seen.Record, ChildRequest: seen.ChildRequest}, ok
}

func keyOf(q *quota.Quota) types.NamespacedName {
	return types.NamespacedName{Namespace: q.Namespace, Name: q.Name}
}

func (o *objects) get(key types.NamespacedName) (Object, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	object, known := o.known[key]
	return object, known
}

// update stores an object unless a newer one is known.
func (o *objects) update(object Object) {
	if object.Quota == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(object)
}

// overwrite stores an object that was read after a write with a version had failed, even if that version seems to be
// newer: it was wrong. A version that the watch delivered during the read is not overwritten by an older one.
func (o *objects) overwrite(object Object, version string) {
	if object.Quota == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known[keyOf(object.Quota)].Version == version {
		o.store(object)
	} else {
		o.put(object)
	}
}

func (o *objects) put(object Object) {
	if before, known := o.known[keyOf(object.Quota)]; !known || !older(object.Version, before.Version) {
		o.store(object)
	}
}

func (o *objects) store(object Object) {
	key := keyOf(object.Quota)
	if object.Record != "" && o.known[key].Record != object.Record {
		o.noteWriter(key, object.Record)
		o.noteRevivals(object)
		if o.onRecall != nil && (strings.Contains(object.Record, `"recall":"`) || strings.Contains(object.Record, `"changes":[`)) {
			o.onRecall(key.Name)
		}
	}
	if o.known[key].Record != object.Record {
		o.misplaced.note(key, (object.Record != "") != o.records[key])
		o.misplaced.noteSeen(object)
	}
	o.known[key] = object
	if object.Record != "" {
		o.records[key] = true
	} else {
		delete(o.records, key)
	}
}

// noteRevivals passes on a record that admits a pod which had ended. They are rare, and most records are not parsed here.
func (o *objects) noteRevivals(object Object) {
	if o.onRecord == nil || !strings.Contains(object.Record, `"revived":true`) {
		return
	}
	if found, err := o.parse(object); err == nil {
		o.onRecord(found.Pods)
	}
}

// withRecord returns the objects that carry a record.
func (o *objects) withRecord() (all []Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.records {
		all = append(all, o.known[key])
	}
	return all
}
