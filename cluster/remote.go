package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// FieldManager identifies usher in the managedFields of what it writes.
const FieldManager = "usher"

// errFiles is the error of requests that need an API server.
var errFiles = errors.New("cluster: it is read from files, there is no API server")

// Raw returns the API server's answer to a GET of a path. It is for what is in no collection.
func (c *Cluster) Raw(ctx context.Context, path ...string) ([]byte, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	return client.Get().AbsPath(path...).DoRaw(ctx)
}

// Read returns the current object of a declared collection: without a resourceVersion, the API server reads from etcd
// and not from a cache that may be behind. As in a snapshot of a watched collection, if the object does not decode, its
// last state that did is returned. The error is the API server's, an *apierrors.StatusError, or one of the connection.
func (c *Cluster) Read(ctx context.Context, collection string, name types.NamespacedName) (Object, error) {
	client, k, err := c.remote(collection)
	if err != nil {
		return Object{}, err
	}
	raw, err := c.at(client.Get(), k, name).DoRaw(ctx)
	return c.received(k, raw, err)
}

// Version returns an object's current resourceVersion, read from etcd. It fails like Read.
func (c *Cluster) Version(ctx context.Context, collection string, name types.NamespacedName) (string, error) {
	client, k, err := c.remote(collection)
	if err != nil {
		return "", err
	}
	raw, err := c.at(client.Get(), k, name).SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").DoRaw(ctx)
	var found metav1.PartialObjectMetadata
	if err == nil {
		err = json.Unmarshal(raw, &found)
	}
	return found.ResourceVersion, err
}

// Page returns a part of the list of a declared collection, as the API server has it now: at most limit objects, from the place where the
// part before ended, its metadata.continue. It fails like Read.
func (c *Cluster) Page(ctx context.Context, collection string, limit int, from string) ([]byte, error) {
	client, k, err := c.remote(collection)
	if err != nil {
		return nil, err
	}
	request := client.Get().AbsPath(append(c.rows[k].path(), c.rows[k].resource)...).
		SetHeader("Accept", "application/json").Param("limit", strconv.Itoa(limit))
	if from != "" {
		request = request.Param("continue", from)
	}
	return request.DoRaw(ctx)
}

// Latest returns the current resourceVersion of a declared collection, that of a list of its objects. It is not older than the
// question. It fails like Read.
func (c *Cluster) Latest(ctx context.Context, collection string) (string, error) {
	raw, err := c.Page(ctx, collection, 1, "")
	var found struct {
		metav1.ListMeta `json:"metadata"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &found)
	}
	return found.ResourceVersion, err
}

// Exists reports whether a declared collection has an object with a name, in any namespace. The answer is not older
// than the question, and needs no other rights than the watch. It fails like Read.
func (c *Cluster) Exists(ctx context.Context, collection, name string) (bool, error) {
	client, k, err := c.remote(collection)
	if err != nil {
		return false, err
	}
	raw, err := client.Get().AbsPath(append(c.rows[k].path(), c.rows[k].resource)...).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").
		Param("fieldSelector", fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()).DoRaw(ctx)
	var found metav1.PartialObjectMetadataList
	if err == nil {
		err = json.Unmarshal(raw, &found)
	}
	return len(found.Items) > 0, err
}

// Annotate sets one annotation of an object, or removes it if text is empty. If version is not empty, only that version
// is changed. It returns the resulting object, and fails like Read. After an error the write may or may not have
// happened.
func (c *Cluster) Annotate(ctx context.Context, collection string, name types.NamespacedName, version, annotation, text string) (Object, error) {
	client, k, err := c.remote(collection)
	if err != nil {
		return Object{}, err
	}
	var patch struct {
		Metadata struct {
			ResourceVersion string             `json:"resourceVersion,omitempty"`
			Annotations     map[string]*string `json:"annotations"`
		} `json:"metadata"`
	}
	patch.Metadata.ResourceVersion = version
	patch.Metadata.Annotations = map[string]*string{annotation: nil}
	if text != "" {
		patch.Metadata.Annotations[annotation] = &text
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return Object{}, err
	}
	raw, err := c.at(client.Patch(types.MergePatchType), k, name).Param("fieldManager", FieldManager).Body(body).DoRaw(ctx)
	return c.received(k, raw, err)
}

// WriteStatus merges what status encodes to into the status of an object, by its subresource: a null removes a member, and members that
// it lacks stay. It fails like Annotate, with Conflict if the object is no longer at the given resourceVersion, and with NotFound if the
// kind has no such subresource.
func (c *Cluster) WriteStatus(ctx context.Context, collection string, name types.NamespacedName, version string, status any) error {
	client, k, err := c.remote(collection)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]string{"resourceVersion": version}, "status": status})
	if err != nil {
		return err
	}
	request := c.at(client.Patch(types.MergePatchType), k, name).Suffix("status")
	return request.Param("fieldManager", FieldManager).Body(body).Do(ctx).Error()
}

func (c *Cluster) client() (rest.Interface, error) {
	from, ok := c.source.(*server)
	if !ok {
		return nil, errFiles
	}
	return from.client, nil
}

func (c *Cluster) remote(collection string) (rest.Interface, int, error) {
	k, known := c.index[collection]
	if !known {
		return nil, 0, fmt.Errorf("cluster: no collection %s is declared", collection)
	}
	client, err := c.client()
	return client, k, err
}

// at sets the path of a request to an object of a collection.
func (c *Cluster) at(request *rest.Request, k int, name types.NamespacedName) *rest.Request {
	path := c.rows[k].path()
	if c.rows[k].namespaced {
		path = append(path, "namespaces", name.Namespace)
	}
	return request.AbsPath(append(path, c.rows[k].resource, name.Name)...).SetHeader("Accept", "application/json")
}

// received decodes an answer.
func (c *Cluster) received(k int, raw []byte, err error) (Object, error) {
	if err != nil {
		return Object{}, err
	}
	i, err := c.rows[k].decode(raw)
	if err != nil {
		return Object{}, err
	}
	found := Object{Key: i.key, Version: i.version, Kept: i.kept, Annotations: i.annotations}
	if i.err != nil {
		known := false
		if found.Kept, known = c.latest().collected[k].objects.Get(i.key); !known {
			return Object{}, i.err
		}
	}
	return found, nil
}

// Kept is a collection that is needed: its name, and the objects that are kept.
type Kept struct {
	Name       string
	Kind       schema.GroupVersionKind
	Resource   string
	Namespaced bool
	Only       types.NamespacedName // the only one, unless it is zero
}

// Kept returns the collections that are needed.
func (o Options) Kept() (all []Kept) {
	for _, declared := range o.Catalogue {
		if r := declared.row(); slices.Contains(o.Needs, r.name) {
			all = append(all, Kept{r.name, r.kind, r.resource, r.namespaced, r.only})
		}
	}
	return all
}

// Rules returns the RBAC rules that watching the needed collections requires, for a ClusterRole: one for each API
// group, and one for each collection of a single object.
func (o Options) Rules() []rbacv1.PolicyRule {
	verbs := []string{"get", "list", "watch"}
	var rules []rbacv1.PolicyRule
	for _, declared := range o.Catalogue {
		r := declared.row()
		if !slices.Contains(o.Needs, r.name) {
			continue
		}
		var names []string
		if r.only.Name != "" {
			names = []string{r.only.Name}
		}
		same := slices.IndexFunc(rules, func(rule rbacv1.PolicyRule) bool {
			return rule.APIGroups[0] == r.kind.Group && rule.ResourceNames == nil
		})
		if same >= 0 && names == nil {
			if !slices.Contains(rules[same].Resources, r.resource) {
				rules[same].Resources = append(rules[same].Resources, r.resource)
			}
			continue
		}
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{r.kind.Group}, Resources: []string{r.resource}, ResourceNames: names, Verbs: verbs,
		})
	}
	return rules
}
