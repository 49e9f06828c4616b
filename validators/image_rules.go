package validators

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/imageref"
)

// imageRules refuses images that the policy does not allow: of containers, init containers, ephemeral containers and
// image volumes. References are read as the kubelet reads them, so that nginx and docker.io/library/nginx:latest are the
// same image. An update is only refused for the images that it changes.
func imageRules(policy config.ImageRules, ask admit.Questions) admit.Validator[admit.Pod] {
	rules := compileImageRules(policy)
	return admit.Validator[admit.Pod]{
		Name:  "image-rules",
		Doc:   "refuses images whose repository, tag or lack of a digest the policy does not allow; updates: only images that change",
		Needs: []string{admit.CollectionNamespaces},
		Idle:  len(rules) == 0,
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) (problems field.ErrorList, _ error) {
			images := changedImages(req, pod)
			if len(images) == 0 {
				req.Explain("the request changes no image")
				return nil, nil
			}
			applying, err := applyingRules(req, pod, rules, ask)
			if err != nil || len(applying) == 0 {
				return nil, err
			}
			for _, image := range images {
				problems = append(problems, checkImage(image, applying)...)
			}
			if len(problems) == 0 {
				req.Explain("all images are as the rules ask")
			}
			return problems, nil
		},
	}
}

// imageRule is a rule of the policy, prepared for many pods.
type imageRule struct {
	*config.ImageRule
	selection             config.CompiledSelection
	repositories, digests []imageref.Pattern
}

func compileImageRules(policy config.ImageRules) []imageRule {
	rules := make([]imageRule, len(policy))
	for i := range policy {
		r := &policy[i]
		rules[i] = imageRule{r, r.Selection.Compile(), config.Patterns(r.Repositories), config.Patterns(r.Digests)}
	}
	return rules
}

// changedImages returns the images that the stored pod does not have at the same place.
func changedImages(req *admit.Request, pod *admit.Pod) (changed []admit.Image) {
	before := map[string]string{}
	if req.OldObject != nil {
		for image := range admit.AsPod(req.OldObject).Images() {
			before[image.Place()] = image.Reference()
		}
	}
	for image := range pod.Images() {
		if now := image.Reference(); now != "" && before[image.Place()] != now {
			changed = append(changed, image) // an image that is not set is the API server's to refuse
		}
	}
	return changed
}

// applyingRules returns the rules that select the pod.
func applyingRules(req *admit.Request, pod *admit.Pod, rules []imageRule, ask admit.Questions) (applying []*imageRule, _ error) {
	labels := ask.LabelsOfNamespace(req)
	for i := range rules {
		r := &rules[i]
		selected, err := r.selection.Matches(pod.Selectable(), labels)
		if err != nil {
			return nil, err
		}
		if selected {
			applying = append(applying, r)
		} else {
			req.Explain("rule %s: its selectors do not match the labels of the pod or its namespace", r.Name)
		}
	}
	return applying, nil
}

// checkImage returns the problems of one image.
func checkImage(image admit.Image, rules []*imageRule) (problems field.ErrorList) {
	text := image.Reference()
	ref, err := imageref.Parse(text)
	if err != nil {
		return field.ErrorList{field.Invalid(image.Path(), text,
			fmt.Sprintf("is not a reference to an image (%v); write REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:...", err))}
	}
	for _, r := range rules {
		for _, problem := range r.check(ref) {
			problems = append(problems, field.Invalid(image.Path(), text, fmt.Sprintf("rule %s: %s", r.Name, problem)))
		}
	}
	return problems
}

// check returns what a rule has against an image.
func (r *imageRule) check(ref imageref.Reference) (problems []string) {
	matches := func(p imageref.Pattern) bool { return p.Matches(ref.Repository) }
	if len(r.repositories) > 0 && !slices.ContainsFunc(r.repositories, matches) {
		problems = append(problems, fmt.Sprintf("the repository %s is not allowed; allowed are %s", ref.Repository, admit.SomeNames(r.Repositories)))
	}
	if ref.Digest != "" {
		return problems // what runs does not depend on a tag
	}
	if slices.ContainsFunc(r.RefusedTags, func(pattern string) bool { return imageref.MatchText(pattern, ref.Tag) }) {
		problems = append(problems, fmt.Sprintf("the tag %s is refused%s; write the tag of a version", ref.Tag, implied(ref)))
	}
	if slices.ContainsFunc(r.digests, matches) {
		problems = append(problems, fmt.Sprintf("a digest is required; write %s@sha256:... with the digest of the image", ref.Repository))
	}
	return problems
}

// implied says where a tag comes from that is not written.
func implied(ref imageref.Reference) string {
	if ref.Implied {
		return ", which stands for no tag"
	}
	return ""
}
