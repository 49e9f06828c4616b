package oracle

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// sidecars draws injections: one that is well, with some of its fields replaced.
type sidecars struct{ *rand.Rand }

// entry draws an injection.
func (r *sidecars) entry(i int) entry {
	e := entry{Name: fmt.Sprintf("n%d", i)}
	switch r.IntN(5) {
	case 0, 1:
		e.Containers = []corev1.Container{r.container("a")}
		if r.IntN(5) == 0 {
			e.Containers = append(e.Containers, r.container("b"))
		}
		for i, c := range e.Containers {
			if p := c.RestartPolicy; p != nil && *p == corev1.ContainerRestartPolicyAlways { // a rule of usher's own
				e.Containers[i].RestartPolicy, e.Containers[i].RestartPolicyRules = nil, nil
			}
		}
	case 2:
		e.InitContainers = []corev1.Container{r.container("a")}
	default:
		e.Volumes = []corev1.Volume{r.volume()}
	}
	if r.IntN(4) == 0 {
		v := r.volume()
		v.Name = choose(r, "v", "w", "d")
		e.Volumes = append(e.Volumes, v)
	}
	return e
}

func choose[T any](r *sidecars, all ...T) T { return all[r.IntN(len(all))] }

// aContainer is well as a native sidecar, and without the restart policy as a container. It uses every field.
const aContainer = `{"name": %q, "image": "i", "imagePullPolicy": "Always", "restartPolicy": "Always", "terminationMessagePolicy": "File",
	"ports": [{"name": "http", "containerPort": 80, "protocol": "TCP", "hostPort": 8080}, {"containerPort": 81}],
	"env": [{"name": "A", "value": "x"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
		{"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
		{"name": "D", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}, {"name": "E", "valueFrom": {"secretKeyRef": {"name": "c", "key": "k"}}},
		{"name": "F", "valueFrom": {"fileKeyRef": {"volumeName": "f", "path": "p", "key": "k"}}}],
	"envFrom": [{"prefix": "P", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}],
	"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a/b"}, {"name": "w", "mountPath": "/w", "readOnly": true, "recursiveReadOnly": "Enabled"},
		{"name": "v", "mountPath": "/x", "mountPropagation": "None", "subPathExpr": "c"}],
	"volumeDevices": [{"name": "d", "devicePath": "/dev/d"}],
	"resources": {"limits": {"cpu": "2", "memory": "1Gi", "example.com/gpu": "1", "hugepages-2Mi": "4Mi"}, "requests": {"cpu": "1", "ephemeral-storage": "1Gi"},
		"claims": [{"name": "r"}, {"name": "q", "request": "one"}]},
	"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}, {"resourceName": "memory", "restartPolicy": "RestartContainer"}],
	"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}],
	"livenessProbe": {"httpGet": {"path": "/", "port": "http", "scheme": "HTTP", "httpHeaders": [{"name": "A", "value": "b"}]}, "periodSeconds": 1},
	"readinessProbe": {"tcpSocket": {"port": 80}, "successThreshold": 2}, "startupProbe": {"grpc": {"port": 80}, "terminationGracePeriodSeconds": 5},
	"lifecycle": {"postStart": {"exec": {"command": ["a"]}}, "preStop": {"sleep": {"seconds": 1}}},
	"securityContext": {"runAsUser": 1, "runAsGroup": 1, "procMount": "Default", "seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "Localhost", "localhostProfile": "p"},
		"capabilities": {"add": ["NET_ADMIN"]}, "allowPrivilegeEscalation": true}}`

// optional are the fields that a drawn container may lack, so that fewer rules meet in one.
var optional = []string{"LivenessProbe", "ReadinessProbe", "StartupProbe", "Lifecycle", "RestartPolicyRules", "SecurityContext", "VolumeDevices", "Resources"}

func (r *sidecars) container(name string) corev1.Container {
	var c corev1.Container
	decode(fmt.Sprintf(aContainer, name), &c)
	for _, field := range optional {
		if r.IntN(2) == 0 {
			reflect.ValueOf(&c).Elem().FieldByName(field).SetZero()
		}
	}
	if r.IntN(2) == 0 {
		c.RestartPolicy, c.RestartPolicyRules = nil, nil
	}
	if name == "b" {
		c.Ports = c.Ports[1:]
	}
	if r.IntN(8) == 0 {
		c.SecurityContext = &corev1.SecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{RunAsUserName: new(string)}}
		*c.SecurityContext.WindowsOptions.RunAsUserName = choose(r, "user", `DOMAIN\user`, `a.example\user`, `a\b\c`, "", "a/b", `\user`, `...\u`, "a b", `a-\u`)
	}
	r.mutate(&c)
	return c
}

// someVolumes are volumes of every source.
var someVolumes = []string{
	`"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}`, `"hostPath": {"path": "/x", "type": "File"}`,
	`"secret": {"secretName": "s", "defaultMode": 256, "items": [{"key": "k", "path": "p", "mode": 256}]}`,
	`"configMap": {"name": "c", "defaultMode": 256, "items": [{"key": "k", "path": "p/q"}]}`,
	`"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.labels"}}, {"path": "q", "resourceFieldRef": {"containerName": "a", "resource": "limits.memory", "divisor": "1Mi"}}]}`,
	`"projected": {"defaultMode": 256, "sources": [{"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}}, {"configMap": {"name": "c", "items": [{"key": "k", "path": "q"}]}},
		{"downwardAPI": {"items": [{"path": "r", "fieldRef": {"fieldPath": "metadata.annotations['a']"}}]}}, {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}`,
	`"projected": {"sources": [{"clusterTrustBundle": {"name": "a", "path": "p"}}, {"podCertificate": {"signerName": "a.example/b", "keyType": "ED25519", "maxExpirationSeconds": 3600, "keyPath": "k", "certificateChainPath": "c"}}]}`,
	`"csi": {"driver": "csi.example.com", "nodePublishSecretRef": {"name": "s"}}`,
	`"ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "c", "volumeMode": "Block",
		"resources": {"requests": {"storage": "1Gi"}}, "selector": {"matchLabels": {"a": "b"}}, "dataSource": {"kind": "PersistentVolumeClaim", "name": "p"}}}}`,
	`"image": {"reference": "i", "pullPolicy": "Always"}`, `"persistentVolumeClaim": {"claimName": "c"}`, `"nfs": {"server": "s", "path": "/p"}`,
	`"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:storage.disk1", "lun": 1, "initiatorName": "iqn.1994-05.com.redhat:node1"}`,
	`"fc": {"targetWWNs": ["a"], "lun": 1}`, `"fc": {"wwids": ["a"]}`, `"flexVolume": {"driver": "a.example/b", "options": {"a": "b"}}`,
	`"azureFile": {"secretName": "s", "shareName": "t"}`, `"azureDisk": {"diskName": "d", "diskURI": "https://a", "cachingMode": "None", "kind": "Shared"}`,
	`"cephfs": {"monitors": ["m"]}`, `"rbd": {"monitors": ["m"], "image": "i"}`, `"cinder": {"volumeID": "v", "secretRef": {"name": "s"}}`,
	`"gcePersistentDisk": {"pdName": "p", "partition": 1}`, `"awsElasticBlockStore": {"volumeID": "v", "partition": 1}`, `"gitRepo": {"repository": "r", "directory": "d"}`,
	`"glusterfs": {"endpoints": "e", "path": "p"}`, `"flocker": {"datasetName": "n"}`, `"quobyte": {"registry": "a:1,b:2", "volume": "v", "tenant": "t"}`,
	`"vsphereVolume": {"volumePath": "p"}`, `"photonPersistentDisk": {"pdID": "p"}`, `"portworxVolume": {"volumeID": "v"}`,
	`"scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "s"}}`, `"storageos": {"volumeName": "v", "volumeNamespace": "n", "secretRef": {"name": "s"}}`,
}

func (r *sidecars) volume() corev1.Volume {
	var v corev1.Volume
	decode(`{"name": "vol", `+choose(r, someVolumes...)+`}`, &v)
	r.mutate(&v)
	return v
}

func decode(text string, into any) {
	if err := json.Unmarshal([]byte(text), into); err != nil {
		panic(err)
	}
}

// mutate replaces up to two fields.
func (r *sidecars) mutate(object any) {
	for range r.IntN(3) {
		for !r.replace(reflect.ValueOf(object).Elem()) {
		}
	}
}

// replace replaces one value in v, and reports whether it did.
func (r *sidecars) replace(v reflect.Value) bool {
	switch v.Interface().(type) {
	case resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse(choose(r, "0", "1", "2", "-1", "1m", "1500m", "0.0001", "1Mi", "3Mi", "2Gi", "1k", "1E"))))
		return true
	case intstr.IntOrString:
		v.Set(reflect.ValueOf(choose(r, intstr.FromInt32(0), intstr.FromInt32(80), intstr.FromInt32(99999), intstr.FromString("http"), intstr.FromString("HTTP_"), intstr.FromString(""))))
		return true
	case metav1.Time, metav1.FieldsV1:
		return false
	}
	switch v.Kind() {
	case reflect.Struct:
		return v.NumField() > 0 && r.replace(v.Field(r.IntN(v.NumField())))
	case reflect.Pointer:
		if v.IsNil() && r.IntN(3) > 0 {
			return false // an absent field seldom becomes one
		} else if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		} else if r.IntN(6) == 0 {
			v.SetZero()
			return true
		}
		return r.replace(v.Elem())
	case reflect.Slice:
		return r.replaceList(v)
	case reflect.Map:
		return r.replaceMap(v)
	case reflect.String:
		v.SetString(choose(r, texts...))
	case reflect.Bool:
		v.SetBool(!v.Bool())
	default:
		v.SetInt(choose[int64](r, 0, 1, 2, 20, 80, 255, 256, 511, 600, 3600, 65535, 65536, 99999, 511, 512, -1, 1<<31-1))
	}
	return true
}

func (r *sidecars) replaceList(v reflect.Value) bool {
	switch n := v.Len(); {
	case v.Type().Elem().Kind() == reflect.Uint8:
		return false
	case n == 0 || r.IntN(10) == 0:
		v.Set(reflect.Append(v, reflect.New(v.Type().Elem()).Elem()))
		return r.replace(v.Index(v.Len() - 1))
	case r.IntN(10) == 0:
		v.Set(reflect.Append(v, v.Index(0)))
	case r.IntN(10) == 0:
		v.SetZero()
	default:
		return r.replace(v.Index(r.IntN(n)))
	}
	return true
}

func (r *sidecars) replaceMap(v reflect.Value) bool {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	key := reflect.New(v.Type().Key()).Elem()
	if keys := v.MapKeys(); len(keys) > 0 && r.IntN(2) == 0 {
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) // so that a seed repeats the choice
		key.Set(choose(r, keys...))
	} else {
		key.SetString(choose(r, append(texts, "cpu", "hugepages-2Mi", "hugepages-3", "hugepages-x", "hugepages--1", "example.com/x", "requests.cpu", "requests.example.com/x",
			"kubernetes.io/x", "x.kubernetes.io/x", "a.K8s.io/x", "storage", "pods", strings.Repeat("a", 57)+".example/gpu")...))
	}
	value := reflect.New(v.Type().Elem()).Elem()
	r.replace(value)
	v.SetMapIndex(key, value)
	return true
}

// texts are values that some field may have, and values that are nearly so.
var texts = []string{
	"", " ", "a", "A", "v", "w", "d", "f", "a-", "-a", "a_b", "a.b", "a b", "1", "1a", "=", "a=b", "é", "http", "/", "/v", "/w", "/dev/d", "a/b", "a//b", "./a", "..", "../a", "a/../b", "..a", "a/..", "a..b",
	"/a/../b", `C:\x`, "Always", "always", "IfNotPresent", "Never", "OnFailure", "TCP", "tcp", "SCTP", "HTTP", "HTTPS", "https", "File", "FallbackToLogsOnError", "Memory",
	"None", "HostToContainer", "Bidirectional", "Enabled", "Disabled", "IfPossible", "cpu", "memory", "NotRequired", "RestartContainer", "Restart", "RestartAllContainers", "In", "NotIn",
	"Default", "Unmasked", "RuntimeDefault", "Localhost", "Unconfined", "SIGTERM", "SIGRTMIN+15", "SIGRTMAX-15", "SIGRTMAX-1", "TERM", "v1", "v2", "metadata.name", "metadata.nam",
	"metadata.labels", "metadata.labels['a/b']", "metadata.labels['a b']", "metadata.annotations['A/b']", "metadata.name['a']", "spec.nodeName", "spec.host", "spec.restartPolicy", "status.podIPs", "status.phase",
	"limits.cpu", "requests.memory", "limits.hugepages-2Mi", "limits.pods", "limits.ephemeral-storage", "Directory", "Socket", "DirectoryOrCreate", "ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "Block",
	"Filesystem", "PersistentVolumeClaim", "Shared", "Managed", "Dedicated", "ReadOnly", "https://x", "/subscriptions/x", "a:1", "a:1,b", "iqn.2001-04.com.example:x", "iqn.2001", "eui.0123456789abcdef",
	"naa.0123456789abcdef0123456789abcdef", "iqnx iqn.2001-04.com:a", "RSA4096", "CAP_SYS_ADMIN", strings.Repeat("a", 64), strings.Repeat("a", 254), strings.Repeat("p", 5000),
}
