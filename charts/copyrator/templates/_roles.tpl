{{/* The roles of this install, as YAML: those of rbac.yaml, each with its namespace and the rules that are there in it. */}}
{{- define "copyrator.roles" -}}
{{- $text := .Files.Get "rbac.yaml" | replace "$(NAME)" (include "copyrator.fullname" .) -}}
{{- $isSelfManaged := eq .Values.certificates.mode "self-managed" -}}
{{- $holds := dict "always" true "self-managed" $isSelfManaged "mounted" (not $isSelfManaged) "annotations" .Values.annotations -}}
{{- $parts := dict "allNamespaces" (list .Release.Namespace) -}}
{{- if .Values.namespaces -}}
{{- $parts = dict "ownNamespace" (list .Release.Namespace) "eachNamespace" .Values.namespaces -}}
{{- if include "copyrator.readsDefinitions" . -}}
{{- $parts = set $parts "definitions" (list .Release.Namespace) -}}
{{- end -}}
{{- end -}}
{{- range $part, $namespaces := $parts -}}
{{- range $namespace := $namespaces -}}
{{- range get ($text | replace "$(NAMESPACE)" (quote $namespace) | fromYaml) $part -}}
{{- $rules := list -}}
{{- range .rules -}}
{{- if and (get $holds (default "always" .when)) (or (not .copies) (has .copies (($.Values.copies).kinds | default list))) -}}
{{- $rule := omit . "when" "copies" "bind" -}}
{{- with and .bind (($.Values.copies).bind | default list) -}}
{{- $rule = merge (dict "resourceNames" .) $rule -}}
{{- end -}}
{{- if .templates -}}
{{- range (($.Values.templates).kinds | default list) -}}
{{- if has $rule.templates .use -}}
{{- $group := ternary (first (splitList "/" .apiVersion)) "" (contains "/" .apiVersion) -}}
{{- $filled := omit $rule "templates" | toJson | replace "$(GROUP)" $group | replace "$(RESOURCE)" .resource -}}
{{- $rules = append $rules (fromJson $filled) -}}
{{- end -}}
{{- end -}}
{{- else if or (not .bind) $rule.resourceNames -}}
{{- $rules = append $rules $rule -}}
{{- end -}}
{{- end -}}
{{- end }}
- {{ merge (dict "namespace" (ternary $namespace "" (eq .kind "Role")) "rules" $rules) . | toJson }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Name, namespace and labels of a role or its binding: call with a list of the root and the role. */}}
{{- define "copyrator.roleMetadata" -}}
{{- $role := index . 1 -}}
name: {{ $role.name }}
{{- with $role.namespace }}
namespace: {{ . | quote }}
{{- end }}
labels:
  {{- include "copyrator.labels" (index . 0) | nindent 2 }}
{{- end -}}

{{/* "true" where an install that looks at some namespaces reads the definitions of our kinds, which takes a ClusterRole. */}}
{{- define "copyrator.readsDefinitions" -}}
{{- if and .Values.namespaces .Values.crds.enabled .Values.rbac.definitions -}}
true
{{- end -}}
{{- end -}}
