package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/internal/resources"
	"usher.dev/usher/usherctl/discovery"
	"usher.dev/usher/usherctl/doctor/connectivity"
	"usher.dev/usher/usherctl/parallel"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/webhookmatch"
)

const registrationGroup = "admissionregistration.k8s.io"

// configurationKinds are the kinds of webhook configurations, in the order in which they are called.
func configurationKinds() []reader.Kind {
	return []reader.Kind{reader.NewKind(registrationGroup, "v1", mutatingKind, "mutatingwebhookconfigurations"),
		reader.NewKind(registrationGroup, "v1", validatingKind, "validatingwebhookconfigurations")}
}

// snapshot holds what was read of a cluster.
type snapshot struct {
	source     reader.Source
	webhooks   []entry
	namespaces []corev1.Namespace // nil: unknown
	resources  resources.Table
	away       []string         // groups with versions that the API server has, and that do not answer
	unread     []report.Finding // what could not be read
	reach      connectivity.Cluster
	policies   []admissionPolicies // by kind
	minor      int                 // the version of Kubernetes; 0: unknown
	matcher    webhookmatch.Matcher
	revived    []report.Finding // pods that have ended and run again
}

// read reads the cluster. roots are the CAs of its API server.
func read(ctx context.Context, source reader.Source, roots *x509.CertPool) *snapshot {
	f := &snapshot{source: source, resources: resources.BuiltIn(), reach: connectivity.Cluster{Source: source}}
	var lock sync.Mutex
	failed := func(err error, what string) {
		lock.Lock()
		defer lock.Unlock()
		f.unread = append(f.unread, unreadFinding(err, what))
	}
	configurations := make([][]entry, 2)
	f.policies = make([]admissionPolicies, len(policyKinds))
	var calls []func()
	for i, kind := range policyKinds {
		calls = append(calls, func() { f.policies[i] = policiesIn(ctx, source, kind, failed) })
	}
	for i, kind := range configurationKinds() {
		calls = append(calls, func() {
			configurations[i] = readKind(ctx, source, kind, func(err error, what string) {
				if !errors.Is(err, reader.ErrNotFound) {
					failed(err, what)
				}
			})
		})
	}
	parallel.Run(append(calls,
		func() {
			namespaces, err := reader.All[corev1.Namespace](source.List(ctx, reader.NewKind("", "v1", "Namespace", "namespaces"), ""))
			if err != nil {
				failed(err, "namespaceSelectors, and what they leave in scope")
			}
			f.namespaces = namespaces
		},
		func() { f.reach.Inside = connectivity.Inside(ctx, source, roots) },
		func() { f.minor = discovery.MinorVersion(ctx, source) })...)
	f.webhooks = slices.Concat(configurations...)
	if !source.Live() {
		if len(f.namespaces) == 0 {
			f.namespaces = nil // files without any say nothing about the namespaces of the cluster
		}
		services, _ := source.List(ctx, reader.NewKind("", "v1", "Service", "services"), "") // files are always read
		f.reach.NoServices = len(services) == 0
	}
	for i := range f.namespaces {
		withName(&f.namespaces[i])
	}
	parallel.Run(func() { f.discover(ctx, failed) }, func() { f.reach.Read(ctx, calledBy(f.webhooks)) }, func() { f.readRevived(ctx, failed) })
	slices.SortFunc(f.unread, func(a, b report.Finding) int { return strings.Compare(a.Message, b.Message) })
	return f
}

// policiesIn reads the admission policies of a kind.
func policiesIn(ctx context.Context, source reader.Source, kind string, failed func(error, string)) admissionPolicies {
	policies, problems := readPolicies(ctx, source, kind)
	for _, err := range problems {
		what := "admission policies and their bindings"
		if errors.As(err, new(*reader.MalformedError)) {
			what = "what it says"
		}
		failed(err, what)
	}
	return policies
}

// withName adds the label that the API server sets on every Namespace.
func withName(n *corev1.Namespace) {
	n.Labels = labels.Merge(n.Labels, labels.Set{corev1.LabelMetadataName: n.Name})
}

// readKind reads the webhooks of all configurations of a kind, in the order in which the API server calls them.
func readKind(ctx context.Context, source reader.Source, kind reader.Kind, failed func(error, string)) (all []entry) {
	list, err := source.List(ctx, kind, "")
	if err != nil {
		failed(err, "the webhooks in them")
	}
	for _, raw := range list {
		next, err := readWebhooks(kind.Kind, raw)
		if err != nil {
			failed(err, "the webhooks in it")
		}
		for i := range next {
			next[i].file = source.StaticFile(kind.Kind, next[i].configuration.Name)
		}
		all = append(all, next...)
	}
	slices.SortStableFunc(all, func(a, b entry) int { return webhookmatch.Compare(a.configuration.Name, b.configuration.Name) })
	return all
}

// discover reads the resources of the groups that rules name. An API server lists them to everyone; of the unlisted
// groups, the built-in ones are known.
func (f *snapshot) discover(ctx context.Context, failed func(error, string)) {
	if !f.source.Live() {
		return
	}
	groups, err := reader.One[metav1.APIGroupList](f.source.Read(ctx, "/apis"))
	if err != nil {
		failed(err, "rules that can never match")
		return
	}
	paths := map[string]schema.GroupVersion{"/api/v1": {Version: "v1"}}
	for _, group := range groups.Groups {
		for _, v := range group.Versions {
			paths["/apis/"+v.GroupVersion] = schema.GroupVersion{Group: group.Name, Version: v.Version}
		}
	}
	all := resources.Table{Groups: map[string]map[string]resources.Resource{}, Whole: true}
	var lock sync.Mutex
	var calls []func()
	for path, version := range paths {
		calls = append(calls, func() {
			list, err := reader.One[metav1.APIResourceList](f.source.Read(ctx, path))
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				all.Whole, f.away = false, append(f.away, version.String()) // an aggregated API server that is away
				return
			}
			for _, r := range list.APIResources {
				all.Add(version.Group, r.Name, resources.Resource{Versions: []string{version.Version}, ClusterScoped: !r.Namespaced,
					Operations: resources.OperationsOf(r.Name, r.Verbs)})
			}
		})
	}
	parallel.Run(calls...)
	slices.Sort(f.away)
	f.withoutVirtual(all)
	for group, names := range resources.BuiltIn().Groups {
		if !all.Whole && all.Groups[group] == nil { // it could not be read
			all.Groups[group] = names
		}
	}
	f.resources = all
}

// withoutVirtual removes the operations that webhooks see of TokenReviews and the like, if the API server sends them to none.
func (f *snapshot) withoutVirtual(all resources.Table) {
	if f.minor < virtualEnd {
		return
	}
	for _, group := range virtualGroups {
		for name, r := range all.Groups[group] {
			r.Operations = nil
			all.Groups[group][name] = r
		}
	}
}

// unreadFinding returns the finding for what could not be read.
func unreadFinding(err error, what string) report.Finding {
	return entry{}.reached(connectivity.Unread(err, what))
}
