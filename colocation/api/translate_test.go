package api

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestTranslate(t *testing.T) {
	for _, c := range []struct {
		class PriorityClass
		name  corev1.ResourceName
		want  corev1.ResourceName
		ok    bool
	}{
		{PriorityBatch, "cpu", "kubernetes.io/batch-cpu", true},
		{PriorityBatch, "memory", "kubernetes.io/batch-memory", true},
		{PriorityMid, "cpu", "kubernetes.io/mid-cpu", true},
		{PriorityMid, "memory", "kubernetes.io/mid-memory", true},
		{PriorityBatch, "ephemeral-storage", "ephemeral-storage", false},
		{PriorityMid, "nvidia.com/gpu", "nvidia.com/gpu", false},
		{PriorityBatch, ResourceBatchCPU, ResourceBatchCPU, false},
		{PriorityFree, "cpu", "cpu", false},
		{PriorityProd, "cpu", "cpu", false},
		{PriorityNone, "memory", "memory", false},
	} {
		if got, ok := Translate(c.class, c.name); got != c.want || ok != c.ok {
			t.Errorf("%s %s is %s %v, want %s %v", c.class, c.name, got, ok, c.want, c.ok)
		}
	}
}

func TestTranslateAmount(t *testing.T) {
	for _, c := range []struct {
		name         corev1.ResourceName
		native, want string
	}{
		{"cpu", "500m", "500"}, {"cpu", "1", "1k"}, {"cpu", "2", "2k"}, {"cpu", "1500m", "1500"}, {"cpu", "0.0015", "2"}, {"cpu", "1100u", "2"},
		{"cpu", "1n", "1"}, {"cpu", "0", "0"}, {"cpu", "1e3", "1M"}, {"cpu", "1Ki", "1024k"}, {"cpu", "1000.000000001", "1000001"},
		{"cpu", "1234567890123.123456789", "1234567890123124"}, {"cpu", "9223372036854774", "9223372036854774k"},
		{"cpu", "9223372036854775", "9223372036854775807"}, {"cpu", "9E", "9223372036854775807"},
		{"memory", "1Gi", "1Gi"}, {"memory", "100M", "100M"}, {"memory", "1e9", "1e9"}, {"memory", "1536", "1536"}, {"memory", "1024Mi", "1Gi"},
	} {
		native := resource.MustParse(c.native)
		if got := TranslateAmount(c.name, native); got.String() != c.want {
			t.Errorf("%s %s is %s, want %s", c.name, c.native, got.String(), c.want)
		}
		if native.Cmp(resource.MustParse(c.native)) != 0 {
			t.Errorf("%s %s became %s", c.name, c.native, native.String())
		}
	}
	if got := milliCores(resource.MustParse("1")); got.Format != resource.DecimalSI {
		t.Errorf("the format is %s", got.Format)
	}
}
