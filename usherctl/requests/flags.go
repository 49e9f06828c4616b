package requests

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/cli"
)

// Flags say which manifests or AdmissionReviews are read, and which request a manifest stands for.
type Flags struct {
	Options
	Files, Templates       []string
	operation, old         string
	Recursive, noTemplates bool
	operationSet           bool
}

// AsUsage is the usage of a flag that names a user.
const AsUsage = "user who sends the request; for the kubelet of a node: system:node:NAME"

// AddFilesTo adds the flags that say what is read, to do with it what verb says.
func (o *Flags) AddFilesTo(set *pflag.FlagSet, verb string) {
	set.StringArrayVarP(&o.Files, "filename", "f", nil, "file or directory to "+verb+", like the argument FILE; may be repeated")
	set.BoolVarP(&o.Recursive, "recursive", "R", false, "read the subdirectories of a directory too")
}

// AddTo adds the flags that say which request a manifest stands for.
func (o *Flags) AddTo(set *pflag.FlagSet, verb string) {
	set.BoolVar(&o.noTemplates, "no-templates", false, verb+" objects with a pod template as they are, not the pods that their controllers would create")
	set.StringArrayVar(&o.Templates, "template-path", nil, "path of the pod template in custom resources, such as spec.template; may be repeated")
	set.StringVar(&o.operation, "operation", "CREATE",
		"operation of the request, for manifests: CREATE, UPDATE, DELETE or CONNECT; an AdmissionReview contains its own operation, user and namespace")
	set.StringVar(&o.old, "old", "", "file with the stored object that an UPDATE changes (default: the object itself; usherctl review then judges no "+
		"checks)")
	set.StringVar(&o.SubResource, "subresource", "", "subresource of the request, such as status")
	set.StringVar(&o.User, "as", "kubernetes-admin", AsUsage)
	set.StringSliceVar(&o.Groups, "as-group", nil, "groups of the user who sends the request (default: system:authenticated, and for a kubelet also "+
		"system:nodes)")
	set.StringVarP(&o.Namespace, "namespace", "n", "default", "namespace of objects that do not name one")
	set.BoolVar(&o.DryRun, "dry-run", false, "mark the request as a dry run")
}

// Parse completes and checks the values, and reads the file of --old.
func (o *Flags) Parse(streams cli.Streams, set *pflag.FlagSet) (err error) {
	if !set.Changed("as-group") {
		o.Groups = GroupsOf(o.User)
	}
	o.operationSet = set.Changed("operation")
	o.Operation = admissionv1.Operation(strings.ToUpper(o.operation))
	operations := []admissionv1.Operation{admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect}
	switch {
	case !slices.Contains(operations, o.Operation):
		return fmt.Errorf("--operation %s: must be one of %v", o.Operation, operations)
	case o.old != "" && o.Operation != admissionv1.Update:
		return errors.New("--old goes with --operation UPDATE")
	}
	o.Old, err = readOld(streams, o.old)
	return err
}

// Applies reports whether manifests are sent as `kubectl apply` sends them: no flag says otherwise.
func (o *Flags) Applies() bool { return !o.operationSet && o.SubResource == "" }

// MakesPods reports whether controllers would create pods because of the requests: no pod comes of a deletion, or of a
// subresource.
func (o *Flags) MakesPods() bool {
	writes := o.Operation == admissionv1.Create || o.Operation == admissionv1.Update
	return writes && o.SubResource == "" && !o.noTemplates
}

// WithPods replaces workloads that no route judges itself by the pods that controllers make of them, unless --no-templates.
func (o *Flags) WithPods(documents []Document, routes []admit.Route) []Document {
	if !o.MakesPods() {
		return documents
	}
	return WithPods(documents, o.Templates, o.Options, func(object *unstructured.Unstructured) bool {
		request := &admit.Request{Kind: metav1.GroupVersionKind(object.GroupVersionKind()), Operation: o.Operation, Namespace: object.GetNamespace()}
		return slices.ContainsFunc(routes, func(route admit.Route) bool { return route.JudgesItself(request) })
	})
}
