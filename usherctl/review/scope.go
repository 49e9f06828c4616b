package review

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/webhookmatch"
)

// unregistered knows what the shipped webhook configurations keep away from routes.
type unregistered struct {
	registered []admit.Route
	labels     map[string]labels.Set // of the namespaces that are known
	assumed    map[string]string     // labels of the others, beside those that opt in
}

// why returns why an API server would not call a route for a request, or "". Routes that are for other requests are not
// asked, so only selectors remain.
func (u unregistered) why(r admit.Route, req *admit.Request) string {
	if !slices.ContainsFunc(u.registered, func(other admit.Route) bool { return other.Path == r.Path }) {
		return "only one route is registered for the status of nodes, see docs/overcommit.md"
	}
	var selectors webhookmatch.Hook
	for _, e := range webhooks.Entries([]admit.Route{r}) {
		if e.Covers(req) {
			selectors.NamespaceSelector, selectors.ObjectSelector = e.Namespaces(webhooks.Address{Namespace: "usher"}), e.Objects()
			selectors.SideEffects = new(e.SideEffects())
		}
	}
	everything := registration.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}
	selectors.Rules = []registration.RuleWithOperations{{Operations: []registration.OperationType{"*"}, Rule: everything}}
	asked := webhookmatch.Request{AdmissionRequest: asAPI(req), InNamespace: webhookmatch.Namespace{Labels: u.labels[req.Namespace]},
		SendsVirtualResources: true}
	if _, known := u.labels[req.Namespace]; !known {
		asked.InNamespace.Labels = labels.Merge(r.OptIn.AsMap(), u.assumed) // nothing is known of the namespace: assume that it opted in
	}
	if v := new(webhookmatch.Matcher).One(context.Background(), asked, selectors); !v.Called {
		return v.Filter + ": " + v.Why
	}
	return ""
}

// Shipped returns a function that returns why the shipped webhook configurations keep requests from routes. It reads each
// directory once.
func Shipped() func([]admit.Route, string) (func(admit.Route, *admit.Request) string, error) {
	known := map[string]map[string]labels.Set{}
	return func(routes []admit.Route, clusterDir string) (func(admit.Route, *admit.Request) string, error) {
		if known[clusterDir] == nil {
			namespaces, err := namespaceLabels(clusterDir, nil)
			if err != nil {
				return nil, err
			}
			known[clusterDir] = namespaces
		}
		return unregistered{registered: webhooks.OneAmplifier(routes), labels: known[clusterDir]}.why, nil
	}
}

// asAPI returns a request as the API server knows it.
func asAPI(req *admit.Request) *admissionv1.AdmissionRequest {
	r := &admissionv1.AdmissionRequest{Kind: req.Kind, Resource: req.Resource, SubResource: req.SubResource, Operation: req.Operation,
		Name: req.Name, Namespace: req.Namespace, UserInfo: req.UserInfo, DryRun: &req.DryRun}
	if req.Object != nil {
		r.Object.Raw = req.Object.Bytes()
	}
	if req.OldObject != nil {
		r.OldObject.Raw = req.OldObject.Bytes()
	}
	if r.Resource.Resource == "namespaces" {
		r.Namespace = cmp.Or(r.Namespace, r.Name)
	}
	return r
}

// registeredAs knows which webhooks of a cluster are called for a request.
type registeredAs []report.Webhook

// why returns why the API server does not call a route, by the webhooks that usher registers for it, or "".
func (w registeredAs) why(r admit.Route, req *admit.Request) (why string) {
	why = "no webhook of the cluster has the name " + r.Webhook()
	for _, e := range webhooks.Entries([]admit.Route{r}) {
		i := slices.IndexFunc(w, func(hook report.Webhook) bool { return hook.Name == e.Name })
		switch {
		case i < 0 || !e.Covers(req):
		case !strings.HasSuffix(w[i].Path, r.Path): // a URL may have a base before it
			return fmt.Sprintf("%s calls the path %s, not %s", w[i].Name, w[i].Path, r.Path)
		case w[i].Called || w[i].Filter == webhookmatch.Unknown: // what it would do is worth knowing all the same
			return ""
		default:
			why = w[i].Filter + ": " + w[i].Why
		}
	}
	return why
}

// ofSuites returns the routes of the suites of which a webhook is registered: nothing is to be said of the others. All, if none is.
func (w registeredAs) ofSuites(routes []admit.Route) []admit.Route {
	is := map[string]bool{}
	for _, r := range routes {
		is[r.Suite] = is[r.Suite] || slices.ContainsFunc(webhooks.Entries([]admit.Route{r}), func(e webhooks.Entry) bool {
			return slices.ContainsFunc(w, func(hook report.Webhook) bool { return hook.Name == e.Name })
		})
	}
	known := slices.DeleteFunc(slices.Clone(routes), func(r admit.Route) bool { return !is[r.Suite] })
	if len(known) == 0 {
		return routes
	}
	return known
}

// namespaceLabels returns the labels of the namespaces in a directory of manifests, and of those among the documents, which win.
func namespaceLabels(dir string, documents []requests.Document) (map[string]labels.Set, error) {
	known := map[string]labels.Set{}
	if dir != "" {
		files, err := requests.ManifestFiles(dir, true)
		if err != nil {
			return nil, fmt.Errorf("--cluster-dir: %w", err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("--cluster-dir: %w", err)
			}
			objects, _ := manifest.Read(file, content) // opening the cluster has reported the problems
			for _, o := range objects {
				addNamespace(known, o.JSON)
			}
		}
	}
	for _, d := range documents {
		addNamespace(known, d.JSON)
	}
	return known, nil
}

func addNamespace(known map[string]labels.Set, raw []byte) {
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(raw, &object) == nil && object.Kind == "Namespace" && object.APIVersion == "v1" {
		known[object.Name] = object.Labels
	}
}
