{{- define "muster.name" -}}
{{- $base := ternary .Release.Name (printf "%s-muster" .Release.Name) (contains "muster" .Release.Name) -}}
{{- .Values.fullnameOverride | default (printf "%s-operator" (trunc 40 $base | trimSuffix "-")) -}}
{{- end -}}

{{/* The operator's NetworkPolicy for jobs knows its pods by app.kubernetes.io/name. */}}
{{- define "muster.selectorLabels" -}}
app.kubernetes.io/name: muster-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "muster.labels" -}}
{{ include "muster.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: muster
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "muster.testLabels" -}}
app.kubernetes.io/name: muster-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "muster.image" -}}
{{ .image.repository }}:{{ .image.tag | default .chart.AppVersion }}
{{- end -}}

{{- define "muster.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "muster.name" .) }}
{{- else -}}
{{ required "serviceAccount.name is needed with serviceAccount.create false" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "muster.tokenKeySecret" -}}
{{ .Values.tokenKey.existingSecret | default (printf "%s-token-key" (include "muster.name" .)) }}
{{- end -}}

{{- define "muster.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "muster.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* What the operator does where the jobs are, and no more. */}}
{{- define "muster.rules" -}}
- apiGroups: [muster.dev]
  resources: [trainingjobs]
  verbs: [list, watch, delete]
- apiGroups: [muster.dev]
  resources: [trainingjobs/status]
  verbs: [update]
# Some clusters ask for this of whoever sets blockOwnerDeletion.
- apiGroups: [muster.dev]
  resources: [trainingjobs/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, create]
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [create, patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}
