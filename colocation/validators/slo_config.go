package validators

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/slo"
	"usher.dev/usher/colocation/views"
)

// AllNodes returns the names and labels of all nodes, in any order. The step only reads them.
type AllNodes func() (iter.Seq2[string, map[string]string], error)

// SLOOptions select the ConfigMap of the SLO configuration, and how strictly it is checked.
type SLOOptions struct {
	// ConfigMap is set by Koordinator's flags --config-namespace and --slo-config-name.
	ConfigMap types.NamespacedName
	// NamesRequired requires a unique name for every entry: Koordinator's --node-strategy-name-need-check.
	NamesRequired bool
	// Keep refuses the deletion of the ConfigMap, except with its namespace: the policy's sloConfig.keep.
	Keep              bool
	NamespaceDeleting func(namespace string) (bool, error)
	// Ratios has the bounds of the ratios of nodes.
	Ratios *sections.RatioSources
}

// sloConfig refuses an SLO configuration with which a manager or node agent would not work, or not as intended. On
// update only the changed keys are checked, and deletion returns a warning. Other ConfigMaps are allowed.
func sloConfig(options SLOOptions, nodes AllNodes) admit.Validator[views.ConfigMap] {
	return admit.Validator[views.ConfigMap]{
		Name:  "slo-config",
		Doc:   "refuses SLO configurations with values out of range or entries that select the same nodes; warns of unknown fields and of deletion",
		Needs: []string{api.CollectionNodes, admit.CollectionNamespaces}, Section: sections.SLOConfigSection,
		Run: func(_ context.Context, req *admit.Request, object *views.ConfigMap) (field.ErrorList, error) {
			switch name := (types.NamespacedName{Namespace: req.Namespace, Name: object.Name()}); {
			case name != options.ConfigMap:
				return pass(req, "it is not the ConfigMap %s/%s of the SLO configuration", options.ConfigMap.Namespace, options.ConfigMap.Name)
			case req.Operation == admissionv1.Delete:
				return sloDeletion(req, object, options)
			case object.Deleting():
				return pass(req, "the ConfigMap is being deleted")
			}
			change := sloChange{data: object.Data()}
			if req.OldObject != nil {
				change.old = views.AsConfigMap(req.OldObject).Data()
			}
			change.changed = slo.Changed(change.old, change.data)
			change.config = slo.Compile(change.data)
			warnOfSLO(req, change)
			problems, err := change.problems(req, options, nodes)
			if len(problems) == 0 {
				req.Explain("the changed keys have values in range, and no two of their entries select the same nodes")
			}
			return problems, err
		},
	}
}

// sloDeletion judges the deletion of the SLO configuration.
func sloDeletion(req *admit.Request, object *views.ConfigMap, options SLOOptions) (field.ErrorList, error) {
	data := object.Data()
	keys := slices.DeleteFunc(slo.Keys(), func(key string) bool { return data[key] == "" })
	if len(keys) == 0 {
		return pass(req, "the ConfigMap configures nothing")
	}
	without := fmt.Sprintf("without %s, Koordinator falls back to its defaults on all nodes: colocation, suppression, QoS and CPU bursts are "+
		"off, and no ratio of a node is set", strings.Join(keys, ", "))
	if !options.Keep {
		req.Warnf("%s; sloConfig.keep in usher's policy refuses this", without)
		return nil, nil
	}
	if goes, err := options.NamespaceDeleting(req.Namespace); err != nil || goes {
		return nil, err
	}
	return field.ErrorList{field.Forbidden(field.NewPath("data"),
		without+"; change or remove single keys, or set sloConfig.keep in usher's policy to false")}, nil
}

// sloChange is a new SLO configuration and the stored one; old is nil if there was none.
type sloChange struct {
	old, data map[string]string
	changed   func(key string) bool
	config    *slo.Config
}

func warnOfSLO(req *admit.Request, c sloChange) {
	for _, w := range c.config.Warnings() {
		if c.changed(w.Key) || !slices.Contains(slo.Keys(), w.Key) && c.old[w.Key] != c.data[w.Key] {
			req.Warnf("%s", w.Text)
		}
	}
}

func (c sloChange) problems(req *admit.Request, options SLOOptions, nodes AllNodes) (all field.ErrorList, _ error) {
	found := slices.DeleteFunc(c.config.Problems(c.changed), c.hadBefore())
	if options.NamesRequired {
		found = append(found, c.config.NameProblems(c.changed)...)
	}
	amplified := c.changed(slo.AmplificationKey) || c.changed(slo.NormalizationKey)
	if amplified || c.config.HasSeveral(c.changed) {
		list, err := nodes()
		if err != nil {
			return nil, fmt.Errorf("listing the nodes: %w", err)
		}
		found = append(found, c.config.NodeProblems(list, c.changed)...)
		if amplified {
			all = c.checkBounds(req, options.Ratios, list)
		}
	}
	for _, p := range found {
		all = append(all, p.Err)
	}
	return all, nil
}

// hadBefore reports, for a problem that involves another key too, whether it existed before: a change of one key is not
// refused for an earlier problem of both. The stored configuration is compiled only if needed.
func (c sloChange) hadBefore() func(slo.Problem) bool {
	var before []slo.Problem
	return func(p slo.Problem) bool {
		if p.With == "" || c.changed(p.Key) || c.old == nil {
			return false
		}
		if before == nil {
			before = append([]slo.Problem{}, slo.Compile(c.old).Problems(nil)...)
		}
		return slices.ContainsFunc(before, func(b slo.Problem) bool { return b.Error() == p.Error() })
	}
}
