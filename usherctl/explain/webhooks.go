package explain

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"usher.dev/usher/usherctl/report"
)

// Prefixes of the annotations that the API server's webhook plug-ins write: k8s.io/apiserver, pkg/admission/plugin/webhook.
const (
	patchPrefix      = "patch.webhook.admission.k8s.io/"
	mutationPrefix   = "mutation.webhook.admission.k8s.io/"
	failedMutating   = "failed-open.mutation.webhook.admission.k8s.io/"
	failedValidating = "failed-open.validating.webhook.admission.k8s.io/"
	policyFailure    = "validation.policy.admission.k8s.io/validation_failure"
	truncated        = "audit.k8s.io/truncated"
)

// Called is a call of a webhook.
type Called struct {
	Round, index           int
	Configuration, Webhook string
	Mutates                bool // it is a mutating webhook
	Mutated                bool // it changed the object
	FailedOpen             bool
	Patch                  []report.Operation
	Recorded               bool // the patch is in the event
}

// Calls returns the calls of webhooks that an event has, in order: all calls of mutating webhooks, and failed calls
// of validating ones. The error is for annotations that cannot be read; the calls are returned all the same.
func (e *Event) Calls() (all []Called, err error) {
	byPlace := map[[2]int]*Called{}
	var validating []Called
	for _, key := range slices.Sorted(maps.Keys(e.Annotations)) {
		value := e.Annotations[key]
		round, index, ok := placeOf(key)
		if !ok {
			continue
		}
		if strings.HasPrefix(key, failedValidating) {
			validating = append(validating, Called{Round: round, index: index, Webhook: value, FailedOpen: true})
			continue
		}
		c := byPlace[[2]int{round, index}]
		if c == nil {
			c = &Called{Round: round, index: index, Mutates: true}
			byPlace[[2]int{round, index}] = c
		}
		if !c.read(key, value) {
			err = fmt.Errorf("the annotation %s cannot be read", key)
		}
	}
	for _, c := range byPlace {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Called) int { return slices.Compare([]int{a.Round, a.index}, []int{b.Round, b.index}) })
	slices.SortFunc(validating, func(a, b Called) int { return a.index - b.index })
	return append(all, validating...), err
}

// placeOf reads the end of a key, such as round_0_index_2, if the API server wrote it for a webhook.
func placeOf(key string) (round, index int, ok bool) {
	for _, prefix := range []string{patchPrefix, mutationPrefix, failedMutating, failedValidating} {
		rest, is := strings.CutPrefix(key, prefix+"round_")
		if !is {
			continue
		}
		before, after, _ := strings.Cut(rest, "_index_")
		round, errRound := strconv.Atoi(before)
		index, errIndex := strconv.Atoi(after)
		return round, index, errRound == nil && errIndex == nil
	}
	return 0, 0, false
}

func (c *Called) read(key, value string) (ok bool) {
	if strings.HasPrefix(key, failedMutating) {
		c.Webhook, c.FailedOpen = value, true
		return true
	}
	var content struct {
		Configuration string             `json:"configuration"`
		Webhook       string             `json:"webhook"`
		Mutated       bool               `json:"mutated"`
		Patch         []report.Operation `json:"patch"`
		PatchType     string             `json:"patchType"`
	}
	if json.Unmarshal([]byte(value), &content) != nil {
		return false
	}
	c.Configuration, c.Webhook = content.Configuration, content.Webhook
	if strings.HasPrefix(key, mutationPrefix) {
		c.Mutated = content.Mutated
		return true
	}
	c.Patch, c.Recorded = content.Patch, true
	return content.PatchType == "JSONPatch"
}

// notes returns what webhooks wrote about the request, by webhook and key. Keys of Kubernetes itself are left out.
func (e *Event) notes() map[string]map[string]string {
	all := map[string]map[string]string{}
	for key, value := range e.Annotations {
		webhook, name, ok := strings.Cut(key, "/")
		if !ok || strings.HasSuffix(webhook, ".k8s.io") || strings.HasSuffix(webhook, ".kubernetes.io") {
			continue
		}
		if all[webhook] == nil {
			all[webhook] = map[string]string{}
		}
		all[webhook][name] = value
	}
	return all
}

// policyFailures are the ValidatingAdmissionPolicies that found something.
type policyViolation struct {
	Message           string   `json:"message"`
	Policy            string   `json:"policy"`
	Binding           string   `json:"binding"`
	ValidationActions []string `json:"validationActions"`
}

func (e *Event) policyFailures() (all []policyViolation, err error) {
	text, found := e.Annotations[policyFailure]
	if found && json.Unmarshal([]byte(text), &all) != nil {
		return nil, fmt.Errorf("the annotation %s cannot be read", policyFailure)
	}
	return all, nil
}
