package oracle

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/usherctl/engine"
)

// quotaOf draws a ResourceQuota. Of several that are exceeded, the API server names any.
func quotaOf(d drawer, namespace string) *unstructured.Unstructured {
	hard := object{}
	for _, resource := range []string{"pods", "count/configmaps", "services", "services.loadbalancers", "services.nodeports", "count/jobs.batch",
		"fast.storageclass.storage.k8s.io/persistentvolumeclaims", "requests.example.com/gpu"} {
		if d.chance(30) {
			hard[resource] = one(d, "0", "1", "2", "3")
		}
	}
	for _, resource := range []string{"requests.cpu", "limits.memory", "requests.storage"} {
		if d.chance(30) {
			hard[resource] = one(d, "1500m", "2Gi")
		}
	}
	spec := object{"hard": hard}
	if d.chance(30) {
		spec["hard"] = object{"pods": one(d, "1", "2")}
		spec["scopes"] = list(one(d, "BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "PriorityClass"))
	} else if d.chance(15) {
		spec["hard"] = object{"pods": "1"}
		spec["scopeSelector"] = object{"matchExpressions": list(object{"scopeName": "PriorityClass", "operator": "In", "values": list("high")})}
	}
	return made("v1", "ResourceQuota", "quota", namespace, object{"spec": spec})
}

// counted draws an object that quotas count.
func counted(d drawer, name, namespace string) *unstructured.Unstructured {
	resources := object{}
	if d.chance(70) {
		resources["requests"] = object{"cpu": one(d, "500m", "1"), "memory": "1Gi"}
		resources["limits"] = object{"cpu": "2", "memory": one(d, "1Gi", "2Gi")}
	}
	if d.chance(20) {
		resources["limits"] = object{"example.com/gpu": "1"}
	}
	pod := object{"containers": list(object{"name": "a", "image": "b", "resources": resources})}
	if d.chance(30) {
		pod["activeDeadlineSeconds"] = int64(60)
	}
	if d.chance(30) {
		pod["priorityClassName"] = "high"
	}
	switch d.IntN(8) {
	case 0:
		return made("v1", "ConfigMap", name, namespace, object{})
	case 1:
		return made("v1", "Service", name, namespace, object{"spec": object{"type": one(d, "ClusterIP", "NodePort", "LoadBalancer"),
			"ports": list(object{"port": int64(80)})}})
	case 2:
		return made("v1", "PersistentVolumeClaim", name, namespace, object{"spec": object{"accessModes": list("ReadWriteOnce"),
			"storageClassName": one(d, "fast", "standard"), "resources": object{"requests": object{"storage": "1Gi"}}}})
	case 3:
		return made("batch/v1", "Job", name, namespace, object{"spec": object{"template": object{"spec": object{
			"restartPolicy": "Never", "containers": list(object{"name": "a", "image": "b"})}}}})
	}
	return made("v1", "Pod", name, namespace, object{"spec": pod})
}

// withQuota stores a Namespace with a quota and a ServiceAccount, and returns the first two as files.
func withQuota(t *testing.T, s *server, d drawer, namespace string) []*unstructured.Unstructured {
	t.Helper()
	files := []*unstructured.Unstructured{made("v1", "Namespace", namespace, "", object{}), quotaOf(d, namespace)}
	for _, o := range append(files, made("v1", "ServiceAccount", "default", namespace, object{})) {
		if err := s.storeUncounted(o); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestQuotas: what objects of files use of a quota is what the API server counts as it stores them, one after the other.
func TestQuotas(t *testing.T) {
	s := theServer(t)
	base, err := theCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("USHER_ORACLE_SEED=%d", seed)
	codes := map[int]int{}
	for i := range draws / 8 {
		d, namespace := newDrawer(seed, 7_000_000+i), fmt.Sprintf("quota%d", i)
		files := withQuota(t, s, d, namespace)
		for n := range 6 {
			o := counted(d, fmt.Sprintf("o%d", n), namespace)
			judged := compare(t, s, engine.Cluster{Objects: slices.Concat(base, files)}, []drawn{request(o, fmt.Sprintf("%s, %d", namespace, n))})
			for code := range judged {
				codes[code]++
			}
			if judged[http.StatusCreated] == 0 {
				continue
			}
			if err := s.store(o); err != nil {
				t.Fatal(err)
			}
			files = append(files, o)
		}
	}
	t.Logf("codes %v", codes)
}

// TestQuotaSequences: requests one after the other use of a quota what they use in an API server that stores them, alone or several alike.
func TestQuotaSequences(t *testing.T) {
	s := theServer(t)
	base, err := theCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("USHER_ORACLE_SEED=%d", seed)
	codes := map[int]int{}
	for i := range draws / 8 {
		d, namespace := newDrawer(seed, 8_000_000+i), fmt.Sprintf("sequence%d", i)
		files := withQuota(t, s, d, namespace)
		e, err := engine.New(t.Context(), engine.Cluster{Objects: slices.Concat(base, files)})
		if err != nil {
			t.Fatal(err)
		}
		q := sequence{server: s, engine: e, used: engine.Used{}, codes: codes}
		for n := range 10 {
			q.next(t, d, counted(d, fmt.Sprintf("o%d", n), namespace))
		}
		e.Close()
	}
	t.Logf("codes %v", codes)
}

// sequence are requests of which the engine keeps what they use, and which the server stores.
type sequence struct {
	*server
	engine *engine.Engine
	used   engine.Used
	codes  map[int]int
	stored []*unstructured.Unstructured
}

// next creates an object, or several with the content of a pod, or changes the last Service.
func (q *sequence) next(t *testing.T, d drawer, o *unstructured.Unstructured) {
	t.Helper()
	r, count, name := request(o, "").Request, int64(1), o.GetName()
	if last := len(q.stored) - 1; last >= 0 && q.stored[last].GetKind() == "Service" && d.chance(60) {
		old, err := q.server.stored(q.stored[last])
		if err != nil {
			t.Fatal(err)
		}
		r.Old, _ = old.MarshalJSON()
		_ = unstructured.SetNestedField(old.Object, one(d, "ClusterIP", "NodePort", "LoadBalancer"), "spec", "type")
		r.Object, _ = old.MarshalJSON()
		r.Operation, name = admissionv1.Update, old.GetName()
	} else if o.GetKind() == "Pod" && d.chance(40) {
		count = int64(d.IntN(4))
	}
	r.DryRun, r.Count, r.Used = false, &count, q.used
	v, fit, refused := q.engine.Judge(t.Context(), r), int64(0), answer{}
	for ; fit < count; fit++ {
		each := r
		each.Object = bytes.ReplaceAll(r.Object, []byte(`"`+name+`"`), fmt.Appendf(nil, `"%s-%d"`, name, fit))
		if count == 1 {
			each = r
		}
		a, err := q.request(each, false)
		if err != nil {
			t.Fatal(err)
		}
		if q.codes[a.Code]++; a.Code >= http.StatusBadRequest {
			refused = a
			break
		}
	}
	if v.Fit != fit || v.Allowed() != (fit == count) {
		t.Errorf("%s: %d of %d fit, of the server %d: %v, %v", r.Object, v.Fit, count, fit, v.Refusal, refused)
	}
	if !v.Allowed() && strings.ReplaceAll(refused.String(), fmt.Sprintf(`"%s-%d"`, name, fit), `"`+name+`"`) != ofVerdict(v).String() {
		t.Errorf("%s\n%s\nof the server: %s", r.Object, ofVerdict(v), refused)
	}
	if v.Allowed() && count == 1 && r.Operation == admissionv1.Create {
		q.stored = append(q.stored, o)
	}
}

// storeUncounted stores an object; of a ResourceQuota, nothing is used, as its controller would tell.
func (s *server) storeUncounted(o *unstructured.Unstructured) error {
	o = o.DeepCopy()
	if hard, is, _ := unstructured.NestedMap(o.Object, "spec", "hard"); is {
		used := object{}
		for resource := range hard {
			used[resource] = "0"
		}
		o.Object["status"] = object{"hard": hard, "used": used}
	}
	return s.store(o)
}
