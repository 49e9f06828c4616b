// Package resources knows the kinds and resources of Kubernetes, and which rules of a webhook can never match.
package resources

import (
	"maps"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kubernetes lists the kinds of Kubernetes 1.37: group/versions, then kinds with the subresources of their resources. Versions after a
// semicolon have to be switched on. A kind with a * is cluster-scoped, one with a + is only created, one with a - is never written, and one
// with a ~ has no resource of its own. Source: the API reference.
var kubernetes = [][2]string{
	{"/v1", "Binding+ ComponentStatus*- ConfigMap Endpoints Event LimitRange Namespace*:finalize,status Node*:proxy,status " +
		"PersistentVolume*:status PersistentVolumeClaim:status Pod:attach,binding,ephemeralcontainers,eviction,exec,log,portforward,proxy,resize,status " +
		"PodTemplate ReplicationController:scale,status ResourceQuota:status Secret Service:proxy,status ServiceAccount:token"},
	{"admissionregistration.k8s.io/v1;v1beta1,v1alpha1", "MutatingAdmissionPolicy* MutatingAdmissionPolicyBinding* MutatingWebhookConfiguration* " +
		"ValidatingAdmissionPolicy*:status ValidatingAdmissionPolicyBinding* ValidatingWebhookConfiguration*"},
	{"apiextensions.k8s.io/v1", "CustomResourceDefinition*:status"},
	{"apiregistration.k8s.io/v1", "APIService*:status"},
	{"apps/v1", "ControllerRevision DaemonSet:status Deployment:scale,status ReplicaSet:scale,status StatefulSet:scale,status"},
	{"authentication.k8s.io/v1", "SelfSubjectReview*+ TokenReview*+"},
	{"authorization.k8s.io/v1", "LocalSubjectAccessReview+ SelfSubjectAccessReview*+ SelfSubjectRulesReview*+ SubjectAccessReview*+"},
	{"autoscaling/v1,v2", "HorizontalPodAutoscaler:status Scale~"},
	{"batch/v1", "CronJob:status Job:status"},
	{"certificates.k8s.io/v1;v1beta1,v1alpha1", "CertificateSigningRequest*:approval,status ClusterTrustBundle* PodCertificateRequest:status"},
	{"coordination.k8s.io/v1", "Lease"},
	{"discovery.k8s.io/v1", "EndpointSlice"},
	{"events.k8s.io/v1", "Event"},
	{"flowcontrol.apiserver.k8s.io/v1", "FlowSchema*:status PriorityLevelConfiguration*:status"},
	{"networking.k8s.io/v1", "Ingress:status IngressClass* IPAddress* NetworkPolicy ServiceCIDR*:status"},
	{"node.k8s.io/v1", "RuntimeClass*"},
	{"policy/v1", "Eviction~ PodDisruptionBudget:status"},
	{"rbac.authorization.k8s.io/v1", "ClusterRole* ClusterRoleBinding* Role RoleBinding"},
	{"resource.k8s.io/v1;v1beta1,v1beta2,v1alpha3", "DeviceClass* ResourceClaim:status ResourceClaimTemplate ResourceSlice* DeviceTaintRule*:status"},
	{"scheduling.k8s.io/v1", "PriorityClass*"},
	{"storage.k8s.io/v1", "CSIDriver* CSINode*:status CSIStorageCapacity StorageClass* VolumeAttachment*:status VolumeAttributesClass*"},
}

// Kind is a kind of Kubernetes.
type Kind struct {
	schema.GroupKind
	Versions      []string // those that are served by default first
	ClusterScoped bool

	resource Resource
	plural   string // of the resource; empty: it has none
	subs     []string
}

// Kinds returns the kinds of Kubernetes.
func Kinds() (all []Kind) {
	for _, row := range kubernetes {
		group, versions, _ := strings.Cut(row[0], "/")
		served, optional, _ := strings.Cut(versions, ";")
		for entry := range strings.FieldsSeq(row[1]) {
			all = append(all, kindOf(group, list(served), list(optional), entry))
		}
	}
	return all
}

// list returns the parts of a text that commas separate.
func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

func kindOf(group string, served, optional []string, entry string) Kind {
	marked, subs, _ := strings.Cut(entry, ":")
	kind := Kind{GroupKind: schema.GroupKind{Group: group, Kind: strings.TrimRight(marked, "*+-~")}, Versions: slices.Concat(served, optional),
		ClusterScoped: strings.Contains(marked, "*"), subs: list(subs)}
	if len(served) == 0 {
		served = optional
	}
	kind.resource = Resource{Versions: served, ClusterScoped: kind.ClusterScoped, Operations: everyOperation, optional: optional}
	switch {
	case strings.Contains(marked, "~"):
		return kind
	case strings.Contains(marked, "+"):
		kind.resource.Operations = onlyCreate
	case strings.Contains(marked, "-"):
		kind.resource.Operations = nil
	}
	plural, _ := meta.UnsafeGuessKindToResource(kind.WithVersion(""))
	kind.plural = plural.Resource
	return kind
}

// Resource describes a resource or a subresource.
type Resource struct {
	Versions      []string
	ClusterScoped bool
	Operations    []registration.OperationType // that reach admission

	optional []string // versions that may be served, too
}

// Table holds the resources that an API server serves, by group, then by name, such as pods/status.
type Table struct {
	Groups map[string]map[string]Resource
	// Whole is set if every group is known, not only the groups of Kubernetes.
	Whole bool
}

var (
	everyOperation = []registration.OperationType{registration.Create, registration.Update, registration.Delete}
	onlyCreate     = []registration.OperationType{registration.Create}
	onlyUpdate     = []registration.OperationType{registration.Update}
	onlyConnect    = []registration.OperationType{registration.Connect}
)

// BuiltIn returns the resources of Kubernetes.
func BuiltIn() Table {
	all := Table{Groups: map[string]map[string]Resource{}}
	for _, kind := range Kinds() {
		if kind.plural == "" {
			continue
		}
		all.Add(kind.Group, kind.plural, kind.resource)
		for _, sub := range kind.subs {
			below := kind.resource
			below.Operations = OperationsOf(kind.plural+"/"+sub, nil)
			all.Add(kind.Group, kind.plural+"/"+sub, below)
		}
	}
	return all
}

// Add adds a resource, or more versions of it.
func (all Table) Add(group, name string, r Resource) {
	if all.Groups[group] == nil {
		all.Groups[group] = map[string]Resource{}
	}
	if before, is := all.Groups[group][name]; is {
		r.Versions = slices.Concat(before.Versions, r.Versions)
	}
	all.Groups[group][name] = r
}

// OperationsOf returns the operations of a resource or a subresource that reach admission. verbs come from discovery; nil: unknown.
func OperationsOf(name string, verbs []string) []registration.OperationType {
	switch _, sub, _ := strings.Cut(name, "/"); sub {
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

// Has returns a resource of any of some groups, or nil.
func (all Table) Has(groups []string, name string) *Resource {
	if slices.Contains(groups, "*") {
		groups = slices.Sorted(maps.Keys(all.Groups))
	}
	for _, group := range groups {
		if r, is := all.Groups[group][name]; is {
			return &r
		}
	}
	return nil
}

// groupsWith returns the groups that have a resource.
func (all Table) groupsWith(name string) (groups []string) {
	for _, group := range slices.Sorted(maps.Keys(all.Groups)) {
		if _, is := all.Groups[group][name]; is {
			groups = append(groups, group)
		}
	}
	return groups
}

// names returns the names of the resources of some groups.
func (all Table) names(groups []string) (names []string) {
	for _, group := range groups {
		names = append(names, slices.Sorted(maps.Keys(all.Groups[group]))...)
	}
	return names
}

// knows reports whether all resources of some groups are known. A group without a dot in its name is not that of a
// CustomResourceDefinition.
func (all Table) knows(groups []string) bool {
	return all.Whole || !slices.ContainsFunc(groups, func(g string) bool { return g == "*" || all.Groups[g] == nil && strings.Contains(g, ".") })
}
