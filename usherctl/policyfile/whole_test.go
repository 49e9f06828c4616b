package policyfile_test

import (
	"encoding/json"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/config"
	"usher.dev/usher/routes"
	"usher.dev/usher/usherctl/engine"
)

// TestEveryFieldOfSidecars: the pod that has the sidecars of a policy, which an API server validates for usher, is valid with every field and
// every volume that injections may have, in pods that have what they expect; also if injections have the same names and ports.
func TestEveryFieldOfSidecars(t *testing.T) {
	sidecars := []any{}
	add := func(text string) {
		var in map[string]any
		if err := yaml.Unmarshal([]byte(text), &in); err != nil {
			t.Fatal(text, err)
		}
		in["name"] = fmt.Sprintf("n%d", len(sidecars))
		sidecars = append(sidecars, in)
	}
	for range 2 {
		add(`{"initContainers": [` + aContainer + `], "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 8080}]}]}`)
	}
	add(`{"containers": [{"name": "w", "image": "i", "lifecycle": {"stopSignal": "SIGTERM"},
		"securityContext": {"windowsOptions": {"hostProcess": true, "runAsUserName": "a"}}}], "os": "windows"}`)
	add(`{"containers": [{"name": "w", "image": "i", "securityContext": {"procMount": "Unmasked"}}]}`)
	add(`{"env": [{"name": "A"}, {"name": "a.b"}], "volumeMounts": [{"name": "pods", "mountPath": "/p", "mountPropagation": "Bidirectional"}]}`)
	for _, v := range someVolumes {
		add(`{"volumes": [{"name": "vol", ` + v + `}]}`)
	}
	e, err := engine.New(t.Context(), engine.Cluster{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	policies := [][]any{sidecars}
	for _, in := range sidecars {
		policies = append(policies, []any{in})
	}
	for i, policy := range policies {
		text, err := json.Marshal(map[string]any{"sidecars": policy})
		if err != nil {
			t.Fatal(err)
		}
		parsed, problems := config.Parse(text, routes.Suites().Schema())
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		pod, err := json.Marshal(parsed.Trials()[0].Pod)
		if err != nil {
			t.Fatal(err)
		}
		if v := e.Judge(t.Context(), engine.Request{Operation: admissionv1.Create, Object: pod}); !v.Allowed() {
			t.Errorf("policy %d: %s", i, v.Refusal.Message)
		}
	}
}

// aContainer is a native sidecar that uses every field.
const aContainer = `{"name": "a", "image": "i", "imagePullPolicy": "Always", "restartPolicy": "Always", "terminationMessagePolicy": "File",
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
