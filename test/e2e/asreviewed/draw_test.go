package asreviewed

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"usher.dev/usher/e2e/kubetest"
)

// draws draws objects and policies.
type draws struct{ *rand.Rand }

func pick[T any](d draws, of ...T) T { return of[d.IntN(len(of))] }

func (d draws) one(in int) bool { return d.IntN(in) == 0 }

// labels draws some of the labels that the selectors of the policies know.
func (d draws) labels() kubetest.Object {
	all := kubetest.Object{}
	for _, label := range [][]string{{"app", "web", "db"}, {"team", "red", "Blue"}, {"tier", "gold", "iron"}} {
		if d.one(2) {
			all[label[0]] = pick(d, label[1:]...)
		}
	}
	return all
}

// selector draws a selector of labels of objects or Namespaces.
func (d draws) selector(key string, values ...string) kubetest.Object {
	if d.one(3) {
		return kubetest.Object{"matchExpressions": []any{kubetest.Object{"key": key, "operator": pick(d, "Exists", "DoesNotExist")}}}
	}
	return kubetest.Object{"matchLabels": kubetest.Object{key: pick(d, values...)}}
}

// selected adds selectors to an entry of the policy.
func (d draws) selected(entry kubetest.Object, objects string) kubetest.Object {
	if d.one(2) {
		entry["namespaceSelector"] = d.selector("env", "prod", "test")
	}
	if objects != "" && d.one(2) {
		entry[objects] = d.selector(pick(d, "app", "tier"), "web", "gold")
	}
	return entry
}

// sections draw the sections of a policy.
var sections = map[string]func(draws) any{
	"names": func(d draws) any { return kubetest.Object{"denied": []string{"rude"}} },
	"env":   func(d draws) any { return []any{kubetest.Object{"name": "KUBE", "value": "true"}} },
	"lifespan": func(d draws) any {
		return kubetest.Object{"label": "example.com/lifespan", "taint": "example.com/left", "max": 14}
	},
	"restrictions": func(d draws) any {
		return []any{d.selected(kubetest.Object{"name": "who", "message": "ask", "deny": kubetest.Object{"groups": []string{pick(d, "system:masters", "interns")}},
			"requests": []any{kubetest.Object{"apiGroups": []string{""}, "resources": []string{pick(d, "configmaps", "services", "namespaces", "*")}, "operations": []string{"CREATE"}}}}, "")}
	},
	"labelDefaults": func(d draws) any {
		return []any{d.selected(kubetest.Object{"labels": []any{kubetest.Object{"key": "team", "fromNamespaceLabel": "team", "value": "nobody"},
			kubetest.Object{"key": "tier", "value": "gold"}}}, "podSelector")}
	},
	"labelRules": func(d draws) any {
		return []any{d.selected(kubetest.Object{"name": "team", "label": "team", "required": d.one(2), "pattern": "[a-z]+", "workloads": d.one(2)}, "podSelector"),
			kubetest.Object{"name": "tier", "label": "tier", "required": true, "values": []string{"gold", "iron"}, "match": d.match()}}
	},
	"sidecars": func(d draws) any {
		return []any{d.selected(kubetest.Object{"name": "mesh", "optOutAnnotation": "example.com/no-mesh", "containers": []any{kubetest.Object{"name": "mesh", "image": pick(d, "mesh:1", "mesh")}},
			"volumes": []any{kubetest.Object{"name": "certs", "emptyDir": kubetest.Object{}}}, "volumeMounts": []any{kubetest.Object{"name": "certs", "mountPath": "/certs"}}}, "podSelector")}
	},
	"imageRules": func(d draws) any {
		return []any{d.selected(kubetest.Object{"name": "images", "repositories": []string{"registry.example.com/**", "docker.io/library/*"}, "refusedTags": []string{"latest"}}, "podSelector")}
	},
	"requestsFromLimits": func(d draws) any {
		return []any{d.selected(kubetest.Object{"name": "small", "limitCPUToMemoryPercent": 200, "cpuRequestToLimitPercent": 10}, "podSelector")}
	},
	"nodeSelector": func(d draws) any { return kubetest.Object{"clusterDefault": kubetest.Object{"os": "linux"}} },
	"rules": func(d draws) any {
		var all []any
		for i := range 2 + d.IntN(5) {
			of := pick(d, expressions...)
			match := d.selected(kubetest.Object{"apiGroups": []string{of.group}, "resources": []string{of.resource}, "operations": []string{"CREATE", "UPDATE"}}, "objectSelector")
			all = append(all, kubetest.Object{"name": fmt.Sprintf("r%d", i), "match": match, "onError": pick(d, "deny", "deny", "fail"), "validations": []any{kubetest.Object{"expression": of.expression, "message": "no"}}})
		}
		return all
	},
}

// expressions are what rules demand, also of fields that the API server fills in.
var expressions = []struct{ group, resource, expression string }{
	{"", "pods", "object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))"},
	{"", "pods", "object.spec.restartPolicy != 'Never'"},
	{"", "pods", "object.spec.containers.all(c, c.imagePullPolicy == 'IfNotPresent')"},
	{"", "pods", "object.spec.containers.all(c, !has(c.resources.limits) || has(c.resources.requests))"},
	{"", "pods", "namespaceObject.metadata.?labels.team.orValue('') != 'red'"},
	{"", "pods", "request.userInfo.username != 'admin'"},
	{"", "pods", "object.spec.serviceAccountName != 'default'"},
	{"", "pods", "object.spec.tolerations.size() > 0 && object.spec.enableServiceLinks"},
	{"", "pods", "object.metadata.name.startsWith('o') && request.name == object.metadata.name"},
	{"", "pods", "object.metadata.name.size() > 4"},
	{"", "pods", "object.spec.containers.all(c, has(c.resources.limits) && 'memory' in c.resources.limits)"},
	{"", "pods", "object.spec.containers.all(c, c.resources.?requests.cpu.orValue('') == '100m')"},
	{"", "pods", "!('kubernetes.io/limit-ranger' in object.metadata.?annotations.orValue({}))"},
	{"", "*", "object.metadata.?labels.app.hasValue()"},
	{"", "*", "object.metadata.labels.app != 'db'"},
	{"apps", "deployments", "object.spec.replicas <= 3"},
	{"apps", "deployments", "object.spec.strategy.type == 'RollingUpdate'"},
	{"apps", "*", "has(object.spec.updateStrategy) ? object.spec.updateStrategy.type == 'OnDelete' : object.spec.progressDeadlineSeconds > 0"},
	{"apps", "*", "object.spec.template.spec.dnsPolicy == 'ClusterFirst'"},
	{"batch", "jobs", "object.spec.parallelism == 1 && object.spec.backoffLimit < 7"},
	{"batch", "cronjobs", "object.spec.concurrencyPolicy == 'Forbid' || !object.spec.suspend"},
	{"", "configmaps", "object.?data.orValue({}).all(k, k.size() < 4)"},
	{"", "services", "object.spec.type == 'ClusterIP' && object.spec.ports.all(p, p.protocol == 'TCP')"},
	{"", "namespaces", "object.metadata.name.startsWith('o')"},
	{"", "secrets", "object.type == 'Opaque'"},
	{"", "persistentvolumeclaims", "object.spec.volumeMode == 'Filesystem'"},
	{"networking.k8s.io", "networkpolicies", "!('Ingress' in object.spec.?policyTypes.orValue([]))"},
	{"networking.k8s.io", "networkpolicies", "object.spec.?egress.orValue([]).all(e, e.ports.all(p, p.protocol == 'UDP'))"},
	{"autoscaling", "horizontalpodautoscalers", "object.spec.metrics.all(m, m.resource.name != 'cpu')"},
	{"autoscaling", "horizontalpodautoscalers", "object.spec.minReplicas >= 1 && object.spec.?behavior.scaleUp.selectPolicy.orValue('Max') == 'Max'"},
	{"rbac.authorization.k8s.io", "*", "!has(object.subjects) || object.subjects.all(s, s.kind == 'ServiceAccount' || s.apiGroup == 'rbac.authorization.k8s.io')"},
	{"rbac.authorization.k8s.io", "roles", "object.rules == null || object.rules.size() < 2"},
	{"storage.k8s.io", "storageclasses", "object.reclaimPolicy == 'Retain' || object.volumeBindingMode == 'Immediate'"},
	{"scheduling.k8s.io", "priorityclasses", "object.preemptionPolicy != 'PreemptLowerPriority' || object.metadata.name.startsWith('o')"},
	{"policy", "poddisruptionbudgets", "object.spec.?minAvailable.hasValue() || !has(object.spec.unhealthyPodEvictionPolicy)"},
	{"discovery.k8s.io", "endpointslices", "object.ports.all(p, p.protocol == 'TCP' && p.name == '')"},
}

// match draws resources that a rule is for.
func (d draws) match() kubetest.Object {
	return kubetest.Object{"apiGroups": []string{pick(d, "", "apps", "batch")}, "resources": []string{"*"}, "operations": []string{"CREATE", "UPDATE"}}
}

// policy draws some sections, with modes and exceptions.
func (d draws) policy() kubetest.Object {
	all := kubetest.Object{}
	for _, name := range sorted(sections) {
		if d.one(2) {
			all[name] = sections[name](d)
		}
	}
	if all["names"] != nil && d.one(2) {
		all["modes"] = kubetest.Object{"denied-names": pick(d, "warn", "off", "dryrun")}
	}
	if all["names"] != nil && d.one(2) {
		all["overrides"] = []any{kubetest.Object{"name": "late", "steps": []string{"denied-names"}, "namespaceSelector": d.selector("env", "prod", "test"), "mode": "warn", "until": "2099-12-31", "reason": "later"}}
	}
	return all
}

func sorted[V any](of map[string]V) (keys []string) {
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// namespaces draws the Namespaces of a policy: two that have opted in, and one that may have not.
func (d draws) namespaces(round int) (all []kubetest.Object) {
	for i, name := range []string{"a", "b", "c"} {
		labels := kubetest.Object{}
		if i < 2 || d.one(2) {
			labels["admission-webhook"] = "enabled"
		}
		for _, label := range [][]string{{"env", "prod", "test"}, {"team", "red", "Blue"}} {
			if d.IntN(3) > 0 {
				labels[label[0]] = pick(d, label[1:]...)
			}
		}
		all = append(all, kubetest.Decode(kubetest.Encode(kubetest.Object{"apiVersion": "v1", "kind": "Namespace", "metadata": kubetest.Object{"name": fmt.Sprintf("p%d-%s", round, name), "labels": labels}})))
	}
	return all
}

// limitRanges draws LimitRanges of Namespaces: with defaults, and with bounds that refuse some pods. At most one of a Namespace has
// defaults: of several, the API server takes any first.
func (d draws) limitRanges(namespaces []kubetest.Object) (all []kubetest.Object) {
	for _, n := range namespaces {
		defaults := kubetest.Object{"type": "Container", "default": kubetest.Object{"cpu": "500m"}, "defaultRequest": kubetest.Object{"cpu": "100m"}}
		switch d.IntN(5) {
		case 0:
			defaults = kubetest.Object{"type": "Container", "max": kubetest.Object{"memory": pick(d, "512Mi", "1Gi")}}
		case 1:
			defaults = kubetest.Object{"type": "Container", "min": kubetest.Object{"cpu": pick(d, "100m", "750m")}, "default": kubetest.Object{"memory": "64Mi"}}
		case 2:
			defaults["maxLimitRequestRatio"] = kubetest.Object{"cpu": pick(d, "1", "5")}
		}
		bounds := pick(d, kubetest.Object{"type": "Pod", "max": kubetest.Object{"cpu": pick(d, "1", "2")}},
			kubetest.Object{"type": "PersistentVolumeClaim", "max": kubetest.Object{"storage": pick(d, "500Mi", "1Gi")}})
		for i, item := range []kubetest.Object{defaults, bounds} {
			all = append(all, kubetest.Decode(kubetest.Encode(kubetest.Object{"apiVersion": "v1", "kind": "LimitRange",
				"metadata": kubetest.Object{"name": fmt.Sprintf("range-%d", i), "namespace": n.String("metadata", "name")}, "spec": kubetest.Object{"limits": []any{item}}})))
		}
	}
	return slices.DeleteFunc(all, func(kubetest.Object) bool { return !d.one(3) })
}

// clusterScoped are the kinds that are drawn and are in no namespace.
var clusterScoped = []string{"Namespace", "StorageClass", "PriorityClass"}

// object draws an object, one in six of which the API server does not take.
func (d draws) object(i int, namespaces []kubetest.Object) kubetest.Object {
	kind := pick(d, sorted(kinds)...)
	if d.one(3) || strings.Contains(kind, ".k8s.io/") && d.one(2) {
		kind = "v1 Pod"
	}
	version, name, _ := strings.Cut(kind, " ")
	meta := kubetest.Object{"name": fmt.Sprintf("%s%d", pick(d, "o", "o", "rude-"), i), "labels": d.labels()}
	if name == "Pod" && d.one(3) { // the API server names it before it calls validating webhooks
		meta["generateName"] = meta["name"].(string) + "-"
		delete(meta, "name")
	}
	if !slices.Contains(clusterScoped, name) {
		meta["namespace"] = pick(d, namespaces...).String("metadata", "name")
	}
	o := kubetest.Object{"apiVersion": version, "kind": name, "metadata": meta}
	kinds[kind](d, o)
	o = kubetest.Decode(kubetest.Encode(o)) // as read from a file
	if d.one(6) {
		pick(d, faults...)(o)
	}
	return o
}

// kinds draw what objects of a kind have besides their metadata.
var kinds = map[string]func(draws, kubetest.Object){
	"v1 Pod":             func(d draws, o kubetest.Object) { o["spec"] = d.podSpec("Always", "OnFailure", "Never") },
	"apps/v1 Deployment": draws.workload,
	"apps/v1 StatefulSet": func(d draws, o kubetest.Object) {
		d.workload(o)
		o["spec"].(kubetest.Object)["serviceName"] = "x"
	},
	"apps/v1 DaemonSet": func(d draws, o kubetest.Object) {
		d.workload(o)
		delete(o["spec"].(kubetest.Object), "replicas")
	},
	"batch/v1 Job": func(d draws, o kubetest.Object) { o["spec"] = kubetest.Object{"template": d.jobTemplate()} },
	"batch/v1 CronJob": func(d draws, o kubetest.Object) {
		o["spec"] = kubetest.Object{"schedule": "* * * * *", "jobTemplate": kubetest.Object{"spec": kubetest.Object{"template": d.jobTemplate()}}}
	},
	"v1 ConfigMap": func(d draws, o kubetest.Object) { o["data"] = kubetest.Object{pick(d, "key", "longer"): "x"} },
	"v1 Secret":    func(d draws, o kubetest.Object) { o["stringData"] = kubetest.Object{"key": "x"} },
	"v1 Service": func(d draws, o kubetest.Object) {
		o["spec"] = kubetest.Object{"selector": kubetest.Object{"app": "web"}, "ports": []any{kubetest.Object{"port": 80}}}
	},
	"v1 PersistentVolumeClaim": func(d draws, o kubetest.Object) {
		o["spec"] = kubetest.Object{"accessModes": []string{"ReadWriteOnce"}, "storageClassName": "x", "resources": kubetest.Object{"requests": kubetest.Object{"storage": "1Gi"}}}
	},
	"networking.k8s.io/v1 NetworkPolicy": func(d draws, o kubetest.Object) {
		spec := kubetest.Object{"podSelector": kubetest.Object{}}
		if d.one(2) {
			spec["egress"] = []any{kubetest.Object{"ports": []any{kubetest.Object{"port": 53}}}}
		}
		if d.one(3) {
			spec["policyTypes"] = []string{"Egress"}
		}
		o["spec"] = spec
	},
	"autoscaling/v2 HorizontalPodAutoscaler": func(d draws, o kubetest.Object) {
		spec := kubetest.Object{"maxReplicas": 3, "scaleTargetRef": kubetest.Object{"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}}
		if d.one(2) {
			spec["behavior"] = kubetest.Object{"scaleDown": kubetest.Object{"selectPolicy": "Min"}}
		}
		o["spec"] = spec
	},
	"policy/v1 PodDisruptionBudget": func(d draws, o kubetest.Object) {
		o["spec"] = kubetest.Object{"selector": kubetest.Object{}, pick(d, "minAvailable", "maxUnavailable"): 1}
	},
	"rbac.authorization.k8s.io/v1 Role": func(d draws, o kubetest.Object) {
		if d.one(2) {
			o["rules"] = []any{kubetest.Object{"apiGroups": []string{""}, "resources": []string{"pods"}, "verbs": []string{"get"}}}
		}
	},
	"rbac.authorization.k8s.io/v1 RoleBinding": func(d draws, o kubetest.Object) {
		o["roleRef"] = kubetest.Object{"kind": "ClusterRole", "name": "view"}
		o["subjects"] = []any{kubetest.Object{"kind": pick(d, "User", "Group"), "name": "x"}}
	},
	"discovery.k8s.io/v1 EndpointSlice": func(d draws, o kubetest.Object) {
		o["addressType"], o["endpoints"], o["ports"] = "IPv4", []any{kubetest.Object{"addresses": []string{"10.1.2.3"}}}, []any{kubetest.Object{"port": 80}}
	},
	"storage.k8s.io/v1 StorageClass": func(d draws, o kubetest.Object) {
		o["provisioner"] = "example.com/x"
		if d.one(2) {
			o["volumeBindingMode"] = "WaitForFirstConsumer"
		}
	},
	"scheduling.k8s.io/v1 PriorityClass": func(d draws, o kubetest.Object) { o["value"] = 7 },
	"v1 Namespace": func(d draws, o kubetest.Object) {
		if d.one(2) {
			o["metadata"].(kubetest.Object)["labels"].(kubetest.Object)["admission-webhook"] = "enabled"
		}
	},
}

// workload draws the spec of a Deployment.
func (d draws) workload(o kubetest.Object) {
	labels := d.labels()
	labels["name"] = "x"
	template := kubetest.Object{"metadata": kubetest.Object{"labels": labels}, "spec": d.podSpec("Always")}
	spec := kubetest.Object{"selector": kubetest.Object{"matchLabels": kubetest.Object{"name": "x"}}, "template": template}
	if d.one(2) {
		spec["replicas"] = d.IntN(6)
	}
	o["spec"] = spec
}

func (d draws) jobTemplate() kubetest.Object {
	return kubetest.Object{"metadata": kubetest.Object{"labels": d.labels()}, "spec": d.podSpec("OnFailure", "Never")}
}

func (d draws) podSpec(restarts ...string) kubetest.Object {
	var containers []any
	for i := range 1 + d.IntN(2) {
		c := kubetest.Object{"name": fmt.Sprintf("c%d", i), "image": pick(d, "nginx", "nginx:1.29", "registry.example.com/a:1", "elsewhere.example.com/b:latest")}
		if d.one(2) {
			c["resources"] = kubetest.Object{"limits": kubetest.Object{"memory": "1Gi", "cpu": "1"}}
		} else if d.one(3) {
			c["resources"] = kubetest.Object{"requests": kubetest.Object{"cpu": pick(d, "200m", "800m")}}
		}
		containers = append(containers, c)
	}
	spec := kubetest.Object{"containers": containers}
	if restarts[0] != "Always" || d.one(3) {
		spec["restartPolicy"] = pick(d, restarts...)
	}
	if d.one(4) {
		spec["nodeSelector"] = kubetest.Object{"os": pick(d, "linux", "windows")}
	}
	return spec
}

// faults make an object one that the API server refuses itself, where its kind has what they break.
var faults = []func(kubetest.Object){
	func(o kubetest.Object) { delete(metadataOf(o), "name") },
	func(o kubetest.Object) { metadataOf(o)["name"] = "Not_A_Name" },
	func(o kubetest.Object) { metadataOf(o)["labels"] = []any{"a"} },
	func(o kubetest.Object) { metadataOf(o)["labels"] = kubetest.Object{"app": "not a value"} },
	func(o kubetest.Object) { metadataOf(o)["annotations"] = kubetest.Object{"a": 1} },
	func(o kubetest.Object) { o["data"], o["spec"] = kubetest.Object{"a": 1}, "text" },
	func(o kubetest.Object) {
		podSpecOf(o, func(s map[string]any) { delete(s, "containers") })
	},
	func(o kubetest.Object) {
		podSpecOf(o, func(s map[string]any) { s["containers"] = kubetest.Object{"name": "a"} })
	},
	func(o kubetest.Object) {
		podSpecOf(o, func(s map[string]any) { s["containers"].([]any)[0].(map[string]any)["name"] = "" })
	},
	func(o kubetest.Object) {
		podSpecOf(o, func(s map[string]any) { s["containers"] = append(s["containers"].([]any), s["containers"].([]any)[0]) })
	},
	func(o kubetest.Object) {
		podSpecOf(o, func(s map[string]any) {
			s["volumes"] = []any{kubetest.Object{"name": "a", "emptyDir": kubetest.Object{}}, kubetest.Object{"name": "a", "emptyDir": kubetest.Object{}}}
		})
	},
	func(o kubetest.Object) {
		podSpecOf(o, func(s map[string]any) {
			s["containers"].([]any)[0].(map[string]any)["volumeMounts"] = []any{kubetest.Object{"name": "none", "mountPath": "/a"}}
		})
	},
	func(o kubetest.Object) {
		podSpecOf(o, func(s map[string]any) {
			s["hostNetwork"] = true
			s["containers"].([]any)[0].(map[string]any)["ports"] = []any{kubetest.Object{"containerPort": 80, "hostPort": 81}}
		})
	},
	func(o kubetest.Object) { podSpecOf(o, func(s map[string]any) { s["restartPolicy"] = "Sometimes" }) },
	func(o kubetest.Object) {
		if spec, ok := o["spec"].(map[string]any); ok {
			spec["replicas"], spec["suspend"], spec["hostNetwork"] = "three", "no", "yes"
		}
	},
	func(o kubetest.Object) {
		if spec, ok := o["spec"].(map[string]any); ok {
			delete(spec, "selector")
		}
	},
}

// podSpecOf breaks the spec of a pod or a template, if there is one.
func podSpecOf(o kubetest.Object, spoil func(map[string]any)) {
	for _, path := range [][]any{{"spec"}, {"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}} {
		if spec, ok := o.At(path...).(map[string]any); ok && spec["containers"] != nil {
			spoil(spec)
		}
	}
}

func metadataOf(o kubetest.Object) map[string]any { return o["metadata"].(map[string]any) }
