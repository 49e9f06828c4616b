package validators

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
)

// Names is the policy on names.
type Names struct {
	Denied []string `json:"denied" doc:"words that the name of a pod must not contain" schema:"is=name-part,most=10000"`
}

// check returns all problems of the section.
func (n *Names) check(at *field.Path) (problems field.ErrorList) {
	for i, word := range n.Denied {
		if word == "" || strings.ToLower(word) != word || len(validation.IsDNS1123Subdomain("a"+word+"a")) > 0 {
			problems = append(problems, field.Invalid(at.Child("denied").Index(i), word,
				"can never stand in a pod's name: use lower-case letters, digits, '-' and '.'"))
		}
	}
	return problems
}

// deniedNames refuses pods whose name contains one of the policy's words. It checks metadata.name or, while that is
// empty, metadata.generateName, to which the API server appends five characters before validation.
func deniedNames(policy *Names) admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name:    "denied-names",
		Doc:     "refuses pods whose name contains one of the policy's words",
		For:     admit.Pods(admissionv1.Create),
		Section: config.Section[*Names]{Name: "names", Tag: `doc:"which names of pods are refused"`, Default: "names:      {denied: [offensive]}\n", Check: (*Names).check},
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) (problems field.ErrorList, _ error) {
			if policy == nil || len(policy.Denied) == 0 {
				req.Explain("names.denied of the policy has no word")
				return nil, nil
			}
			at, name := admit.NamePath, pod.Name()
			if name == "" {
				at, name = admit.GenerateNamePath, pod.GenerateName()
			}
			if len(name) > validation.DNS1123SubdomainMaxLength { // it is not compared with thousands of words
				return field.ErrorList{field.TooLong(at, name, validation.DNS1123SubdomainMaxLength)}, nil
			}
			for _, word := range policy.Denied {
				if strings.Contains(name, word) {
					problems = append(problems, field.Forbidden(at,
						fmt.Sprintf("%q contains %q, which the policy does not allow in pod names; choose another name", name, word)))
				}
			}
			if len(problems) == 0 {
				req.Explain("no word of names.denied is in the name %q", name)
			}
			return problems, nil
		},
	}
}
