{{- define "usher.labels" -}}
app.kubernetes.io/name: usher
{{- end }}

{{- define "usher.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- /* The security context of the pods. OpenShift's SCC refuses users that a pod names itself. */}}
{{- define "usher.podSecurity" -}}
runAsNonRoot: true
{{- if ne .Values.certs "openshift" }}
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "usher.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "usher.pull" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Where pods may run. The Jobs follow the service: on nodes that all have taints, nothing would register it. */}}
{{- define "usher.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{- /* The pod that registers usher, or tests how it is registered: How are its first flags. */}}
{{- define "usher.webhooks" -}}
volumes:
- name: policy
  configMap:
    name: usher-policy
serviceAccountName: usher-webhooks
automountServiceAccountToken: true
{{- with include "usher.pull" . | trim }}
{{- . | nindent 0 }}
{{- end }}
{{- with include "usher.placement" . | trim }}
{{- . | nindent 0 }}
{{- end }}
securityContext: {{- include "usher.podSecurity" . | nindent 2 }}
containers:
- name: apply
  image: {{ include "usher.image" . | quote }}
  {{- with .Values.image.pullPolicy }}
  imagePullPolicy: {{ . }}
  {{- end }}
  resources:
    requests: {cpu: 10m, memory: 256Mi}
    limits: {memory: 256Mi} # as the service: the policy is loaded here, too
  securityContext: {{- include "usher.containerSecurity" . | nindent 4 }}
  volumeMounts:
  - {name: policy, mountPath: /etc/usher/policy, readOnly: true}
  args:
  - webhooks
  - apply
  {{- range .How }}
  - {{ . | quote }}
  {{- end }}
  - --config=/etc/usher/policy/policy.yaml
  {{- range .Values.excludeNamespaces }}
  - {{ print "--exclude-namespace=" . | quote }}
  {{- end }}
  {{- if ne (join "," .Values.suites) "core" }}
  - --suite={{ join "," .Values.suites }}
  {{- end }}
  {{- if has .Values.certs (list "cert-manager" "openshift") }}
  - --inject={{ .Values.certs }}
  {{- end }}
  {{- with .Values.featureGates }}
  - {{ print "--feature-gates=" . | quote }}
  {{- end }}
  {{- if ne .Release.Namespace "usher" }}
  - --service={{ .Release.Namespace }}/usher
  {{- end }}
  {{- range .Values.webhooks.failOpen }}
  - {{ print "--fail-open=" . | quote }}
  {{- end }}
  {{- range .Values.webhooks.failClosed }}
  - {{ print "--fail-closed=" . | quote }}
  {{- end }}
  {{- if .Values.webhooks.skipKubelets }}
  - --skip-kubelets
  {{- end }}
  {{- range .Values.webhooks.args }}
  - {{ . | quote }}
  {{- end }}
{{- end }}
