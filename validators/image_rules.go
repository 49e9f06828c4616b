package validators

import (
	"context"
	"fmt"
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/validators/imageref"
)

// imageRules refuses images that the policy does not allow: of containers, init containers, ephemeral containers and
// image volumes. References are read as the kubelet reads them, so that nginx and docker.io/library/nginx:latest are the
// same image. An update is only refused for the images that it changes, or if it makes a rule select the pod.
func imageRules(policy ImageRules, ask admit.Questions) admit.Validator[admit.Pod] {
	rules := compileImageRules(policy)
	return admit.Validator[admit.Pod]{
		Name:    "image-rules",
		Doc:     "refuses images whose repository, tag or lack of a digest the policy does not allow; updates: only images that change",
		For:     slices.Concat(admit.Pods(admissionv1.Create, admissionv1.Update), admit.EphemeralContainers()),
		Needs:   []string{admit.CollectionNamespaces},
		Section: imageRulesSection,
		Idle:    len(rules) == 0,
		Run: func(ctx context.Context, req *admit.Request, pod *admit.Pod) (problems field.ErrorList, _ error) {
			changed := changedImages(req, pod)
			if len(changed) == 0 && sameLabels(req, pod) {
				req.Explain("the request changes no image")
				return nil, nil
			}
			applying, err := applyingRules(ctx, req, pod, rules, ask)
			if err != nil || len(applying) == 0 {
				return nil, err
			}
			for image := range pod.Images() {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				problems = append(problems, checkImage(image, changed[image.Place()], applying)...)
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
	*ImageRule
	selection                     config.CompiledSelection
	repositories, digests, anyTag []imageref.Pattern
}

func compileImageRules(policy ImageRules) []imageRule {
	rules := make([]imageRule, len(policy))
	for i := range policy {
		r := &policy[i]
		rules[i] = imageRule{r, r.Selection.Compile(), patterns(r.Repositories), patterns(r.Digests), patterns(r.RefusedTagsExcept)}
	}
	return rules
}

// changedImages returns the places of the images that the stored pod does not have at the same place.
func changedImages(req *admit.Request, pod *admit.Pod) map[string]bool {
	before := map[string]string{}
	if req.OldObject != nil {
		for image := range admit.AsPod(req.OldObject).Images() {
			before[image.Place()] = image.Reference()
		}
	}
	changed := map[string]bool{}
	for image := range pod.Images() {
		if now := image.Reference(); before[image.Place()] != now {
			changed[image.Place()] = true
		}
	}
	return changed
}

// sameLabels reports whether an update leaves all labels as they are.
func sameLabels(req *admit.Request, pod *admit.Pod) bool {
	return req.OldObject == nil || maps.Equal(admit.AsPod(req.OldObject).Labels(), pod.Labels())
}

// applyingRule is a rule that selects the pod of a request, and perhaps the stored one.
type applyingRule struct {
	*imageRule
	admit.Ratchet
}

// applyingRules returns the rules that select the pod.
func applyingRules(
	ctx context.Context, req *admit.Request, pod *admit.Pod, rules []imageRule, ask admit.Questions,
) (applying []applyingRule, _ error) {
	labels := ask.LabelsOfNamespace(req)
	for i := range rules {
		r := &rules[i]
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		is, err := r.selection.Matches(pod.Selectable(), labels)
		if err != nil {
			return nil, err
		}
		if !is {
			req.Explain("rule %s: its selectors do not match the labels of the pod or its namespace", r.Name)
			continue
		}
		was := false
		if req.OldObject != nil {
			if was, err = r.selection.Matches(admit.AsPod(req.OldObject).Selectable(), labels); err != nil {
				return nil, err
			}
		}
		applying = append(applying, applyingRule{r, admit.Ratchet{Is: is, Was: was}})
	}
	return applying, nil
}

// checkImage returns the problems of one image, under the rules by which it may not stay.
func checkImage(image admit.Image, changed bool, rules []applyingRule) (problems field.ErrorList) {
	text, judges := image.Reference(), func(r applyingRule) bool { return !r.MayStay(!changed) }
	if text == "" || !slices.ContainsFunc(rules, judges) {
		return nil // the API server refuses an image that is not set
	}
	ref, err := imageref.Parse(text)
	if err != nil {
		return field.ErrorList{field.Invalid(image.Path(), text,
			fmt.Sprintf("is not a reference to an image (%v); write REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:...", err))}
	}
	for _, r := range rules {
		if !judges(r) {
			continue
		}
		for _, problem := range r.judge(ref) {
			problems = append(problems, field.Invalid(image.Path(), text, fmt.Sprintf("rule %s: %s", r.Name, problem)))
		}
	}
	return problems
}

// judge returns what a rule has against an image.
func (r *imageRule) judge(ref imageref.Reference) (problems []string) {
	matches := func(p imageref.Pattern) bool { return p.Matches(ref.Repository) }
	if len(r.repositories) > 0 && !slices.ContainsFunc(r.repositories, matches) {
		problems = append(problems, fmt.Sprintf("the repository %s is not allowed; allowed are %s", ref.Repository, admit.SomeNames(r.Repositories)))
	}
	if ref.Digest != "" {
		return problems // what runs does not depend on a tag
	}
	refuses := func(pattern string) bool { return imageref.MatchText(pattern, ref.Tag) }
	if !slices.ContainsFunc(r.anyTag, matches) && slices.ContainsFunc(r.RefusedTags, refuses) {
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
