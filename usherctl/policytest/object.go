package policytest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/usherctl/requests"
)

// op returns the operation of a request.
func (r request) op() admissionv1.Operation {
	return admissionv1.Operation(cmp.Or(r.Operation, "CREATE"))
}

// options say how the manifest of a case is sent.
func (r request) options(old []byte) requests.Options {
	user := cmp.Or(r.User, "kubernetes-admin")
	groups := r.Groups
	if groups == nil {
		groups = requests.GroupsOf(user)
	}
	return requests.Options{Operation: r.op(), SubResource: r.SubResource, User: user, Groups: groups,
		Namespace: cmp.Or(r.Namespace, "default"), DryRun: r.DryRun, Old: old}
}

// sent is the one object that a case is about, how it is sent, and its AdmissionReview.
type sent struct {
	requests.Document
	options requests.Options
	body    []byte
}

// body returns what a case sends.
func (c *Case) body(w *instance) (s sent, err error) {
	if c.Review.given() {
		d, err := c.only("review", c.Review)
		if err == nil && !bytes.Contains(d.JSON, []byte(`"AdmissionReview"`)) {
			err = errors.New("review: is not an AdmissionReview; for another object write manifest")
		}
		return sent{Document: d, body: d.JSON}, err
	}
	if s.Document, err = c.only("manifest", c.Manifest); err != nil {
		return s, err
	}
	var old []byte
	if c.Old.given() {
		stored, err := c.only("old", c.Old)
		if err != nil {
			return s, err
		}
		old = stored.JSON
	}
	s.options = c.request.options(old)
	if s.Document, err = c.reviewedOf(w, s.Document, s.options); err != nil {
		return s, err
	}
	object := &unstructured.Unstructured{}
	_ = json.Unmarshal(s.JSON, &object.Object) // AsReview says what is wrong
	if err := requests.CheckSubresource(s.options.SubResource, object.GroupVersionKind().GroupKind(), w.routes); err != nil {
		return s, fmt.Errorf("request.%w", err)
	}
	s.body, err = requests.AsReview(s.Document, s.options, w.catalogue)
	return s, err
}

// only returns the one object of a file or in the case.
func (c *Case) only(key string, from content) (requests.Document, error) {
	var all []requests.Document
	if from.file == "" {
		all = requests.Read("the case.json", bytes.NewReader(from.inline))
	} else {
		text, err := os.ReadFile(c.find(from.file))
		if err != nil {
			return requests.Document{}, fmt.Errorf("%s: %w", key, err)
		}
		all = requests.Read(c.find(from.file), bytes.NewReader(text))
	}
	if len(all) != 1 {
		return requests.Document{}, fmt.Errorf("%s: there are %d objects, and a case is about one: write a case for each, with a file of its own",
			key, len(all))
	}
	if all[0].Err != nil {
		return all[0], fmt.Errorf("%s: %s: %w", key, all[0].Source, all[0].Err)
	}
	return all[0], nil
}

// reviewedOf returns what is reviewed of an object: itself, or the pod that its controller would create.
func (c *Case) reviewedOf(w *instance, d requests.Document, o requests.Options) (requests.Document, error) {
	makesPods := o.SubResource == "" && (o.Operation == admissionv1.Create || o.Operation == admissionv1.Update)
	if c.Reviewed == "workload" || !makesPods {
		return d, nil
	}
	all := requests.WithPods([]requests.Document{d}, nil, o, func(object *unstructured.Unstructured) bool {
		return c.Reviewed != "pod" && w.covers(object, c.request, c.Path)
	})
	switch {
	case len(all) > 1:
		return d, fmt.Errorf("manifest: routes are for %s itself, and others for its pods; a case is about one object: "+
			"write two cases, with reviewed: workload and with reviewed: pod", kindAndName(d.JSON))
	case c.Reviewed == "pod" && (len(all) == 0 || all[0].Of == ""):
		return d, fmt.Errorf("reviewed: %s has no template of pods", kindAndName(d.JSON))
	}
	return all[0], all[0].Err
}

func kindAndName(raw []byte) string {
	object := &unstructured.Unstructured{}
	_ = json.Unmarshal(raw, &object.Object)
	return object.GetKind() + " " + object.GetName()
}
