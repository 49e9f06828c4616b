package api

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPriorityClassOf(t *testing.T) {
	for priority, want := range map[int32]PriorityClass{
		9000: PriorityProd, 9999: PriorityProd, 8999: PriorityNone, 10000: PriorityNone, 9500: PriorityProd,
		7000: PriorityMid, 7999: PriorityMid, 6999: PriorityNone, 8000: PriorityNone,
		5000: PriorityBatch, 5999: PriorityBatch, 4999: PriorityNone, 6000: PriorityNone, 6666: PriorityNone,
		3000: PriorityFree, 3999: PriorityFree, 2999: PriorityNone, 4000: PriorityNone,
		0: PriorityNone, -1: PriorityNone, 2000000000: PriorityNone,
	} {
		if got := priorityClassOf(priority); got != want {
			t.Errorf("%d is %q, want %q", priority, got, want)
		}
	}
	if _, _, ok := PriorityNone.Range(); ok {
		t.Error("no class has a range")
	}
}

func TestPriorityClass(t *testing.T) {
	batch, odd := new(int32(5500)), new(int32(6666))
	named := func(class string) map[string]string { return map[string]string{LabelPriorityClass: class} }
	qos := func(class QoSClass) map[string]string {
		return map[string]string{LabelQoSClass: string(class), LabelPriority: "9999"} // the sub-priority means nothing here
	}
	burstable := container(list("cpu", "1"), nil)
	for name, c := range map[string]struct {
		labels      map[string]string
		priority    *int32
		containers  []corev1.Container
		raw, wanted PriorityClass
	}{
		"by value":                {nil, batch, nil, PriorityBatch, PriorityBatch},
		"the label goes over":     {named("koord-mid"), batch, nil, PriorityMid, PriorityMid},
		"prod by label":           {named("koord-prod"), nil, nil, PriorityProd, PriorityProd},
		"free by label":           {named("koord-free"), nil, nil, PriorityFree, PriorityFree},
		"an unknown label counts": {named("koord-max"), batch, []corev1.Container{burstable}, PriorityNone, PriorityProd},
		"an empty label counts":   {named(""), batch, []corev1.Container{burstable}, PriorityNone, PriorityProd},
		"BE":                      {qos(QoSBE), nil, []corev1.Container{burstable}, PriorityNone, PriorityBatch},
		"BE between the ranges":   {qos(QoSBE), odd, nil, PriorityNone, PriorityBatch},
		"BE of prod":              {qos(QoSBE), new(int32(9000)), nil, PriorityProd, PriorityProd},
		"no QoS class":            {qos("none"), nil, nil, PriorityNone, PriorityBatch},
		"LS":                      {qos(QoSLS), nil, nil, PriorityNone, PriorityProd},
		"LSR":                     {qos(QoSLSR), nil, nil, PriorityNone, PriorityProd},
		"LSE":                     {qos(QoSLSE), nil, nil, PriorityNone, PriorityProd},
		"SYSTEM":                  {qos(QoSSystem), nil, nil, PriorityNone, PriorityProd},
		"no word, nothing asked":  {nil, nil, nil, PriorityNone, PriorityBatch},
		"no word, burstable":      {nil, nil, []corev1.Container{burstable}, PriorityNone, PriorityProd},
	} {
		spec := pod(c.containers...)
		label, labelled := c.labels[LabelPriorityClass]
		if got := RawPriorityClass(label, labelled, c.priority); got != c.raw {
			t.Errorf("%s: raw %q, want %q", name, got, c.raw)
		}
		if got := PriorityClassWithDefault(c.labels, c.priority, func() corev1.PodSpec { return *spec }); got != c.wanted {
			t.Errorf("%s: %q, want %q", name, got, c.wanted)
		}
	}
}
