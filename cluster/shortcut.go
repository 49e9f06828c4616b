package cluster

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit/document"
)

// Shortcut reads what is kept of an object without decoding it. decode decodes it, and returns what the Decoder keeps; ok is
// false if it does not decode. A shortcut that cannot tell returns false, and the object is decoded. It must keep what the
// Decoder would keep, and is called by several goroutines.
type Shortcut[T any] func(o Sent, decode func() (kept T, ok bool)) (kept T, ok bool)

// Sent is an object as it was sent, with metadata that decodes.
type Sent struct {
	Namespace, Name, UID string
	// Object is the object, and Metadata a part of it; they must not be kept.
	Object, Metadata document.Raw
}

// Or returns a Decoder that tries a shortcut first. begin is called once for each cluster, so that a shortcut can remember
// what it has read.
func (d Decoder[T]) Or(begin func() Shortcut[T]) Decoder[T] {
	d.shortcut = begin
	return d
}

// begin returns the function that decodes the objects of one cluster.
func (d Decoder[T]) begin() func(r *row, o *received) (*item, error) {
	if d.shortcut == nil {
		return func(r *row, o *received) (*item, error) { return d.decode(r, o.raw) }
	}
	read := d.shortcut()
	return func(r *row, o *received) (*item, error) {
		if i := d.short(r, o, read); i != nil {
			return i, nil
		}
		return d.decode(r, o.raw)
	}
}

// short reads an object by a shortcut; nil if it must be decoded.
func (d Decoder[T]) short(r *row, o *received, read Shortcut[T]) *item {
	if !o.parse(r) {
		return nil
	}
	kept, ok := read(o.Sent, func() (kept T, ok bool) {
		if decoded, err := d.decode(r, o.raw); err == nil && decoded.err == nil {
			return decoded.kept.(T), true
		}
		return kept, false
	})
	if !ok {
		return nil
	}
	i := &item{key: o.key, version: o.version, kept: kept}
	annotations := o.Metadata.Member("annotations")
	for _, name := range r.followAnnotations {
		if value := annotations.Member(name); value.Exists() {
			if i.annotations == nil {
				i.annotations = make(map[string]string, len(r.followAnnotations))
			}
			i.annotations[name] = value.Text()
		}
	}
	return i
}

// received is an object as it was received. For all collections that read it by a shortcut it is parsed once.
type received struct {
	raw    []byte
	parsed *document.Document // nil before parse, and if it is no JSON
	looked bool               // parse has been called
	usual  bool               // a shortcut may read it
	Sent
	key, version string // as in an item
}

// parse finds the parts and names of the object, all of whose texts are parts of one string. It returns false if the object
// must be decoded. All collections that it is for must agree on whether they are namespaced.
func (o *received) parse(r *row) (usual bool) {
	if o.looked {
		return o.usual
	}
	o.looked = true
	var err error
	if o.parsed, err = document.Parse(o.raw); err != nil {
		return false
	}
	o.Object = o.parsed.Root().Raw()
	o.Metadata = o.Object.Member("metadata")
	if o.usual = usualObject(o.Object, o.Metadata); o.usual {
		o.name(r)
	}
	return o.usual
}

func (o *received) name(r *row) {
	names := metav1.ObjectMeta{Namespace: o.Metadata.Member("namespace").Text(), Name: o.Metadata.Member("name").Text()}
	r.place(&names)
	key, uid := len(keyOf(names.Namespace, names.Name)), o.Metadata.Member("uid").Text()
	all := keyOf(names.Namespace, names.Name) + uid + o.Metadata.Member("resourceVersion").Text()
	o.Namespace, o.Name, o.UID = all[:len(names.Namespace)], all[key-len(names.Name):key], all[key:key+len(uid)]
	o.key, o.version = all[:key], all[key+len(uid):]
}

func (o *received) release() {
	if o.parsed != nil {
		o.parsed.Release()
	}
}

// usualObject reports whether an object and its metadata have the form in which an API server sends those that are not being
// deleted, in which they decode. Members that a metav1.ObjectMeta lacks do not matter.
func usualObject(object, metadata document.Raw) bool {
	return areTexts(object, "apiVersion", "kind") &&
		metadata.Kind() == document.Object && metadata.Member("name").Kind() == document.Text && !metadata.Member("name").IsText("") &&
		areTexts(metadata, "generateName", "namespace", "selfLink", "uid", "resourceVersion") &&
		areAbsent(metadata, "deletionTimestamp", "deletionGracePeriodSeconds") && isEmpty(metadata.Member("managedFields")) &&
		isInteger(metadata.Member("generation")) && isTime(metadata.Member("creationTimestamp")) &&
		hasTexts(metadata.Member("labels"), document.Object) && hasTexts(metadata.Member("annotations"), document.Object) &&
		hasTexts(metadata.Member("finalizers"), document.Array) && areOwners(metadata.Member("ownerReferences"))
}

// areTexts reports whether members are strings or absent.
func areTexts(object document.Raw, names ...string) bool {
	for _, name := range names {
		if member := object.Member(name); member.Exists() && member.Kind() != document.Text {
			return false
		}
	}
	return true
}

func areAbsent(object document.Raw, names ...string) bool {
	for _, name := range names {
		if object.Member(name).Exists() {
			return false
		}
	}
	return true
}

// isEmpty reports whether a value is an empty list, which withoutManagedFields leaves, or absent.
func isEmpty(v document.Raw) bool { return !v.Exists() || v.Kind() == document.Array && v.Size() == 0 }

// isInteger reports whether a value is an integer that fits into 64 bits, or absent.
func isInteger(v document.Raw) bool {
	if len(v.Bytes()) > len("-99999999999999999") {
		return false
	}
	for i, c := range v.Bytes() {
		if (c < '0' || c > '9') && (c != '-' || i > 0) {
			return false
		}
	}
	return true
}

// isTime reports whether a value is a time, null or absent.
func isTime(v document.Raw) bool {
	if !v.Exists() || v.Kind() == document.Null {
		return true
	}
	text := v.Bytes()
	return v.Kind() == document.Text && new(time.Time).UnmarshalText(text[1:len(text)-1]) == nil
}

// hasTexts reports whether a value is a container of strings, or absent.
func hasTexts(v document.Raw, kind document.Kind) bool {
	if v.Exists() && v.Kind() != kind {
		return false
	}
	for all := v.Children(); all.More(); {
		if next := all.Next(); next.Kind() != document.Text {
			return false
		}
	}
	return true
}

// areOwners reports whether a value is a list of owners, or absent.
func areOwners(v document.Raw) bool {
	if v.Exists() && v.Kind() != document.Array {
		return false
	}
	for all := v.Children(); all.More(); {
		owner := all.Next()
		if owner.Kind() != document.Object || !areTexts(owner, "apiVersion", "kind", "name", "uid") ||
			!isBoolean(owner.Member("controller")) || !isBoolean(owner.Member("blockOwnerDeletion")) {
			return false
		}
	}
	return true
}

// isBoolean reports whether a value is true or false, or absent.
func isBoolean(v document.Raw) bool {
	return !v.Exists() || v.Kind() == document.True || v.Kind() == document.False
}

// Reading returns a function that reads objects in turn as one cluster does, for tests of collections: what is kept of each,
// or why it does not decode.
func Reading[T any](c *Collection[T]) func(raw []byte) (kept T, err error) {
	r := c.row()
	return func(raw []byte) (kept T, err error) {
		i, err := r.decode(raw)
		if err == nil {
			kept, _ = i.kept.(T)
			err = i.err
		}
		return kept, err
	}
}
