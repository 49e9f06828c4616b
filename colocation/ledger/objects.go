package ledger

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// objects are the quota objects as this replica knows them best: from its watch, or from its own reads and writes, which are often newer. They
// are a Follower of the quotas.
type objects struct {
	mu      sync.Mutex
	known   map[types.NamespacedName]Object
	records map[types.NamespacedName]bool // who has a record
	parsed  map[types.NamespacedName]parsed

	tree        *quota.Tree       // that the next two are of; nil if they are to be found out anew
	misplaced   map[string]record // by the name of the top that they are below
	misplacedOn map[types.NamespacedName]bool
}

// parsed is the last record of an object that was read or written, so that its text is parsed once.
type parsed struct {
	text   string
	record record // shared: nobody changes it
}

func newObjects() *objects {
	return &objects{known: map[types.NamespacedName]Object{}, records: map[types.NamespacedName]bool{}, parsed: map[types.NamespacedName]parsed{}}
}

// record gives the object's record.
func (o *objects) record(object Object) (record, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.says(object)
}

func (o *objects) says(object Object) (record, error) {
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

// wrote notes what the text of an object's record says.
func (o *objects) wrote(key types.NamespacedName, text string, says record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.parsed[key] = parsed{text, says}
}

// Replace takes up all quotas there are.
func (o *objects) Replace(all []Seen, version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.known
	o.known, o.records, o.tree = map[types.NamespacedName]Object{}, map[types.NamespacedName]bool{}, nil
	for _, seen := range all {
		if object, ok := objectOf(seen); ok {
			key := keyOf(object.Quota)
			o.put(object)
			if b, known := before[key]; known && !older(version, b.Version) { // else versions went back: the store was restored
				o.put(b)
			}
		}
	}
}

// Put takes up a quota that came or changed.
func (o *objects) Put(seen Seen) {
	if object, ok := objectOf(seen); ok {
		o.learn(object)
	}
}

// Remove forgets a quota.
func (o *objects) Remove(seen Seen) {
	object, ok := objectOf(seen)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	key := keyOf(object.Quota)
	if now, known := o.known[key]; known && !older(seen.Version, now.Version) {
		delete(o.known, key)
		delete(o.records, key)
		delete(o.parsed, key)
		o.tree = nil
	}
}

// Reached says nothing about quotas: the one who writes finds out what is new.
func (o *objects) Reached(string) {}

// objectOf is a quota object as a watch shows it; false if it does not decode.
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

// learn takes up an object unless a newer one is known.
func (o *objects) learn(object Object) {
	if object.Quota == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(object)
}

// trust takes up an object that was read after a conflict, whatever is known: what seemed newer was not.
func (o *objects) trust(object Object) {
	if object.Quota == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keep(object)
}

func (o *objects) put(object Object) {
	if before, known := o.known[keyOf(object.Quota)]; !known || !older(object.Version, before.Version) {
		o.keep(object)
	}
}

func (o *objects) keep(object Object) {
	key := keyOf(object.Quota)
	o.known[key] = object
	if has := object.Record != ""; has != o.records[key] || o.misplacedOn[key] {
		o.tree = nil
	}
	if object.Record != "" {
		o.records[key] = true
	} else {
		delete(o.records, key)
	}
}

// misplacedBelow is what records say of a tree that stand on other objects than its top: of quotas that were in another tree, or had another top.
func (o *objects) misplacedBelow(tree *quota.Tree, top string) record {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tree != tree {
		o.tree, o.misplaced, o.misplacedOn = tree, map[string]record{}, map[types.NamespacedName]bool{}
		for key := range o.records {
			o.findMisplaced(key)
		}
	}
	return o.misplaced[top]
}

// findMisplaced notes the reservations of an object that are of another tree than the one that it is the top of.
func (o *objects) findMisplaced(key types.NamespacedName) {
	found, err := o.says(o.known[key])
	if err != nil {
		return
	}
	tops := map[string]string{}
	for _, r := range found.Pods {
		top, known := tops[r.Quota]
		if !known {
			if path := o.tree.Path(r.Quota); len(path) > 0 {
				top = path[len(path)-1].Name
			}
			tops[r.Quota] = top
		}
		if top == key.Name {
			continue
		}
		o.misplacedOn[key] = true
		all := o.misplaced[top]
		o.misplaced[top] = record{Seen: newest(all.Seen, found.Seen), Pods: append(all.Pods, r)}
	}
}

// withRecord are the objects that have a record.
func (o *objects) withRecord() (all []Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.records {
		all = append(all, o.known[key])
	}
	return all
}

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
