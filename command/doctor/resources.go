package doctor

import (
	"maps"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
)

// kubernetesResources lists the resources of Kubernetes 1.36: group/versions, then resources with their subresources. One with a * is
// cluster-scoped, one with a + is only created, and one with a - is never written.
var kubernetesResources = [][2]string{
	{"v1", "bindings+ componentstatuses*- configmaps endpoints events limitranges namespaces*:finalize,status nodes*:proxy,status " +
		"persistentvolumeclaims:status persistentvolumes*:status pods:attach,binding,ephemeralcontainers,eviction,exec,log,portforward,proxy,resize,status " +
		"podtemplates replicationcontrollers:scale,status resourcequotas:status secrets serviceaccounts:token services:proxy,status"},
	{"admissionregistration.k8s.io/v1", "mutatingadmissionpolicies* mutatingadmissionpolicybindings* mutatingwebhookconfigurations* " +
		"validatingadmissionpolicies*:status validatingadmissionpolicybindings* validatingwebhookconfigurations*"},
	{"apiextensions.k8s.io/v1", "customresourcedefinitions*:status"},
	{"apiregistration.k8s.io/v1", "apiservices*:status"},
	{"apps/v1", "controllerrevisions daemonsets:status deployments:scale,status replicasets:scale,status statefulsets:scale,status"},
	{"authentication.k8s.io/v1", "selfsubjectreviews*+ tokenreviews*+"},
	{"authorization.k8s.io/v1", "localsubjectaccessreviews+ selfsubjectaccessreviews*+ selfsubjectrulesreviews*+ subjectaccessreviews*+"},
	{"autoscaling/v1,v2", "horizontalpodautoscalers:status"},
	{"batch/v1", "cronjobs:status jobs:status"},
	{"certificates.k8s.io/v1", "certificatesigningrequests*:approval,status"},
	{"coordination.k8s.io/v1", "leases"},
	{"discovery.k8s.io/v1", "endpointslices"},
	{"events.k8s.io/v1", "events"},
	{"flowcontrol.apiserver.k8s.io/v1", "flowschemas*:status prioritylevelconfigurations*:status"},
	{"networking.k8s.io/v1", "ingressclasses* ingresses:status ipaddresses* networkpolicies servicecidrs*:status"},
	{"node.k8s.io/v1", "runtimeclasses*"},
	{"policy/v1", "poddisruptionbudgets:status"},
	{"rbac.authorization.k8s.io/v1", "clusterrolebindings* clusterroles* rolebindings roles"},
	{"resource.k8s.io/v1", "deviceclasses* resourceclaims:status resourceclaimtemplates resourceslices*"},
	{"scheduling.k8s.io/v1", "priorityclasses*"},
	{"storage.k8s.io/v1", "csidrivers* csinodes* csistoragecapacities storageclasses* volumeattachments*:status volumeattributesclasses*"},
}

// served describes a resource or a subresource.
type served struct {
	versions      []string
	clusterScoped bool
	operations    []registration.OperationType // that reach admission
}

// resources holds the resources that an API server serves, by group, then by name, such as pods/status.
type resources struct {
	groups map[string]map[string]served
	// whole is set if every group is known, not only the groups of Kubernetes.
	whole bool
}

var (
	everyOperation = []registration.OperationType{registration.Create, registration.Update, registration.Delete}
	onlyCreate     = []registration.OperationType{registration.Create}
	onlyUpdate     = []registration.OperationType{registration.Update}
	onlyConnect    = []registration.OperationType{registration.Connect}
)

// builtInResources returns the resources of Kubernetes.
func builtInResources() resources {
	all := resources{groups: map[string]map[string]served{}}
	for _, row := range kubernetesResources {
		group, versions, found := strings.Cut(row[0], "/")
		if !found {
			group, versions = "", row[0]
		}
		for entry := range strings.FieldsSeq(row[1]) {
			name, below, _ := strings.Cut(entry, ":")
			plain := strings.TrimRight(name, "*+-")
			r := served{strings.Split(versions, ","), strings.Contains(name, "*"), everyOperation}
			switch {
			case strings.Contains(name, "+"):
				r.operations = onlyCreate
			case strings.Contains(name, "-"):
				r.operations = nil
			}
			all.add(group, plain, r)
			for _, sub := range strings.Split(below, ",") {
				if sub != "" {
					all.add(group, plain+"/"+sub, served{r.versions, r.clusterScoped, operationsOf(plain, sub, nil)})
				}
			}
		}
	}
	return all
}

func (all resources) add(group, name string, r served) {
	if all.groups[group] == nil {
		all.groups[group] = map[string]served{}
	}
	if before, is := all.groups[group][name]; is {
		r.versions = append(slices.Clone(before.versions), r.versions...)
	}
	all.groups[group][name] = r
}

// operationsOf returns the operations of a subresource that reach admission. verbs come from discovery; nil: unknown.
func operationsOf(name, sub string, verbs []string) []registration.OperationType {
	switch sub {
	case "attach", "exec", "portforward", "proxy":
		return onlyConnect
	case "binding", "eviction", "token":
		return onlyCreate
	case "log":
		return nil
	}
	if verbs == nil {
		return onlyUpdate
	}
	return operationsFor(verbs)
}

// operationsFor returns the operations that the verbs of a resource lead to.
func operationsFor(verbs []string) (all []registration.OperationType) {
	for _, o := range []struct {
		operation registration.OperationType
		verbs     []string
	}{
		{registration.Create, []string{"create"}}, {registration.Update, []string{"update", "patch"}}, {registration.Delete, []string{"delete",
			"deletecollection"}},
	} {
		if slices.ContainsFunc(o.verbs, func(verb string) bool { return slices.Contains(verbs, verb) }) {
			all = append(all, o.operation)
		}
	}
	return all
}

// has returns a resource of any of some groups, or nil.
func (all resources) has(groups []string, name string) *served {
	if slices.Contains(groups, "*") {
		groups = slices.Sorted(maps.Keys(all.groups))
	}
	for _, group := range groups {
		if r, is := all.groups[group][name]; is {
			return &r
		}
	}
	return nil
}

// groupsWith returns the groups that have a resource.
func (all resources) groupsWith(name string) (groups []string) {
	for _, group := range slices.Sorted(maps.Keys(all.groups)) {
		if _, is := all.groups[group][name]; is {
			groups = append(groups, group)
		}
	}
	return groups
}

// names returns the names of the resources of some groups.
func (all resources) names(groups []string) (names []string) {
	for _, group := range groups {
		names = append(names, slices.Sorted(maps.Keys(all.groups[group]))...)
	}
	return names
}

// knows reports whether all resources of some groups are known.
func (all resources) knows(groups []string) bool {
	return all.whole || !slices.ContainsFunc(groups, func(g string) bool { return g != "*" && all.groups[g] == nil })
}
