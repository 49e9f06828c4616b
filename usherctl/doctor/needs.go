package doctor

import (
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
)

// need is a request that a cluster, or the server of a webhook, needs, by one of some operations, and why it must not depend on
// a webhook.
type need struct {
	id                    string // of the finding
	by                    caller
	group, kind, resource string // of version v1; the resource may have a subresource
	namespace             string
	operations            string
	why                   string // begins with what it is, and a colon
}

// caller is a user of the API server, with one of their groups.
type caller struct{ user, group string }

var (
	aKubelet     = caller{"system:node:node-1", "system:nodes"}
	aReplicaSet  = caller{"system:serviceaccount:kube-system:replicaset-controller", "system:serviceaccounts"}
	aController  = caller{"system:serviceaccount:kube-system:controller", "system:serviceaccounts"}
	aServer      = caller{"system:apiserver", "system:masters"}
	aLeader      = caller{"system:kube-controller-manager", "system:authenticated"}
	aPerson      = caller{"kubernetes-admin", "system:masters"}
	create       = string(registration.Create)
	update       = string(registration.Update)
	createUpdate = create + " " + update
)

// newPods is the need to create pods, by the controller of a ReplicaSet.
func newPods(id, namespace, why string) need {
	return need{id, aReplicaSet, "", "Pod", "pods", namespace, create, why}
}

// criticalRequest is a request of a need, that is compared with webhooks.
type criticalRequest struct {
	need
	operation registration.OperationType
	labels    map[string]string // of the object
}

// requests returns a request for each operation, about an object with labels.
func (n need) requests(labels map[string]string) (all []criticalRequest) {
	for operation := range strings.FieldsSeq(n.operations) {
		all = append(all, criticalRequest{n, registration.OperationType(operation), labels})
	}
	return all
}

// needs are what a cluster needs to start, to schedule, to report, to renew certificates, to elect leaders, to resolve names
// and to be repaired, each with the reason.
var needs = []need{
	{"fail-token-reviews", aKubelet, "authentication.k8s.io", "TokenReview", "tokenreviews", "", create,
		"TokenReviews: before Kubernetes 1.37 the API server " +
			"sends them to webhooks, so that no token is accepted by others, the webhook itself among them, while it does not answer"},
	{"fail-token-reviews", aKubelet, "authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", "", create,
		"SubjectAccessReviews: before Kubernetes " +
			"1.37 the API server sends them to webhooks, so that kubelets and aggregated API servers refuse everyone while it does not answer"},

	{"fail-nodes", aKubelet, "", "Node", "nodes/status", "", update,
		"the status of nodes: kubelets report by it, and nodes go NotReady while it does not answer, also the one that it runs on"},
	{"fail-nodes", aKubelet, "", "Node", "nodes", "", create, "new nodes: none can join the cluster while it does not answer"},
	{"fail-nodes", aController, "", "Node", "nodes", "", update,
		"updates of nodes: taints of nodes that are ready again stay, and none is cordoned or labelled, while it does not answer"},
	{"fail-nodes", aKubelet, "storage.k8s.io", "CSINode", "csinodes", "", createUpdate, "CSINodes: a node gets no volumes while it does not answer"},
	{"fail-nodes", aKubelet, "resource.k8s.io", "ResourceSlice", "resourceslices", "", createUpdate,
		"ResourceSlices: a node's drivers cannot publish its devices while it does not answer"},

	{"fail-leases", aKubelet, "coordination.k8s.io", "Lease", "leases", "kube-node-lease", createUpdate,
		"the leases of nodes: they go NotReady while it does not answer, also the one that it runs on"},
	{"fail-leases", aLeader, "coordination.k8s.io", "Lease", "leases", "kube-system", createUpdate,
		"the leases in kube-system: the controller manager and the scheduler " +
			"elect a leader by them, and stop while it does not answer, so that no pod comes back; API servers say by them that they are there"},

	{"fail-events", aKubelet, "", "Event", "events", "default", create,
		"events, of which there are many: they are lost while it does not answer, and each costs a call"},

	// to schedule and to start pods
	{"fail-control-plane", aController, "", "Binding", "pods/binding", "kube-system", create,
		"the bindings of pods in kube-system: the scheduler places none while it does not answer"},
	{"fail-control-plane", aKubelet, "", "Pod", "pods/status", "kube-system", update,
		"the status of pods in kube-system: none becomes ready while it does not answer, and DNS has no address"},
	{"fail-control-plane", aKubelet, "", "TokenRequest", "serviceaccounts/token", "kube-system", create,
		"the tokens of service accounts in kube-system: no pod there starts, or keeps its token, while it does not answer"},
	{"fail-control-plane", aController, "", "ServiceAccount", "serviceaccounts", "kube-system", create,
		"service accounts in kube-system: the controllers of the controller manager make their own, and do not start while it does not answer"},
	{"fail-control-plane", aController, "storage.k8s.io", "VolumeAttachment", "volumeattachments", "", createUpdate,
		"VolumeAttachments: no volume follows its pod to another node while it does not answer"},
	{"fail-control-plane", aController, "storage.k8s.io", "VolumeAttachment", "volumeattachments/status", "", update,
		"the status of VolumeAttachments: no volume is seen to be attached while it does not answer"},
	// to resolve names
	{"fail-control-plane", aServer, "networking.k8s.io", "IPAddress", "ipaddresses", "", create,
		"IPAddresses: an API server makes one for each new Service, which has no ClusterIP while it does not answer"},
	{"fail-control-plane", aController, "discovery.k8s.io", "EndpointSlice", "endpointslices", "kube-system", update,
		"EndpointSlices in kube-system: DNS is not found at a new address while it does not answer"},
	// to renew certificates
	{"fail-control-plane", aKubelet, "certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests", "", create,
		"CertificateSigningRequests: kubelets cannot renew their certificates while it does not answer"},
	{"fail-control-plane", aController, "certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests/approval", "", update,
		"approvals of CertificateSigningRequests: no kubelet gets a certificate while it does not answer"},
	{"fail-control-plane", aController, "certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests/status", "", update,
		"the status of CertificateSigningRequests: it has the certificate, which no kubelet gets while it does not answer"},
	// what an API server writes when it starts
	{"fail-control-plane", aServer, "rbac.authorization.k8s.io", "ClusterRole", "clusterroles", "", createUpdate,
		"ClusterRoles: an API server of a new version writes those of Kubernetes when it starts, and is not ready while it does not answer"},
	{"fail-control-plane", aServer, "rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", "", createUpdate,
		"ClusterRoleBindings: an API server of a new version writes those of Kubernetes when it starts, and is not ready while it does not answer"},
	{"fail-control-plane", aServer, "rbac.authorization.k8s.io", "Role", "roles", "kube-system", createUpdate,
		"roles in kube-system: an API server of a new version writes those of Kubernetes when it starts"},
	{"fail-control-plane", aServer, "rbac.authorization.k8s.io", "RoleBinding", "rolebindings", "kube-system", createUpdate,
		"role bindings in kube-system: an API server of a new version writes those of Kubernetes when it starts"},
	{"fail-control-plane", aServer, "flowcontrol.apiserver.k8s.io", "FlowSchema", "flowschemas", "", createUpdate,
		"FlowSchemas: an API server keeps its own, and is not ready without them"},
	{"fail-control-plane", aServer, "flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", "prioritylevelconfigurations", "", createUpdate,
		"PriorityLevelConfigurations: an API server keeps its own, and is not ready without them"},
	{"fail-control-plane", aServer, "scheduling.k8s.io", "PriorityClass", "priorityclasses", "", create,
		"PriorityClasses: an API server makes those of the system when it starts, and is not ready without them"},
	{"fail-control-plane", aServer, "apiregistration.k8s.io", "APIService", "apiservices", "", createUpdate,
		"APIServices: an API server registers its own groups when it starts, and is not ready without them"},
	{"fail-control-plane", aServer, "", "ConfigMap", "configmaps", "kube-system", update,
		"ConfigMaps in kube-system: an API server keeps the CA of its clients there (extension-apiserver-authentication), by which aggregated API " +
			"servers trust it"},
	{"fail-control-plane", aServer, "", "Service", "services", "default", create,
		"Services in default: without the Service kubernetes, which an API server makes, no pod finds the API"},
	{"fail-control-plane", aServer, "", "Endpoints", "endpoints", "default", createUpdate,
		"endpoints in default: an API server at a new address is not found by pods while it does not answer"},
	{"fail-control-plane", aServer, "discovery.k8s.io", "EndpointSlice", "endpointslices", "default", createUpdate,
		"EndpointSlices in default: an API server at a new address is not found by pods while it does not answer"},
	// to be repaired
	{"fail-control-plane", aServer, "", "Namespace", "namespaces", "", create,
		"namespaces: none can be created, to repair or to install, while it does not answer"},
	{"fail-control-plane", aPerson, "", "Namespace", "namespaces", "", update,
		"updates of namespaces: the label that would let a namespace pass cannot be set while it does not answer"},
	{"fail-control-plane", aController, "", "Namespace", "namespaces/finalize", "", update,
		"the end of namespaces: those that are deleted stay while it does not answer"},
	{"fail-control-plane", aPerson, "apps", "Deployment", "deployments", "kube-system", createUpdate,
		"Deployments in kube-system: DNS cannot be repaired while it does not answer"},
	{"fail-control-plane", aPerson, "apps", "DaemonSet", "daemonsets", "kube-system", createUpdate,
		"DaemonSets in kube-system: network and storage cannot be installed or repaired while it does not answer"},
	{"fail-control-plane", aController, "apps", "ReplicaSet", "replicasets", "kube-system", create,
		"ReplicaSets in kube-system: no correction is rolled out while it does not answer"},
	{"fail-control-plane", aController, "apps", "ControllerRevision", "controllerrevisions", "kube-system", create,
		"ControllerRevisions in kube-system: no DaemonSet is rolled out while it does not answer"},
	{"fail-control-plane", aPerson, "apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", "", createUpdate,
		"CustomResourceDefinitions: nothing that has its own kinds can be installed or corrected while it does not answer"},
	{"fail-control-plane", aServer, "apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions/status", "", update,
		"the status of CustomResourceDefinitions: an API server serves no new kind while it does not answer"},
	{"fail-control-plane", aPerson, "", "Eviction", "pods/eviction", "kube-system", create,
		"evictions in kube-system: no node can be drained while it does not answer"},
	{"fail-control-plane", aPerson, "", "Pod", "pods", "kube-system", string(registration.Delete),
		"the deletion of pods in kube-system: one that hangs is not replaced while it does not answer"},
}

// ownNeeds are the requests that bring back the server of a webhook, in its own namespace.
var ownNeeds = []need{
	{"fail-own-namespace", aPerson, "apps", "Deployment", "deployments", "", update,
		"Deployments: its own cannot be corrected while it does not answer"},
	{"fail-own-namespace", aController, "apps", "ReplicaSet", "replicasets", "", create,
		"ReplicaSets: its own cannot be rolled out while it does not answer"},
	{"fail-own-namespace", aController, "", "Secret", "secrets", "", update, "Secrets: its certificate cannot be renewed while it does not answer"},
	{"fail-own-namespace", aController, "", "Binding", "pods/binding", "", create,
		"the bindings of pods: its own are not placed while it does not answer"},
	{"fail-own-namespace", aKubelet, "", "Pod", "pods/status", "", update, "the status of pods: its own do not become ready while it does not answer"},
	{"fail-own-namespace", aKubelet, "", "TokenRequest", "serviceaccounts/token", "", create,
		"the tokens of service accounts: its own pods do not start while it does not answer"},
	{"fail-own-namespace", aController, "discovery.k8s.io", "EndpointSlice", "endpointslices", "", update,
		"EndpointSlices: its own pods are not found while it does not answer"},
	{"fail-own-namespace", aController, "coordination.k8s.io", "Lease", "leases", "", update,
		"leases: its replicas cannot elect a leader while it does not answer"},
}
