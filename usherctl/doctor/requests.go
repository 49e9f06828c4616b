package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/usherctl/discovery"
	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/webhookmatch"
)

// Examiner says for requests which webhooks of a cluster are called.
type Examiner struct {
	source     reader.Source
	kinds      requests.Catalogue
	hooks      []entry
	matcher    webhookmatch.Matcher
	namespaces map[string]webhookmatch.Namespace // by name, as far as they were asked for
	whole      map[string]json.RawMessage        // those that are known
	spaces     map[string]bool                   // the Namespaces of requests
	wanted     map[schema.GroupVersionKind]bool  // the kinds of requests
	pods       []corev1.Pod                      // that are examined
	judge      *judging                          // of requests in these; nil: not yet made
	served     map[schema.GroupVersionKind]discovery.Resource
	caller     *authenticationv1.UserInfo // who sends what a manifest stands for; nil: the user of the options
	beside     func(*state)               // adds what is not stored; nil: nothing
}

// NewExaminer reads the webhook configurations of a cluster. Kinds knows the kinds that the cluster is not asked about.
func NewExaminer(ctx context.Context, source reader.Source, kinds requests.Catalogue) (*Examiner, error) {
	hooks, err := registered(ctx, source)
	return &Examiner{source: source, kinds: kinds, hooks: hooks, namespaces: map[string]webhookmatch.Namespace{}, whole: map[string]json.RawMessage{},
		spaces: map[string]bool{}, wanted: map[schema.GroupVersionKind]bool{}, served: map[schema.GroupVersionKind]discovery.Resource{}}, err
}

// Hooks returns the webhooks of all configurations, in the order in which the API server asks them.
func Hooks(ctx context.Context, source reader.Source) ([]webhookmatch.Hook, error) {
	all, err := registered(ctx, source)
	return hooksOf(all), err
}

// registered returns the webhooks of all configurations, in the order in which the API server asks them; none if one cannot be read.
func registered(ctx context.Context, source reader.Source) (all []entry, err error) {
	for _, kind := range configurationKinds() {
		all = append(all, readKind(ctx, source, kind, func(failed error, _ string) { err = cmp.Or(err, failed) })...)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Learn takes the labels of Namespaces among documents, which override the cluster's unless they are deleted, and
// asks the cluster for the kinds of all, so that the kinds know them.
func (e *Examiner) Learn(ctx context.Context, documents []requests.Document, o requests.Options) {
	e.judge = nil
	for _, d := range documents {
		var object metav1.PartialObjectMetadata
		if d.Err != nil || json.Unmarshal(d.JSON, &object) != nil {
			continue
		}
		kind := object.GroupVersionKind()
		if kind == (schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}) && (o.Operation != admissionv1.Delete || !e.source.Live()) {
			e.namespaces[object.Name], e.whole[object.Name] = webhookmatch.Namespace{Labels: object.Labels}, d.JSON
		}
		if kind.Kind == "AdmissionReview" {
			continue
		}
		e.expect(kind, object.Namespace, d, o)
		if found := e.resourceOf(ctx, kind); found.Err == nil {
			e.kinds.Add(kind, !found.Namespaced)
		}
	}
}

// expect notes what a document is about, so that all is read of the cluster at once.
func (e *Examiner) expect(kind schema.GroupVersionKind, namespace string, d requests.Document, o requests.Options) {
	e.wanted[kind] = true
	if namespace = cmp.Or(namespace, o.Namespace); namespace != "" {
		e.spaces[namespace] = true
	}
	var pod corev1.Pod
	if kind.Kind == "Pod" && json.Unmarshal(d.JSON, &pod) == nil {
		pod.Namespace = namespace
		e.pods = append(e.pods, pod)
	}
}

// Examine returns the report on a document.
func (e *Examiner) Examine(ctx context.Context, d requests.Document, o requests.Options) report.Report {
	request, err := e.request(ctx, d, o)
	if err != nil {
		return requests.NotSent(d, err)
	}
	return e.examine(d, e.judgeRequest(ctx, d, request, nobody))
}

// nobody says of each webhook that its answer is not known.
func nobody(engine.Registered) bool { return false }

// examine returns the report on the request that a document stands for.
func (e *Examiner) examine(d requests.Document, j decision) report.Report {
	request := j.request
	kind := request.Kind.Kind
	if request.SubResource != "" {
		kind += "/" + request.SubResource
	}
	result := report.Report{Verdict: report.Passed, Subject: report.Subject{Source: d.Source, Of: d.Of, Kind: kind,
		Namespace: request.Namespace, Name: nameIn(request), Operation: string(request.Operation)}}
	if kind == "Namespace" {
		result.Namespace = ""
	}
	for i, v := range j.verdicts {
		result.Webhooks = append(result.Webhooks, webhook(e.hooks[i], v))
		switch {
		case v.Filter == webhookmatch.Unknown:
			result.Verdict = report.Errored
		case v.Refuses && result.Verdict == report.Passed:
			result.Verdict = report.Failed
		}
	}
	result.Hint = e.hint(result.Webhooks)
	return result
}

// webhook returns the line of a report about a webhook.
func webhook(h entry, v webhookmatch.Verdict) report.Webhook {
	w := report.Webhook{Configuration: h.kind + " " + h.configuration.Name, Name: h.Name, Path: pathOf(h.ClientConfig),
		Called: v.Called, Filter: v.Filter, Why: v.Why}
	if v.As.Resource != "" {
		w.Why = "as " + v.As.GroupVersion().String() + " " + v.As.Resource
	}
	return w
}

// hint says what is not known of the webhooks after a webhook that may change the object.
func (e *Examiner) hint(webhooks []report.Webhook) string {
	if len(webhooks) == 0 {
		return "there is no webhook configuration"
	}
	for i, h := range e.hooks {
		if !h.mutating() || !webhooks[i].Called {
			continue
		}
		for j, later := range e.hooks[i+1:] {
			filter := webhooks[i+1+j].Filter
			open := filter == "" || filter == webhookmatch.ObjectSelector || filter == webhookmatch.MatchConditions || filter == webhookmatch.Unknown
			if open && later.hook().ReadsObject() {
				return "this is for the object as it was sent; what " + h.Name + " changes may matter to the webhooks after it"
			}
		}
		break
	}
	return ""
}

// nameIn returns the name of the object of a request.
func nameIn(r webhookmatch.Request) string {
	if r.Name != "" {
		return r.Name
	}
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(r.Object.Raw, &object) == nil && object.GenerateName != "" {
		return object.GenerateName + "*"
	}
	return ""
}

// resourceOf returns the resource of a kind, which is asked for once.
func (e *Examiner) resourceOf(ctx context.Context, kind schema.GroupVersionKind) discovery.Resource {
	known, found := e.served[kind]
	if !found {
		known = discovery.ResourceOf(ctx, e.source, kind)
		e.served[kind] = known
	}
	return known
}

// request returns the request that a document stands for.
func (e *Examiner) request(ctx context.Context, d requests.Document, o requests.Options) (r webhookmatch.Request, err error) {
	body, err := requests.AsReview(d, o, e.kinds)
	if err != nil {
		return r, err
	}
	var sent, own admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &sent); err != nil {
		return r, err
	}
	if sent.Request == nil {
		return r, errors.New("the AdmissionReview has no request")
	}
	_ = json.Unmarshal(d.JSON, &own)
	if r.AdmissionRequest = sent.Request; own.Kind != "AdmissionReview" {
		if err := requests.CheckSubresource(o.SubResource, own.GroupVersionKind().GroupKind(), nil); err != nil {
			return r, err
		}
		r.Bare = r.Kind.Kind != own.Kind
		e.correctPlural(ctx, &r, own.GroupVersionKind())
		if e.caller != nil && d.Of == "" {
			r.UserInfo = *e.caller
		}
	}
	e.complete(ctx, &r)
	return r, nil
}

// correctPlural replaces a resource that was guessed of the kind of a manifest.
func (e *Examiner) correctPlural(ctx context.Context, r *webhookmatch.Request, kind schema.GroupVersionKind) {
	guessed, _ := meta.UnsafeGuessKindToResource(kind)
	found := e.resourceOf(ctx, kind)
	if found.Err == nil && found.Name != "" && r.Resource == metav1.GroupVersionResource(guessed) {
		r.Resource.Resource, r.RequestResource.Resource = found.Name, found.Name
	}
}

// complete adds what the cluster knows of a request.
func (e *Examiner) complete(ctx context.Context, r *webhookmatch.Request) {
	client := schema.GroupVersionResource(r.Resource)
	if r.RequestResource != nil {
		client = schema.GroupVersionResource(*r.RequestResource)
	}
	if client.Resource == "namespaces" && r.Namespace == "" {
		r.Namespace = r.Name
	}
	r.Equivalents, r.EquivalentsErr = discovery.Equivalents(ctx, e.source, client, r.SubResource)
	r.InNamespace = e.namespace(ctx, r.Namespace)
	if e.source.Live() {
		r.Authorize = e.authorize
		r.SendsVirtualResources = e.sendsVirtual(ctx, client.Group)
	}
}

var namespaceKind = reader.NewKind("", "v1", "Namespace", "namespaces")

// namespace returns what is known of a namespace.
func (e *Examiner) namespace(ctx context.Context, name string) webhookmatch.Namespace {
	if name == "" {
		return webhookmatch.Namespace{}
	}
	if known, found := e.namespaces[name]; found {
		return known
	}
	raw, err := e.source.Get(ctx, namespaceKind, "", name)
	object, err := reader.One[metav1.PartialObjectMetadata](raw, err)
	if errors.Is(err, reader.ErrNotFound) {
		err = errors.New("there is no such namespace; create it, or name another one with -n")
		if !e.source.Live() {
			err = errors.New("no file has it; put the Namespace into the directory of --cluster-dir")
		}
	}
	found := webhookmatch.Namespace{Labels: object.Labels, Err: err}
	e.namespaces[name], e.whole[name] = found, raw
	return found
}
