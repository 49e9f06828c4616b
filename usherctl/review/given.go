package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/requests"
)

// everything is the index that is of no given object: the routes see all of them.
const everything = -1

// stored returns the objects among the documents that count as stored: all but pods, which would count against quotas
// before they are created. With --doctor and an API server, its Namespaces and LimitRanges are added, and with --assume-namespace-labels others
// that are in none of the files.
func (r *reviewing) stored(ctx context.Context, documents []requests.Document) (given []manifest.Object, err error) {
	var wanted []string
	for _, d := range documents {
		var o struct {
			metav1.PartialObjectMetadata
			Request struct{ Namespace string }
		}
		if d.Err != nil || json.Unmarshal(d.JSON, &o) != nil {
			continue
		}
		if o.Kind != "Pod" && o.Kind != "AdmissionReview" {
			given = append(given, manifest.Object{TypeMeta: o.TypeMeta, Place: manifest.Place{File: d.Source}, JSON: d.JSON})
		}
		wanted = append(wanted, o.Namespace, o.Request.Namespace, r.o.Namespace)
	}
	known, err := namespaceLabels(r.o.clusterSource.Dir, documents)
	if err != nil {
		return nil, err
	}
	slices.Sort(wanted)
	wanted = slices.DeleteFunc(slices.Compact(wanted), func(name string) bool { return name == "" })
	source, err := r.liveSource()
	if err != nil {
		return nil, err
	}
	given = append(given, r.limitRangesOf(ctx, source, wanted)...)
	wanted = slices.DeleteFunc(wanted, func(name string) bool { return known[name] != nil })
	there := r.namespacesOf(ctx, source, wanted)
	for _, name := range wanted {
		if object, found := there[name]; found {
			given = append(given, object)
		} else if r.o.namespaceLabels != nil {
			given = append(given, namespaceWith(name, r.o.namespaceLabels))
		}
	}
	return given, nil
}

// liveSource returns the cluster of --doctor; nil without one, or if it is read from files, with all else.
func (r *reviewing) liveSource() (*reader.Source, error) {
	if !r.o.doctor || r.o.registered.Source != "api" { // without --doctor, see readLive
		return nil, nil
	}
	source, err := r.o.registered.OpenSource()
	return &source, err
}

// namespacesOf returns those Namespaces that a cluster has. It prints what could not be read.
func (r *reviewing) namespacesOf(ctx context.Context, source *reader.Source, names []string) map[string]manifest.Object {
	there := map[string]manifest.Object{}
	if source == nil {
		return there
	}
	for _, name := range names {
		raw, err := source.Get(ctx, reader.NewKind("", "v1", "Namespace", "namespaces"), "", name)
		switch {
		case errors.Is(err, reader.ErrNotFound):
		case err != nil:
			_, _ = fmt.Fprintf(r.Err, "warning: the Namespace %s of the cluster is not known: %s\n", name, printable.Line(err.Error()))
		default:
			there[name] = manifest.Object{TypeMeta: coreNamespace, Place: manifest.Place{File: "the cluster"}, JSON: raw}
		}
	}
	return there
}

// limitRangesOf returns the LimitRanges that a cluster has in Namespaces, and notes which could not be read.
func (r *reviewing) limitRangesOf(ctx context.Context, source *reader.Source, namespaces []string) (all []manifest.Object) {
	if source == nil {
		return nil
	}
	r.unread = map[string]error{}
	for _, name := range namespaces {
		found, err := source.List(ctx, reader.NewKind("", "v1", "LimitRange", "limitranges"), name)
		if err != nil && !errors.Is(err, reader.ErrNotFound) {
			r.unread[name] = err
		}
		for _, raw := range found {
			all = append(all, manifest.Object{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "LimitRange"}, Place: manifest.Place{File: "the cluster"},
				JSON: raw})
		}
	}
	return all
}

// assumedNamespace is the place of a Namespace that is in none of the files.
const assumedNamespace = "--assume-namespace-labels"

// coreNamespace is the type of Namespaces.
var coreNamespace = metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}

// namespaceWith returns a Namespace with labels, and with the label that every Namespace has.
func namespaceWith(name string, labels map[string]string) manifest.Object {
	all := map[string]string{corev1.LabelMetadataName: name}
	maps.Copy(all, labels)
	raw, err := json.Marshal(metav1.PartialObjectMetadata{TypeMeta: coreNamespace, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all}})
	if err != nil {
		panic(fmt.Sprintf("a Namespace that cannot be encoded: %v", err))
	}
	return manifest.Object{TypeMeta: coreNamespace, Place: manifest.Place{File: assumedNamespace}, JSON: raw}
}

// without loads usher so that the object of a document does not count as stored while it is reviewed itself.
func (r *reviewing) without(d requests.Document) error {
	i := slices.IndexFunc(r.given, func(o manifest.Object) bool { return o.File == d.Source && d.Of == "" && o.Kind != "Namespace" })
	if r.policy == nil || i >= 0 && !r.covered(r.given[i]) {
		return nil
	}
	return r.load(i)
}

// covered reports whether any route is for objects of the kind.
func (r *reviewing) covered(o manifest.Object) bool {
	kind := o.GroupVersionKind()
	return slices.ContainsFunc(r.routes, func(route admit.Route) bool {
		return slices.ContainsFunc(route.For, func(m admit.Match) bool { return m.Kind == metav1.GroupVersionKind(kind) })
	})
}

// load loads usher with the objects that count as stored, all but one or everything.
func (r *reviewing) load(without int) error {
	if r.routes != nil && without == r.loaded {
		return nil
	}
	from := r.o.clusterSource.From()
	from.Given, from.Missing = slices.Clone(r.given), r.missing.Missing
	if without != everything {
		from.Given = slices.Delete(from.Given, without, without+1)
	}
	in, err := suite.Load(suite.Setup{Suites: r.Suites, Names: r.o.suites, Policy: r.policy, Gates: r.o.gates, Cluster: from})
	if err != nil {
		return err
	}
	if without == everything {
		r.empty = nil
		for _, s := range in.Cluster.Status() { // without pods and metrics: only a cluster has them
			if s.Objects == 0 && !slices.Contains([]string{admit.CollectionNamespaces, "pods", "nodemetrics"}, s.Name) {
				r.empty = append(r.empty, s.Name)
			}
		}
	}
	r.instance, r.routes, r.loaded = in, in.Routes(), without
	if r.o.explain {
		r.routes = Explained(r.routes)
	}
	return nil
}

// noteAbsent records which empty collections the steps of some routes look at.
func (r *reviewing) noteAbsent(routes []admit.Route) {
	for _, route := range routes {
		for _, s := range route.Chain.Steps() {
			for _, name := range s.Needs {
				if !s.Idle && s.Mode != admit.Off && slices.Contains(r.empty, name) && !slices.Contains(r.absent[route.Path], name) {
					r.absent[route.Path] = append(r.absent[route.Path], name)
				}
			}
		}
	}
}

// absentOf returns what the steps of some routes took as absent.
func (r *reviewing) absentOf(of func(path string) bool) (names []string) {
	for _, route := range r.routes {
		for _, name := range r.absent[route.Path] {
			if of(route.Path) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
