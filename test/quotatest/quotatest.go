// Package quotatest parses elastic quotas in a short notation, for tests of the tree and the rules.
package quotatest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/api"
)

// Noon is the time of the tests.
var Noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// Object parses an elastic quota in short notation, or returns nil for "": "name@namespace parent=p is-parent=true
// min=cpu:1,memory:2Gi namespaces=a,b". The text of an annotation that begins with ! is used as it is.
func Object(t testing.TB, short string) *api.ElasticQuota {
	t.Helper()
	if short == "" {
		return nil
	}
	words := strings.Fields(short)
	q := api.ElasticQuota{}
	q.Labels, q.Annotations = map[string]string{}, map[string]string{}
	q.Name, q.Namespace, _ = strings.Cut(words[0], "@")
	if q.Namespace == "" {
		q.Namespace = "quotas"
	}
	q.UID = types.UID(q.Namespace + "/" + q.Name)
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "parent", "is-parent", "tree-id", "is-root", "allow-force-update":
			q.Labels["quota.scheduling.koordinator.sh/"+key] = value
		case "min":
			q.Spec.Min = listOf(value)
		case "max":
			q.Spec.Max = listOf(value)
		case "used":
			q.Status.Used = listOf(value)
		case "shared-weight", "admission", "guaranteed":
			q.Annotations["quota.scheduling.koordinator.sh/"+key] = jsonText(value, listOf(value))
		case "namespaces", "max-strict-check-resource-keys":
			q.Annotations["quota.scheduling.koordinator.sh/"+key] = jsonText(value, strings.Split(value, ","))
		case "age": // in hours
			hours, _ := time.ParseDuration(value + "h")
			q.CreationTimestamp = metav1.NewTime(Noon.Add(-hours))
		case "deleting":
			q.DeletionTimestamp = &metav1.Time{Time: Noon}
		case "uid":
			q.UID = types.UID(value)
		default:
			t.Fatalf("what is %s?", word)
		}
	}
	return &q
}

// Objects parses quotas in short notation, one per line.
func Objects(t testing.TB, lines ...string) (objects []*api.ElasticQuota) {
	t.Helper()
	for _, line := range lines {
		for short := range strings.SplitSeq(line, "\n") {
			if q := Object(t, strings.TrimSpace(short)); q != nil {
				objects = append(objects, q)
			}
		}
	}
	return objects
}

func listOf(text string) api.ResourceList {
	if strings.HasPrefix(text, "!") {
		return nil
	}
	return api.ResourceList(Amounts(strings.NewReplacer(":", "=", ",", " ").Replace(text)))
}

func jsonText(short string, value any) string {
	if raw, ok := strings.CutPrefix(short, "!"); ok {
		return raw
	}
	text, _ := json.Marshal(value)
	return string(text)
}

// Amounts parses "cpu=2 memory=4Gi"; "" is a nil list.
func Amounts(short string) corev1.ResourceList {
	if short == "" {
		return nil
	}
	list := corev1.ResourceList{}
	for _, pair := range strings.Fields(short) {
		name, amount, _ := strings.Cut(pair, "=")
		list[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return list
}

// InShort is the inverse of Amounts, sorted.
func InShort(list corev1.ResourceList) string {
	var pairs []string
	for name, amount := range list {
		pairs = append(pairs, fmt.Sprintf("%s=%s", name, amount.String()))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, " ")
}

// WantTexts fails the test unless there are as many texts as wanted, and each contains the parts of the wanted one,
// between " ... ".
func WantTexts(t testing.TB, about string, got []string, wants ...string) {
	t.Helper()
	if len(got) != len(wants) {
		t.Errorf("%s: %s\nwant %q", about, strings.Join(got, "\n\t"), wants)
		return
	}
	for i, want := range wants {
		parts := strings.Split(want, " ... ")
		for _, part := range parts {
			if !strings.Contains(got[i], part) {
				t.Errorf("%s: %s\nwant %q", about, got[i], want)
			}
		}
	}
}
