package ratelimit

import (
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/config"
	"usher.dev/usher/internal/check"
	"usher.dev/usher/internal/nearest"
)

// Policy is the section limits of the policy: how many reviews are decided in a second.
type Policy []Limit

// Section returns the section limits for a server with the given routes; nil: any.
func Section(routes []string) config.Section[Policy] {
	return config.Section[Policy]{Name: "limits", Warnings: Policy.warnings,
		Tag: `doc:"how many reviews are decided per second; others get HTTP 429 with Retry-After" schema:"most=16"`,
		Check: func(p Policy, at *field.Path) field.ErrorList {
			return append(p.check(at), p.checkRoutes(routes, at)...)
		}}
}

// Limit is a token bucket for each route and user, each route and namespace, or each route. A review takes a token; if
// there is none, it is answered with HTTP 429 and Retry-After.
type Limit struct {
	Name             string    `json:"name" doc:"shown in logs, and the label of metrics" schema:"required,is=dns-label"`
	Routes           []string  `json:"routes,omitempty" doc:"paths of the routes that are limited; those for the status of nodes never refuse" schema:"is=route" default:"all"`
	By               LimitBy   `json:"by" doc:"what has a bucket of its own on each route" schema:"required,enum=user|namespace|route"`
	PerSecond        float64   `json:"perSecond" doc:"tokens that a bucket gets per second; each review takes one" schema:"required,min=0.0003"`
	Burst            int       `json:"burst" doc:"tokens that a bucket holds" schema:"required,min=1"`
	ExemptUsers      []string  `json:"exemptUsers,omitempty" doc:"names of users whose requests take no tokens" schema:"is=name"`
	ExemptGroups     []string  `json:"exemptGroups,omitempty" doc:"groups whose requests take no tokens" schema:"is=name"`
	ExemptNamespaces []string  `json:"exemptNamespaces,omitempty" doc:"namespaces in which requests take no tokens" schema:"is=name"`
	Mode             LimitMode `json:"mode,omitempty" doc:"enforce refuses reviews beyond the limit; log only counts and logs them" schema:"enum=enforce|log" default:"enforce"`
}

// LimitBy says what has a bucket of its own.
type LimitBy string

// LimitMode says what happens to a review beyond a limit.
type LimitMode string

// The values of LimitBy and LimitMode.
const (
	ByUser      LimitBy = "user"
	ByNamespace LimitBy = "namespace"
	ByRoute     LimitBy = "route"

	LimitEnforce LimitMode = "enforce"
	LimitLog     LimitMode = "log"
)

// maxLimits bounds the memory of the buckets, and the time that a review takes for them.
const maxLimits = 16

// lowestRate is a token in an hour: a lower rate is a refusal, for which a rule is the right place.
const lowestRate = 1.0 / 3600

// check returns all problems of the section that checkRoutes does not find.
func (l Policy) check(at *field.Path) (problems field.ErrorList) {
	if len(l) > maxLimits {
		problems = append(problems, field.TooMany(at, len(l), maxLimits))
	}
	return append(problems, check.Named(l, at, func(e *Limit) string { return e.Name }, (*Limit).check)...)
}

func (l *Limit) check(at *field.Path) (problems field.ErrorList) {
	if len(validation.IsDNS1123Label(l.Name)) > 0 {
		problems = append(problems, field.Invalid(at.Child("name"), l.Name, "must be up to 63 of a-z, 0-9 and -: it is the label of metrics"))
	}
	if by := []LimitBy{ByUser, ByNamespace, ByRoute}; !slices.Contains(by, l.By) {
		problems = append(problems, field.NotSupported(at.Child("by"), l.By, by))
	}
	if modes := []LimitMode{LimitEnforce, LimitLog}; l.Mode != "" && !slices.Contains(modes, l.Mode) {
		problems = append(problems, field.NotSupported(at.Child("mode"), l.Mode, modes))
	}
	if !(l.PerSecond >= lowestRate) || math.IsInf(l.PerSecond, 0) {
		problems = append(problems, field.Invalid(at.Child("perSecond"), l.PerSecond, "must be at least 0.0003, which is one review in an hour"))
	}
	if l.Burst < 1 {
		problems = append(problems, field.Invalid(at.Child("burst"), l.Burst, "must be at least 1: without tokens no review would ever pass"))
	}
	for _, list := range []struct {
		name  string
		texts []string
	}{{"routes", l.Routes}, {"exemptUsers", l.ExemptUsers}, {"exemptGroups", l.ExemptGroups}, {"exemptNamespaces", l.ExemptNamespaces}} {
		if i := slices.Index(list.texts, ""); i >= 0 {
			problems = append(problems, field.Required(at.Child(list.name).Index(i), "an exact name"))
		}
	}
	return problems
}

// checkRoutes returns the problems of routes that do not exist.
func (l Policy) checkRoutes(routes []string, at *field.Path) (problems field.ErrorList) {
	if routes == nil {
		return nil
	}
	for i, limit := range l {
		for j, path := range limit.Routes {
			if at := at.Index(i).Child("routes").Index(j); path != "" && !slices.Contains(routes, path) {
				problems = append(problems, noRoute(path, routes, at))
			}
		}
	}
	return problems
}

// noRoute returns the problem of a path that no route has.
func noRoute(path string, routes []string, at *field.Path) *field.Error {
	if best := nearest.Of(path, routes); best != "" {
		return field.Invalid(at, path, "is not a route; did you mean "+best+"?")
	}
	return field.NotSupported(at, path, routes)
}

// warnings returns the limits that may hit the control plane: it creates nearly all pods of a cluster as a few users.
func (l Policy) warnings(_ *config.Policy, at *field.Path) (texts []string) {
	for i, limit := range l {
		if limit.By == ByUser && limit.Mode != LimitLog && len(limit.ExemptUsers)+len(limit.ExemptGroups) == 0 {
			texts = append(texts, fmt.Sprintf("%s: one user, the controller of ReplicaSets, creates the pods of all Deployments; exempt the group %s, "+
				"or limit by namespace", at.Index(i), controllers))
		}
	}
	return texts
}

// controllers is the group of the service accounts that the controller manager uses.
const controllers = "system:serviceaccounts:kube-system"
