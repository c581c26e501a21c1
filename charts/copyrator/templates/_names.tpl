{{- define "copyrator.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "copyrator.labels" -}}
{{ include "copyrator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: copyrator
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "copyrator.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "copyrator.image" -}}
{{- $registry := default .Values.image.registry (dig "imageRegistry" "" .Values.global) -}}
{{- with $registry }}{{ . }}/{{ end -}}
{{- .Values.image.repository -}}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end -}}
{{- end -}}

{{/* The name of the Deployment whose pods answer the webhook's calls, or reconcile. */}}
{{- define "copyrator.webhook" -}}
{{ include "copyrator.fullname" . }}-{{ ternary "webhook" "reconciler" (eq .Values.topology "split") }}
{{- end -}}
{{- define "copyrator.reconciler" -}}
{{ include "copyrator.fullname" . }}-reconciler
{{- end -}}

{{/* The Secret that others keep the webhook's certificates in. */}}
{{- define "copyrator.certificates" -}}
{{- if eq .Values.certificates.mode "secret" -}}
{{- required "certificates.secretName: which Secret has tls.crt, tls.key and ca.crt?" .Values.certificates.secretName -}}
{{- else -}}
{{- default (printf "%s-webhook-tls" (include "copyrator.fullname" .)) .Values.certificates.secretName -}}
{{- end -}}
{{- end -}}
