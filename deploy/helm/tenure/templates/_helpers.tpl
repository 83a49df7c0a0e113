{{- define "tenure.name" -}}
{{- if contains "tenure" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-tenure" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tenure.selector" -}}
app.kubernetes.io/name: tenure
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tenure.labels" -}}
{{ include "tenure.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "tenure.scheme" -}}
{{ if .Values.tls.secret }}https{{ else }}http{{ end }}
{{- end }}

{{- /* Pods need names of their own if they have disks, or certificates. */ -}}
{{- define "tenure.kind" -}}
{{ if or (eq .Values.store "embedded") .Values.tls.secret }}StatefulSet{{ else }}Deployment{{ end }}
{{- end }}

{{- /* What tenure itself would refuse to start with, told before anything is installed. */ -}}
{{- define "tenure.check" -}}
{{- if and (not .Values.access.secret) (not .Values.access.acceptNoAuth) }}
{{- fail "set access.secret to a Secret with an access file (tenure access init), or access.acceptNoAuth=true where networkPolicy.from keeps all others out" }}
{{- end }}
{{- if and .Values.access.secret .Values.access.acceptNoAuth }}
{{- fail "access.secret and access.acceptNoAuth exclude each other" }}
{{- end }}
{{- if and .Values.access.secret (not .Values.tls.secret) (not .Values.tls.acceptPlaintext) }}
{{- fail "set tls.secret to a Secret with tls.crt and tls.key, or tls.acceptPlaintext=true where a service mesh encrypts: tokens would cross the network in plain text" }}
{{- end }}
{{- with .Values.networkPolicy }}
{{- if and .enabled .egress.enabled (ne $.Values.store "embedded") (not .egress.store) }}
{{- fail "set networkPolicy.egress.store to a rule that reaches the store: with networkPolicy.egress.enabled the pods connect to nothing else" }}
{{- end }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled .Values.access.secret (not .Values.serviceMonitor.tokenSecret) }}
{{- fail "set serviceMonitor.tokenSecret: with an access file, only a principal with the right observe reads the metrics" }}
{{- end }}
{{- end }}

{{- /* Numbers of YAML are floating-point numbers to Helm. */ -}}
{{- define "tenure.value" -}}
{{- if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}
