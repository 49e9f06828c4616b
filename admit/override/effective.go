package override

import (
	"slices"

	"usher.dev/usher/admit"
)

// Effective is the mode of a step for a request, and why.
type Effective struct {
	admit.Step
	// Mode is the mode if none of Perhaps matches, and Override sets it; nil: no override.
	Mode     admit.Mode
	Override *admit.Override
	// Draw is the number of the workload, and Drawn reports whether it is known. It counts for an EnforcePercent.
	Draw  int
	Drawn bool
	// Perhaps are the overrides that come first and match, depending on what is not known of the request.
	Perhaps []admit.Override
	// Err is why the mode cannot be decided.
	Err error
}

// Modes returns the modes that steps have for a request under overrides. The request may have no object or no user: then they
// are not known. With both, the modes are those of a chain with the overrides.
func Modes(steps []admit.Step, overrides []admit.Override, in Context, req *admit.Request) []Effective {
	all := make([]Effective, len(steps))
	for i, s := range steps {
		all[i] = Effective{Step: s, Mode: s.Mode}
		if found := ofStep(s, overrides, in); found != nil {
			found.decide(req, &all[i])
		}
	}
	return all
}

// decide looks for the first override that matches a request whatever is not known of it.
func (s *stepOverrides) decide(req *admit.Request, e *Effective) {
	name := namespaceName(req)
	req.Circumstances().Now = s.Now()
	if name != "" && s.Namespace != nil {
		askNamespace(req, s.Namespace, name)
	}
	for _, o := range s.all {
		certain := o.withoutUnknown(req)
		ok, err := certain.matches(req, name)
		if err != nil {
			e.Err = err
			return
		}
		if ok && o.asksMore(certain) {
			e.Perhaps = append(e.Perhaps, o.Override)
			continue
		}
		if !ok {
			continue
		}
		e.Mode, e.Override = o.Mode, &o.Override
		if req.Subject() != nil {
			e.Mode, e.Draw, e.Drawn = o.modeFor(req), req.Origin().Draw(o.Name), o.EnforcePercent > 0
		}
		return
	}
}

// withoutUnknown returns the override without the conditions on what is not known of a request.
func (o *stepOverride) withoutUnknown(req *admit.Request) *stepOverride {
	certain := *o
	if req.UserInfo.Username == "" {
		certain.Users, certain.Groups = nil, nil
		if slices.ContainsFunc(req.UserInfo.Groups, func(group string) bool { return slices.Contains(o.Groups, group) }) {
			certain.Users, certain.Groups = o.Users, o.Groups // some user in these groups
		}
	}
	if req.Subject() == nil {
		certain.Selector = nil
	}
	return &certain
}

// asksMore reports whether the override has conditions that another form of it lacks.
func (o *stepOverride) asksMore(certain *stepOverride) bool {
	return o.Selector != nil && certain.Selector == nil || len(o.Users)+len(o.Groups) > len(certain.Users)+len(certain.Groups)
}
