{{/* One Deployment. Call with a dict: root, component, roles, account, replicas, resources, answers (whether it serves the webhook),
  shows (whether it is the console, which gets no token, nothing of the webhook's, and no extraEnv and extraVolumes, which may be
  credentials of the others). */}}
{{- define "copyrator.deployment" -}}
{{- $values := .root.Values -}}
{{- $fullname := include "copyrator.fullname" .root -}}
{{- $host := and .answers $values.webhook.hostNetwork -}}
{{- $clientCA := $values.webhook.clientCA -}}
{{- if and $clientCA.secretName $clientCA.configMapName -}}
{{- fail "webhook.clientCA: give secretName or configMapName, not both" -}}
{{- end -}}
{{- $demands := and .answers (or $clientCA.secretName $clientCA.configMapName) -}}
{{- if and $clientCA.names (not (or $clientCA.secretName $clientCA.configMapName)) -}}
{{- fail "webhook.clientCA.names says nothing without secretName or configMapName" -}}
{{- end -}}
{{- $mounted := and (ne $values.certificates.mode "self-managed") (not $values.namespaces) (not .shows) -}}
{{- $extra := ternary dict $values (default false .shows) -}}
{{- $protocol := ternary (include "copyrator.consoleProtocol" .root) "" (default false .shows) -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $fullname }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "copyrator.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  replicas: {{ int .replicas }}
  {{- /* On the node's network a pod more may find no free port. */}}
  {{- if and .answers (not $host) }}
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  {{- end }}
  selector:
    matchLabels:
      {{- include "copyrator.selector" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
  template:
    metadata:
      labels:
        {{- include "copyrator.labelsWith" (list .root $values.podLabels) | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ .account }}
      {{- if .shows }}
      automountServiceAccountToken: false
      {{- end }}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $values.runtimeClassName }}
      runtimeClassName: {{ . }}
      {{- end }}
      {{- with $values.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if $host }}
      hostNetwork: true
      {{- end }}
      {{- with default (ternary "ClusterFirstWithHostNet" "" (default false $host)) $values.dnsPolicy }}
      dnsPolicy: {{ . }}
      {{- end }}
      {{- with $values.dnsConfig }}
      dnsConfig:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      terminationGracePeriodSeconds: 30
      containers:
      - name: copyrator
        image: {{ include "copyrator.image" .root | quote }}
        imagePullPolicy: {{ $values.image.pullPolicy }}
        args:
        - serve
        - --roles={{ .roles }}
        - --namespace=$(POD_NAMESPACE)
        {{- with $values.namespaces }}
        - {{ printf "--namespaces=%s" (join "," .) | quote }}
        {{- if include "copyrator.readsDefinitions" $.root }}
        - --read-definitions=true
        {{- end }}
        {{- else }}
        {{- if $values.webhook.url }}
        - --webhook-url={{ $values.webhook.url }}
        {{- else }}
        - --webhook-service={{ $fullname }}-webhook:{{ int $values.webhook.service.port }}
        {{- end }}
        {{- end }}
        - --admin-addr={{ $values.bindAddress }}:{{ int $values.metrics.port }}
        {{- if .answers }}
        - --webhook-addr={{ $values.bindAddress }}:{{ int $values.webhook.port }}
        {{- with $values.webhook.peerRate }}
        - --peer-rate={{ int64 . }}
        {{- end }}
        {{- end }}
        {{- if .shows }}
        - --console-addr={{ ternary $values.bindAddress "127.0.0.1" (not (empty $protocol)) }}:{{ int $values.console.port }}
        {{- with $values.console.basePath }}
        - --base-path={{ . }}
        {{- end }}
        {{- with $values.console.allowedHosts }}
        - {{ printf "--allowed-hosts=%s" (join "," .) | quote }}
        {{- end }}
        {{- if eq $protocol "https" }}
        - --tls-dir=/certificates
        {{- end }}
        {{- end }}
        {{- if $demands }}
        - --client-ca=/etc/copyrator/client-ca/ca.crt
        {{- with $clientCA.names }}
        - {{ printf "--client-names=%s" (join "," .) | quote }}
        {{- end }}
        {{- end }}
        {{- if $mounted }}
        - --tls-dir=/certificates
        {{- end }}
        {{- if not $values.namespaces }}
        - --owner-cluster-role={{ $fullname }}
        {{- end }}
        - --reconciler-account={{ include "copyrator.reconcilerAccount" .root }}
        - --deletion-grace={{ $values.deletionGrace }}
        - --min-spread-interval={{ $values.minSpreadInterval }}
        - --max-spread-bytes={{ $values.maxSpreadBytes }}
        - --max-copies-per-rule={{ int64 $values.maxCopiesPerRule }}
        - --max-writes-in-flight={{ int $values.maxWritesInFlight }}
        - --max-rollouts={{ int64 $values.maxRollouts }}
        - --sweep-interval={{ $values.sweepInterval }}
        - --annotations={{ $values.annotations }}
        {{- with ($values.copies).kinds }}
        - --copy-kinds={{ join "," . }}
        {{- end }}
        {{- $kinds := list }}
        {{- $written := dict }}
        {{- range ($values.templates).kinds }}
        {{- if has "render" .use }}
        {{- $of := printf "%s of %s" .resource (ternary (first (splitList "/" .apiVersion)) "v1" (contains "/" .apiVersion)) }}
        {{- $name := printf "%s of %s" .kind .apiVersion }}
        {{- if ne $name (default $name (get $written $of)) }}
        {{- fail (printf "templates.kinds: %s and %s are the same objects, %s: write them by one of these kinds only" (get $written $of) $name $of) }}
        {{- end }}
        {{- $_ := set $written $of $name }}
        {{- end }}
        {{- $kinds = append $kinds (printf "%s/%s/%s/%s" .apiVersion .kind .resource (join "+" .use)) }}
        {{- end }}
        {{- with $kinds }}
        - --template-kinds={{ join "," . }}
        {{- end }}
        {{- with $values.systemNamespaces }}
        - --system-namespaces={{ join "," . }}
        {{- end }}
        {{- range $values.trustedWriters }}
        - {{ printf "--trusted-writers=%s" . | quote }}
        {{- end }}
        - --log={{ $values.logFormat }}
        {{- with $values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        env:
        - name: POD_NAMESPACE
          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        # One arena of glibc's allocator takes half the memory of many. Threads that keep 64 free blocks of a size, not 7, wait
        # for its lock less: a tenth less processor for reviews under load, 2 MB more.
        - {name: MALLOC_ARENA_MAX, value: "1"}
        - {name: GLIBC_TUNABLES, value: glibc.malloc.tcache_count=64}
        {{- with $extra.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        ports:
        - {name: metrics, containerPort: {{ int $values.metrics.port }}, protocol: TCP}
        {{- if .answers }}
        - {name: webhook, containerPort: {{ int $values.webhook.port }}, protocol: TCP}
        {{- end }}
        {{- if $protocol }}
        - {name: console, containerPort: {{ int $values.console.port }}, protocol: TCP}
        {{- end }}
        livenessProbe:
          httpGet: {path: /livez, port: metrics}
          initialDelaySeconds: 10
          periodSeconds: 10
          timeoutSeconds: 5
          failureThreshold: 6
        readinessProbe:
          httpGet: {path: /readyz, port: metrics}
          periodSeconds: 2
          timeoutSeconds: 2
          failureThreshold: 3
        {{- if or $demands $mounted .shows $extra.extraVolumeMounts }}
        volumeMounts:
        {{- if .shows }}
        # As the kubelet mounts it, without a token: where the API server's CA is looked for.
        - {name: api-server, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
        {{- end }}
        {{- if eq $protocol "https" }}
        - {name: console-certificate, mountPath: /certificates, readOnly: true}
        {{- end }}
        {{- if $demands }}
        - {name: client-ca, mountPath: /etc/copyrator/client-ca, readOnly: true}
        {{- end }}
        {{- if $mounted }}
        - {name: certificates, mountPath: /certificates, readOnly: true}
        {{- end }}
        {{- with $extra.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- end }}
        {{- with .resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        {{- with $values.securityContext }}
        securityContext:
          {{- toYaml . | nindent 10 }}
        {{- end }}
      {{- if or $demands $mounted .shows $extra.extraVolumes }}
      volumes:
      {{- if .shows }}
      - name: api-server
        projected:
          sources:
          - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
          - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
      {{- end }}
      {{- if eq $protocol "https" }}
      - name: console-certificate
        secret: {secretName: {{ $values.console.tls.secretName | quote }}, items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]}
      {{- end }}
      {{- if $demands }}
      - name: client-ca
        {{- if $clientCA.secretName }}
        secret: {secretName: {{ $clientCA.secretName | quote }}, items: [{key: ca.crt, path: ca.crt}]}
        {{- else }}
        configMap: {name: {{ $clientCA.configMapName | quote }}, items: [{key: ca.crt, path: ca.crt}]}
        {{- end }}
      {{- end }}
      {{- if $mounted }}
      - name: certificates
        secret:
          secretName: {{ include "copyrator.certificates" .root }}
          {{- if not .answers }}
          # Who answers nobody needs no key.
          items: [{key: ca.crt, path: ca.crt}]
          {{- end }}
      {{- end }}
      {{- with $extra.extraVolumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- $own := merge (include "copyrator.selector" .root | fromYaml) (dict "app.kubernetes.io/component" .component) }}
      {{- $apart := dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway" }}
      topologySpreadConstraints:
      {{- range default (list $apart) $values.topologySpreadConstraints }}
      - {{- toYaml . | nindent 8 }}
        {{- if not (hasKey . "labelSelector") }}
        labelSelector:
          matchLabels:
            {{- toYaml $own | nindent 12 }}
        {{- end }}
      {{- end }}
{{- end -}}
