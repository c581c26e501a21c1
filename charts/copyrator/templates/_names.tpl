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

{{- define "copyrator.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" | quote }}
{{- end -}}

{{/* Labels that are never selected by. Labels given beside ours cannot replace ours: call with a list of the root and theirs. */}}
{{- define "copyrator.labelsWith" -}}
{{- $root := index . 0 -}}
{{- $own := dict
  "app.kubernetes.io/version" $root.Chart.AppVersion
  "app.kubernetes.io/part-of" "copyrator"
  "app.kubernetes.io/managed-by" $root.Release.Service
  "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- $theirs := merge dict (default dict (index . 1)) (default dict $root.Values.commonLabels) -}}
{{- merge (include "copyrator.selector" $root | fromYaml) $own (omit $theirs "app.kubernetes.io/component") | toYaml -}}
{{- end -}}

{{- define "copyrator.labels" -}}
{{ include "copyrator.labelsWith" (list . dict) }}
{{- end -}}

{{- define "copyrator.image" -}}
{{- $registry := default .Values.image.registry (dig "imageRegistry" "" .Values.global) -}}
{{- with $registry }}{{ . }}/{{ end -}}
{{- .Values.image.repository -}}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end -}}
{{- end -}}

{{/* Which Deployments there are: split, combined, or namespaced, where nobody answers. */}}
{{- define "copyrator.topology" -}}
{{ ternary "namespaced" .Values.topology (not (empty .Values.namespaces)) }}
{{- end -}}

{{/* The name of the Deployment whose pods answer the webhook's calls, or reconcile. */}}
{{- define "copyrator.webhook" -}}
{{ include "copyrator.fullname" . }}-{{ ternary "webhook" "reconciler" (eq (include "copyrator.topology" .) "split") }}
{{- end -}}
{{- define "copyrator.reconciler" -}}
{{ include "copyrator.fullname" . }}-reconciler
{{- end -}}

{{/* The ServiceAccounts of these pods. */}}
{{- define "copyrator.webhookAccount" -}}
{{- $names := .Values.serviceAccount.names -}}
{{- if eq (include "copyrator.topology" .) "split" -}}
{{- $name := default (include "copyrator.webhook" .) $names.webhook -}}
{{- if eq $name (include "copyrator.reconcilerAccount" .) -}}
{{- fail "serviceAccount.names: the topology split is for two accounts; give two names, or set topology to combined" -}}
{{- end -}}
{{- $name -}}
{{- else -}}
{{- include "copyrator.reconcilerAccount" . -}}
{{- end -}}
{{- end -}}
{{- define "copyrator.reconcilerAccount" -}}
{{ default (include "copyrator.reconciler" .) .Values.serviceAccount.names.reconciler }}
{{- end -}}

{{- define "copyrator.consoleAccount" -}}
{{- $name := default (printf "%s-console" (include "copyrator.fullname" .)) .Values.serviceAccount.names.console -}}
{{- if has $name (list (include "copyrator.reconcilerAccount" .) (include "copyrator.webhookAccount" .)) -}}
{{- fail "serviceAccount.names.console: the console's account has no right; give it a name of its own" -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* How others reach the console: https, http, or not at all. */}}
{{- define "copyrator.consoleProtocol" -}}
{{- if (.Values.console).enabled -}}
{{- if .Values.console.tls.secretName -}}https{{- else if .Values.console.plainHTTP -}}http{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Secret that others keep the webhook's certificates in. */}}
{{- define "copyrator.certificates" -}}
{{- if eq .Values.certificates.mode "secret" -}}
{{- required "certificates.secretName: which Secret has tls.crt, tls.key and ca.crt?" .Values.certificates.secretName -}}
{{- else -}}
{{- default (printf "%s-webhook-tls" (include "copyrator.fullname" .)) .Values.certificates.secretName -}}
{{- end -}}
{{- end -}}
