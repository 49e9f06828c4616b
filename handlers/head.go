package handlers

import (
	authenticationv1 "k8s.io/api/authentication/v1"

	"usher.dev/usher/admit/document"
)

// head reads the small fields of a request, without the handle that an edit would need. If a field has the wrong type,
// it reads the handle, which sets the error of the review.
type head struct{ handle *document.Value }

// text returns the string at a path of names; "" if it is absent or null.
func (h head) text(path ...string) string {
	at, ok := h.find(document.Text, path)
	if !ok {
		return h.handle.At(path...).Text()
	}
	return textOf(at)
}

// words are texts that most reviews have. Reading one of them allocates nothing.
var words = setOf("AdmissionReview", "admission.k8s.io/v1", "v1", "Pod", "pods", "Node", "nodes", "status", "CREATE", "UPDATE", "DELETE",
	"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:kube-system", "system:nodes")

func setOf(texts ...string) map[string]string {
	set := make(map[string]string, len(texts))
	for _, text := range texts {
		set[text] = text
	}
	return set
}

// textOf returns the text of a string; "" for an absent value.
func textOf(raw document.Raw) string {
	if !raw.Exists() {
		return ""
	}
	quoted := raw.Bytes()
	if word, ok := words[string(quoted[1:len(quoted)-1])]; ok {
		return word
	}
	return raw.Text()
}

// flag returns the boolean at a path of names; false if it is absent or null.
func (h head) flag(path ...string) bool {
	at, ok := h.find(document.True, path)
	switch {
	case ok:
		return at.Exists()
	case at.Kind() == document.False:
		return false
	}
	return document.As[bool](h.handle.At(path...))
}

// find returns the value at a path, the zero Raw if it is absent or null. It returns false if the value is not of the
// kind, or one on the path is no object.
func (h head) find(kind document.Kind, path []string) (document.Raw, bool) {
	at := h.handle.Raw()
	for _, name := range path {
		switch at.Kind() {
		case document.Object:
			at = at.Member(name)
		case 0, document.Null:
			return document.Raw{}, true
		default:
			return document.Raw{}, false
		}
	}
	if !at.Exists() || at.Kind() == document.Null {
		return document.Raw{}, true
	}
	return at, at.Kind() == kind
}

// groups returns the groups of the user.
func (h head) groups() (all []string) {
	path := []string{"userInfo", "groups"}
	list, ok := h.find(document.Array, path)
	if texts, usual := textsOf(list); ok && usual {
		return texts
	}
	for group := range h.handle.At(path...).Elements() {
		all = append(all, group.Text())
	}
	return all
}

// extra returns what an authenticator knows of the user beside the name and the groups.
func (h head) extra() map[string]authenticationv1.ExtraValue {
	path := []string{"userInfo", "extra"}
	object, ok := h.find(document.Object, path)
	if ok && !object.Exists() {
		return nil
	}
	if ok = ok && object.Size() <= maxRead; ok {
		extra := make(map[string]authenticationv1.ExtraValue, object.Size())
		for members := object.Children(); ok && members.More(); {
			member := members.Next()
			extra[member.Key()], ok = textsOf(member)
		}
		if ok {
			return extra
		}
	}
	return document.As[map[string]authenticationv1.ExtraValue](h.handle.At(path...))
}

// maxRead is the number of elements or members up to which a list is read here. A document's bounds apply to its
// handles.
const maxRead = 100

// textsOf returns the elements of an array of strings. It reports whether it is one, and has at most maxRead.
func textsOf(list document.Raw) ([]string, bool) {
	n := list.Size()
	if list.Exists() && list.Kind() != document.Array || n > maxRead {
		return nil, false
	}
	var texts []string
	if n > 0 {
		texts = make([]string, 0, n)
	}
	for elements := list.Children(); elements.More(); {
		element := elements.Next()
		if element.Kind() != document.Text {
			return nil, false
		}
		texts = append(texts, textOf(element))
	}
	return texts, true
}
