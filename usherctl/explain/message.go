package explain

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Refusal holds the parts of a refusal's text.
type Refusal struct {
	Text string // as it was, without white space around it
	// By is the kind of refuser: see the constants.
	By string
	// Name is the name of the webhook, the policy or the quota, and Kind the kind of an invalid object, if the text has them.
	Name, Kind string
	// ID is usher's id of the refusal, the last one if the text has several.
	ID string
	// Expression is that of the matchCondition that could not be evaluated.
	Expression string
	// Namespace is where the refused creation of a pod can be tried again; "" if it is not known, or was another request.
	Namespace string
	// Problems are the problems, if usher refused.
	Problems []ReportedProblem
}

// What refuses requests.
const (
	ByUsher       = "usher"
	ByWebhook     = "another webhook"
	ByCall        = "a webhook that could not be called"
	ByCondition   = "a webhook's matchCondition"
	ByPatch       = "a mutating webhook's patch"
	ByDryRun      = "a webhook that does not support dry runs"
	ByConversion  = "a conversion webhook"
	ByPolicy      = "a ValidatingAdmissionPolicy"
	ByMutation    = "a MutatingAdmissionPolicy"
	ByQuota       = "a ResourceQuota"
	ByLimitRange  = "a LimitRange"
	ByDisruption  = "a PodDisruptionBudget"
	ByPodSecurity = "Pod Security admission"
	ByRBAC        = "RBAC"
	ByAPIServer   = "the API server"
)

// repeats reports whether the API server's code refuses the same again if the objects of the cluster still demand it. Whether a server can be
// called, authorizers, and the plug-ins and configuration files of the cluster's own API server are in no object.
func (r Refusal) repeats() bool {
	if strings.HasSuffix(r.Name, ".usher.dev") && r.By != ByUsher {
		return false
	}
	return slices.Contains([]string{ByUsher, ByWebhook, ByCall, ByCondition, ByPatch, ByPolicy, ByMutation, ByQuota, ByLimitRange}, r.By)
}

// ReportedProblem is one problem that usher reported.
type ReportedProblem struct {
	Step   string
	Field  string
	Type   string // of the rule, such as Forbidden or Invalid value
	Detail string
}

// maxMessage is the maximum length of a message in bytes: the API server cuts off events at 1 KiB, and a person pastes
// no more than some pages.
const maxMessage = 1 << 20

var (
	// problemInMessage matches the beginning of a problem in the message of a status: STEP: FIELD: TYPE
	problemInMessage = regexp.MustCompile(`(?:^|^message: |denied the request: |;\s+)([a-z0-9]+(?:-[a-z0-9]+)*): ((?:[^\s:"\[]|\[[^\]\n]*\])+): (` +
		fieldTypes + `)(?::\s+)?`)
	// problemInCause matches a cause, which is all that kubectl shows of an Invalid: FIELD: TYPE: ... (usher, step STEP, refusal ID)
	problemInCause = regexp.MustCompile(`((?:[^\s:"\[]|\[[^\]\n]*\])+): (` + fieldTypes +
		`)(?:: )?([^\n]*?) \(usher, step ([a-z0-9-]+), refusal ([0-9a-f]{8})\)`)
)

// ParseRefusal reads the text of a refusal: as kubectl prints it, with other lines around it, or as an event or a
// condition has it. It reports whether the text is one.
func ParseRefusal(text string) (r Refusal, ok bool) {
	text = strings.TrimSpace(strings.ToValidUTF8(text[:min(len(text), maxMessage)], string(utf8.RuneError)))
	r = Refusal{Text: text}
	if found := invalid.FindStringSubmatch(text); found != nil {
		r.Kind, _, _ = strings.Cut(found[1], ".")
	}
	if ids := refusalID.FindAllStringSubmatch(text, -1); len(ids) > 0 {
		r.ID = ids[len(ids)-1][1]
	}
	causes := problemInCause.FindAllStringSubmatch(text, -1)
	if by := denied.FindStringSubmatch(text); by != nil || len(causes) > 0 {
		r.By = ByWebhook
		if by != nil {
			r.Name = by[1]
		}
		if strings.HasSuffix(r.Name, ".usher.dev") || r.ID != "" && (len(causes) > 0 || problemInMessage.MatchString(text)) {
			r.By = ByUsher
			r.readProblems(causes)
		}
		return r, true
	}
	for _, other := range refusers {
		if found := other.text.FindStringSubmatch(text); found != nil {
			switch r.By = other.by; {
			case r.By == ByCondition:
				r.Expression = found[1]
			case len(found) > 1:
				r.Name = found[1]
			}
			return r, true
		}
	}
	if r.ID != "" && problemInMessage.MatchString(text) { // as usherctl review and usher's log have it, without the webhook
		r.By = ByUsher
		r.readProblems(nil)
		return r, true
	}
	r.By = ByAPIServer
	return r, forbidden.MatchString(text) || invalid.MatchString(text)
}

// ParseRefusals reads a text with the refusals of several objects, as kubectl prints them for a directory. It is empty if
// the text has none.
func ParseRefusals(text string) (all []Refusal) {
	var blocks []string
	for line := range strings.Lines(text[:min(len(text), maxMessage)]) {
		if last := len(blocks) - 1; last >= 0 && (strings.HasPrefix(line, "* ") || !begins(line)) {
			blocks[last] += line
			continue
		}
		blocks = append(blocks, line)
	}
	for _, block := range blocks {
		if r, ok := ParseRefusal(block); ok {
			all = append(all, r)
		}
	}
	return all
}

// begins reports whether the text of a refusal begins with a line.
func begins(line string) bool {
	return slices.ContainsFunc(refusers, func(r refuser) bool { return r.text.MatchString(line) }) || denied.MatchString(line) ||
		forbidden.MatchString(line) || invalid.MatchString(line)
}

// readProblems reads the problems: from the causes of an Invalid, or else from the message.
func (r *Refusal) readProblems(causes [][]string) {
	for _, c := range causes {
		r.Problems = append(r.Problems, ReportedProblem{Step: c[4], Field: c[1], Type: c[2], Detail: c[3]})
	}
	if len(causes) > 0 {
		return
	}
	places := problemInMessage.FindAllStringSubmatchIndex(r.Text, -1)
	for i, at := range places {
		end := len(r.Text)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		part := func(n int) string { return r.Text[at[2*n]:at[2*n+1]] }
		detail, _, _ := strings.Cut(r.Text[at[1]:end], " (refusal ")
		r.Problems = append(r.Problems, ReportedProblem{Step: part(1), Field: part(2), Type: part(3), Detail: strings.TrimSpace(detail)})
	}
}
