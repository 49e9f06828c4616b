package probe

// Test is a property that a webhook must have.
type Test struct {
	Name string   `json:"name"`
	Does string   `json:"does"` // one line
	Why  string   `json:"why"`  // what a failure does to a cluster
	From []string `json:"from"` // where the rule, or the report of such a fault, is
	run  func(*run)
	// first tests are asked even if the plain samples are not answered. slow ones run beside all others.
	first, slow bool
	ofV1        bool // the API server verifies it in v1 only
	ofPatches   bool // it is for webhooks that change a sample
}

// The pages that rules come from.
const (
	docs     = "https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/"
	practice = "https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/"
)

// Tests returns all tests, in the order in which they run.
func Tests() []Test {
	all := append(formTests(), bodyTests()...)
	all = append(all, requestTests()...)
	all = append(all, patchTests()...)
	return append(all, serverTests()...)
}

func formTests() []Test {
	return []Test{
		{Name: "answer", first: true, run: answers, Does: "a review is answered with HTTP 200 and an AdmissionReview that has a response",
			Why:  "The API server takes anything else for a failed call: failurePolicy decides, and what the webhook meant is lost.",
			From: []string{docs + "#response", "https://github.com/kubernetes/kubernetes/issues/67414", "https://github.com/kubernetes-sigs/jobset/pull/931"}},
		{Name: "uid", ofV1: true, run: uid, Does: "response.uid is the uid of the request",
			Why:  "The API server refuses an answer whose uid is another one, or missing: each call fails.",
			From: []string{docs + "#response", "https://github.com/kubernetes/ingress-nginx/issues/4916", "https://github.com/hashicorp/vault-k8s/pull/363"}},
		{Name: "version", ofV1: true, run: version, Does: "the answer has the apiVersion and kind of the review",
			Why:  "The API server refuses an answer of v1 without them: each call fails.",
			From: []string{docs + "#response", "https://github.com/kubernetes/autoscaler/pull/4561", "https://github.com/slok/kubewebhook/issues/55"}},
		{Name: "v1beta1", run: v1beta1, Does: "a review of v1beta1 is answered as v1beta1, if the webhook is registered for it",
			Why:  "admissionReviewVersions promises it. An API server that sends v1beta1 and gets another version refuses the answer or misreads it.",
			From: []string{docs + "#webhook-request-and-response", "https://github.com/kyverno/kyverno/issues/4955"}},
		{Name: "refusal", run: refusal, Does: "a refusal has a message and a status code from 400 to 499",
			Why: "The message is all that a user sees of a refusal, and the code decides what a controller does next. Without a message " +
				"kubectl prints \"denied the request without explanation\".",
			From: []string{docs + "#response"}},
		{Name: "registration", first: true, run: registration, Does: "sideEffects permits dry runs, and the timeout leaves room",
			Why: "With sideEffects Unknown or Some the API server refuses each `kubectl apply --dry-run=server` and `kubectl diff` that " +
				"the webhook is called for.",
			From: []string{docs + "#side-effects", "https://github.com/kubernetes-sigs/controller-tools/issues/197"}},
	}
}

func bodyTests() []Test {
	return []Test{
		{Name: "no-request", Does: "a review without a request is refused with HTTP 4xx",
			run:  nonsense("a review without a request", func(r Review) []byte { return Review{"apiVersion": r["apiVersion"], "kind": r["kind"]}.JSON() }),
			Why:  "Whoever reaches the Service may send it. A handler that panics at it can be ended by anybody.",
			From: []string{"https://github.com/kyverno/kyverno/pull/15251", "https://github.com/kubeedge/kubeedge/issues/7254"}},
		{Name: "null", run: nonsense("null", func(Review) []byte { return []byte("null") }), Does: "the JSON text null is refused with HTTP 4xx",
			Why: "It decodes without an error into nothing, which handlers then read.", From: []string{"https://github.com/kubeedge/kubeedge/pull/4963"}},
		{Name: "empty", run: nonsense("an empty body", func(Review) []byte { return nil }), Does: "an empty body is refused with HTTP 4xx",
			Why:  "Load balancers and people who try an address with curl send it.",
			From: []string{"https://github.com/grafeas/kritis/pull/298", "https://github.com/cert-manager/cert-manager/pull/6498"}},
		{Name: "broken", run: nonsense("the first half of a review", func(r Review) []byte { b := r.JSON(); return b[:len(b)/2] }),
			Does: "half a review is refused with HTTP 4xx",
			Why:  "A request that was cut off must not be decided upon by what had arrived of it.",
			From: []string{"https://github.com/kubeedge/kubeedge/pull/4963"}},
		{Name: "trailing", run: nonsense("two reviews in one body", func(r Review) []byte { return append(r.JSON(), r.JSON()...) }),
			Does: "bytes after the review are refused with HTTP 4xx",
			Why:  "A decoder that stops after the first document ignores the rest: a sign that broken input is decided upon.",
			From: []string{"https://pkg.go.dev/encoding/json#Decoder.Decode"}},
		{Name: "other-kind", run: nonsense("a Pod in place of a review", otherKind), Does: "an object of another kind is refused with HTTP 4xx",
			Why:  "It is the commonest mistake with curl. \"allowed\" would be said of an object that nobody has looked at.",
			From: []string{docs + "#request"}},
		{Name: "wrong-types", run: survives("an object whose fields have other types", wrongTypes),
			Does: "an object with fields of other types is answered, not HTTP 5xx",
			Why:  "Custom resources with a permissive schema hold any JSON, and a type of Go is not their schema.",
			From: []string{"https://github.com/rook/rook/issues/10222"}},
		{Name: "nulls", run: survives("an object whose labels, annotations and lists are null", nulls),
			Does: "null labels, annotations and list elements are answered, not HTTP 5xx",
			Why:  "Objects that were written by hand have them, and custom resources keep them. A handler that assigns to a nil map panics.",
			From: []string{"https://github.com/kubeslice/worker-operator/issues/78"}},
		{Name: "deep", run: deep, Does: "JSON of 100,000 nested lists is refused, and the webhook lives on",
			Why: "A recursive decoder without a limit ends the process, not only the request.", From: []string{"https://pkg.go.dev/encoding/json#Unmarshal"}},
		{Name: "large", run: large, Does: "an object of 1 MiB is decided upon as a small one",
			Why:  "etcd holds objects of 1.5 MiB; a review of an update has two. A limit that is too low refuses objects that a cluster has.",
			From: []string{"https://kubernetes.io/docs/concepts/configuration/configmap/#motivation"}},
		{Name: "endless", run: endless, Does: "a body of 32 MiB is refused",
			Why:  "The API server sends a few MiB at most. Without a limit, any client that reaches the Service can exhaust its memory.",
			From: []string{"https://github.com/cert-manager/cert-manager/pull/6498", "https://github.com/zalando/skipper/pull/4053"}},
		{Name: "compressed", run: compressed, Does: "a compressed body is refused with HTTP 4xx, or understood",
			Why:  "HTTP 5xx for what a client sent wrongly looks like an outage.",
			From: []string{"https://www.rfc-editor.org/rfc/rfc9110#name-415-unsupported-media-type"}},
		{Name: "get", run: get, Does: "GET is refused with HTTP 4xx or 501",
			Why: "Scanners and people send it. A handler that reads a missing body panics.", From: []string{"https://github.com/grafeas/kritis/pull/298"}},
	}
}

func requestTests() []Test {
	return []Test{
		{Name: "update", first: true, run: updates,
			Does: "updates of the samples are answered, with patches that apply: changed, unchanged, being deleted, of the status",
			Why:  "Controllers update all that exists, again and again. An object whose updates fail can be neither mended nor, with a finalizer, deleted.",
			From: []string{"https://github.com/kubernetes-sigs/kueue/issues/14012", "https://github.com/kubernetes-sigs/kueue/issues/1669"}},
		{Name: "delete", run: survives("a DELETE, which has no object", deletion), Does: "a DELETE, whose object is null, is answered",
			Why: "With failurePolicy Fail, nothing that the rules name can be deleted: nodes are not drained, and namespaces stay.",
			From: []string{docs + "#request", "https://github.com/DataDog/datadog-agent/issues/50864",
				"https://github.com/open-policy-agent/gatekeeper/issues/144"}},
		{Name: "no-old-object", run: survives("a DELETE without an oldObject", func(r Review) Review {
			return deletion(r).with(func(q map[string]any) { q["oldObject"] = nil })
		}), Does: "a DELETE without an oldObject is answered",
			Why:  "Aggregated API servers send it, and so did API servers for namespaces that were deleted.",
			From: []string{"https://github.com/kubernetes/kubernetes/issues/63529", "https://github.com/openebs-archive/maya/pull/967"}},
		{Name: "collection", run: survives("a DELETE without a name", func(r Review) Review {
			return deletion(r).with(func(q map[string]any) { q["name"] = "" })
		}), Does: "a DELETE without a name, as of a collection, is answered",
			Why:  "`kubectl delete --all` and the deletion of a namespace send such ones.",
			From: []string{"https://github.com/kubernetes/enhancements/pull/945"}},
		{Name: "connect", run: survives("a CONNECT, such as of kubectl exec", connect), Does: "a CONNECT with PodExecOptions is answered",
			Why:  "Rules with operations [\"*\"] send it. The object is no Pod, and nobody can enter a container.",
			From: []string{docs + "#matching-requests-rules"}},
		{Name: "subresource", run: survives("the scale of a Deployment", scale), Does: "a subresource, whose object is of another kind, is answered",
			Why:  "Rules with resources [\"*/*\"] send it: an Eviction, a Scale or a Binding is taken for a Pod.",
			From: []string{docs + "#matching-requests-rules", "https://github.com/kubearmor/KubeArmor/pull/2692"}},
		{Name: "other-resource", run: survives("a Lease, for which no rule calls it", lease), Does: "an object of another kind is answered",
			Why: "Somebody will widen the rules.", From: []string{practice}},
		{Name: "sparse", run: survives("a review with only the required fields", sparse),
			Does: "a review without requestKind, requestResource, options and userInfo is answered",
			Why:  "Optional fields are pointers. The test tools of others, and older API servers, leave them out.",
			From: []string{"https://github.com/cert-manager/cert-manager/pull/9092"}},
		{Name: "generate-name", run: generateName, Does: "an object with generateName and without a name is decided upon",
			Why:  "Each pod of a ReplicaSet, a Job or a DaemonSet comes so to mutating webhooks.",
			From: []string{"https://github.com/kubernetes/kubernetes/issues/76680", "https://github.com/kyverno/kyverno/issues/13583"}},
		{Name: "dry-run", run: dryRun, Does: "a dry run is decided upon as the real request",
			Why: "`kubectl diff` and GitOps tools show what a dry run answers, and then do the other.", From: []string{docs + "#side-effects"}},
		{Name: "repeated", run: repeated, Does: "the same request has the same answer",
			Why: "Clients retry, and replicas answer in turn. An answer that changes makes a workload that cannot be explained.", From: []string{practice}},
	}
}

func patchTests() []Test {
	return []Test{
		{Name: "no-patch", ofV1: true, run: noPatch, Does: "a validating webhook sends no patch",
			Why: "The API server refuses such an answer: each call fails.", From: []string{docs + "#response"}},
		{Name: "patch-type", ofV1: true, run: patchType, Does: "a patch has patchType JSONPatch, and no patch has none",
			Why: "The API server refuses one without the other: each call fails.", From: []string{docs + "#response"}},
		{Name: "patch-applies", run: patchApplies, Does: "a patch applies to the object that was sent, also if that has no labels and annotations",
			Why:  "A patch that does not apply refuses the request with HTTP 500, whatever failurePolicy says.",
			From: []string{"https://github.com/kubernetes/kubernetes/issues/90623", "https://github.com/SAP-archive/karydia/issues/83"}, ofPatches: true},
		{Name: "unknown-fields", run: unknownFields, Does: "fields that a webhook does not know are kept, and labels and annotations of others",
			Why: "A webhook that decodes into the types of an older Kubernetes and encodes them again removes what is newer, on each " +
				"object of the cluster, without a word.",
			From: []string{"https://github.com/piraeusdatastore/piraeus-operator/issues/1025", "https://github.com/kubernetes-sigs/kueue/issues/2948",
				"https://github.com/kubernetes-sigs/kueue/issues/3495", "https://github.com/GoogleCloudPlatform/berglas/issues/264"}, ofPatches: true},
		{Name: "other-containers", run: otherContainers, Does: "containers that others added are kept, wherever they are in the list",
			Why:  "Sidecar injectors run before and after. A patch by index, or of the whole list, changes the wrong container or loses one.",
			From: []string{"https://github.com/istio/istio/issues/54562"}, ofPatches: true},
		{Name: "idempotent", run: idempotent, Does: "a review of the changed object changes nothing again",
			Why: "The API server may call a webhook twice, and each update calls it again: volumes are there twice, numbers grow.",
			From: []string{docs + "#idempotence", "https://github.com/kserve/kserve/issues/4332",
				"https://github.com/Azure/azure-workload-identity/issues/1744"}, ofPatches: true},
		{Name: "rounds", run: rounds, Does: "a review of the object as the API server stores it, under another name, changes nothing again",
			Why:  "Between two calls the API server's plug-ins and other webhooks have their turn, and may change what a webhook recognizes its own work by.",
			From: []string{docs + "#reinvocation-policy", "https://github.com/aws/amazon-eks-pod-identity-webhook/issues/61"}, ofPatches: true},
		{Name: "valid", run: valid, Does: "the API server's validation accepts the changed object",
			Why:  "The user's object was right, and the message that refuses it names fields that the user has not written.",
			From: []string{"https://github.com/Azure/azure-workload-identity/issues/1744"}, ofPatches: true},
	}
}

func serverTests() []Test {
	return []Test{
		{Name: "side-by-side", run: sideBySide,
			Does: "64 requests at once for different objects, and two objects of one name, have the answers that each has alone",
			Why:  "A rollout sends hundreds. State that handlers share without a lock, and decisions kept by the name of an object, show here.",
			From: []string{practice}},
		{Name: "in-time", run: inTime, Does: "each ordinary request is answered within its registered timeout, and the fastest in a quarter of it",
			Why:  "Each creation waits for it, and a timeout is a failed call.",
			From: []string{docs + "#timeouts", "https://github.com/Azure/azure-workload-identity/issues/1608"}},
		{Name: "slow-clients", slow: true, Does: "half requests are ended within 40 seconds, and others are answered, beside silent connections, too",
			Why:  "Whoever reaches the Service can otherwise hold so many connections that none is left.",
			From: []string{"https://github.com/cert-manager/cert-manager/pull/6538"}},
		{Name: "certificate", first: true, run: certificate,
			Does: "the certificate is for the registered name, from the registered CA, for servers, and valid for two weeks more",
			Why: "Otherwise no API server calls the webhook: with failurePolicy Fail nothing is created, with Ignore nothing is " +
				"checked or changed, without a notice.",
			From: []string{docs + "#authenticate-apiservers"}},
		{Name: "alive", run: alive, Does: "after all of this, the first request has the answer that it had",
			Why:  "A webhook that a client can end, or teach something, is at the mercy of every pod that reaches it.",
			From: []string{"https://github.com/kubernetes/autoscaler/pull/9475"}},
	}
}
