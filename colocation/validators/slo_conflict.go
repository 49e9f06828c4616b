package validators

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/slo"
)

// SLOConfig returns the stored SLO configuration; nil if there is none.
type SLOConfig func() (*slo.Config, error)

// sloConflict refuses to label a node so that several entries of the SLO configuration select it. A node that is
// created that way, or was that way before, only gets a warning: it may come from a machine pool with given labels, and
// an unrelated change of a label must not wait for a repair of the configuration.
func sloConflict(configMap types.NamespacedName, config SLOConfig) admit.Validator[admit.Node] {
	return admit.Validator[admit.Node]{
		Name:  "slo-conflict",
		Doc:   "refuses labels by which several entries of the SLO configuration would select a node; warns if they do already",
		Needs: []string{api.CollectionSLOConfig},
		Run: func(_ context.Context, req *admit.Request, node *admit.Node) (field.ErrorList, error) {
			labels, old := node.Labels(), admit.StoredNode(req)
			var before map[string]string
			if old != nil {
				before = old.Labels()
				switch {
				case node.Deleting():
					return pass(req, "the node is being deleted")
				case maps.Equal(labels, before):
					return pass(req, "the update does not change the node's labels")
				}
			}
			known, err := config()
			if err != nil {
				return nil, fmt.Errorf("reading the SLO configuration: %w", err)
			}
			now := known.Conflicts(labels)
			stored := now // what a new node brings with it is no problem
			if old != nil {
				stored = known.Conflicts(before)
			}
			problems := newConflicts(req, configMap, stored, now)
			if len(problems) == 0 {
				explainConflicts(req, now)
			}
			return problems, nil
		},
	}
}

// explainConflicts explains why conflicts are no problem.
func explainConflicts(req *admit.Request, conflicts []slo.Conflict) {
	if len(conflicts) == 0 {
		req.Explain("no two entries of the SLO configuration select the node by its labels")
	} else {
		req.Explain("several entries of the SLO configuration select the node, but no update caused that: only a warning")
	}
}

// newConflicts refuses new conflicts, and warns of the others.
func newConflicts(req *admit.Request, configMap types.NamespacedName, before, now []slo.Conflict) (problems field.ErrorList) {
	for _, conflict := range now {
		if conflict.Within(before) {
			req.Warnf("SLO %v", conflict)
			continue
		}
		problems = append(problems, field.Forbidden(admit.LabelsPath, fmt.Sprintf(
			"ConfigMap %s, data key %v; choose labels that only one of them selects, or have their selectors exclude each other",
			configMap, conflict)))
	}
	return problems
}
