{{- define "evictd.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "evictd.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "evictd.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "evictd.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "evictd.selectorLabels" -}}
app.kubernetes.io/name: {{ include "evictd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "evictd.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "evictd.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* evictd.podLabels has podLabels over those of the chart. */ -}}
{{- define "evictd.podLabels" -}}
{{- mergeOverwrite .own .root.Values.podLabels | toYaml }}
{{- end }}

{{- define "evictd.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "evictd.fullname" .) }}
{{- end }}

{{- define "evictd.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "evictd.serviceAccountName" . }}
{{- end }}

{{- /* evictd.kubectl is the command kubectl evictd for this release. */ -}}
{{- define "evictd.kubectl" -}}
{{- range $variable, $value := dict "EVICTD_NAMESPACE" .Release.Namespace "EVICTD_NAME" (include "evictd.fullname" .) -}}
{{- if ne $value "evictd" -}}
{{ $variable }}={{ $value }} {{ end -}}
{{- end -}}
kubectl evictd
{{- end }}

{{- /* evictd.healthzBindAddress is where the kubelet probes evictd. */ -}}
{{- define "evictd.healthzBindAddress" -}}
{{- .Values.config.healthzBindAddress | default "127.0.0.1:10268" }}
{{- end }}

{{- /* evictd.metricsElsewhere is empty if no other machine reaches the metrics. */ -}}
{{- define "evictd.metricsElsewhere" -}}
{{- if not (regexFind "^(127[.]|\\[::1])" (.Values.config.metricsBindAddress | default "127.")) }}{{ .Values.config.metricsBindAddress }}{{ end }}
{{- end }}

{{- define "evictd.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- /* evictd.observes is "true" if evictd has no right to evict: in a dry run, unless observe is false. */ -}}
{{- define "evictd.observes" -}}
{{- if and .Values.observe (not .Values.dryRun) }}
{{- fail "observe: true has no right to evict, and dryRun: false would evict; want one of them" }}
{{- end }}
{{- if kindIs "bool" .Values.observe }}{{ .Values.observe }}{{ else }}{{ .Values.dryRun }}{{ end }}
{{- end }}

{{- /* evictd.config is evictd.yaml. */ -}}
{{- define "evictd.config" -}}
{{- $config := deepCopy .Values.config }}
{{- range $signal, $_ := $config.evictionSoft }}
{{- if not (hasKey ($config.evictionSoftGracePeriod | default dict) $signal) }}
{{- fail (printf "config.evictionSoft: %s has no grace period; want one in config.evictionSoftGracePeriod, such as {%s: 1m30s}" $signal $signal) }}
{{- end }}
{{- end }}
{{- $paths := .Values.hostPaths }}
{{- $_ := mergeOverwrite $config (dict "mode" "kubernetes" "dryRun" .Values.dryRun "observe" (eq (include "evictd.observes" .) "true") "rootDir" "/host" "healthzBindAddress" (include "evictd.healthzBindAddress" .) "runDir" "/run/evictd/daemon" "stateDir" "/var/lib/evictd" "pluginDir" "/run/evictd-plugins" "kubeletRootDir" $paths.kubeletRootDir "podLogsDir" $paths.podLogsDir "runtimeEndpoint" (printf "unix:///host%s" $paths.runtimeSocket)) }}
{{- if .Values.besideKubelet.check }}
{{- $_ := set $config "besideKubelet" (eq .Values.besideKubelet.config "running" | ternary "running" (printf "/host%s" .Values.besideKubelet.config)) }}
{{- end }}
{{- $plugins := $config.plugins | default dict }}
{{- $_ := set $plugins "disk" (merge ($plugins.disk | default dict) (dict "config" (dict "containerLogsDir" $paths.containerLogsDir))) }}
{{- range .Values.plugins }}
{{- $_ := set $plugins .name (omit . "name" "image" "path" "container" "command" "args" "env" "resources" "securityContext" "volumeMounts" "volumes") }}
{{- end }}
{{- $_ := set $config "plugins" $plugins }}
{{- toYaml $config }}
{{- end }}

{{- /* evictd.podsFor tells the pods that the ConfigMap is for, by what replaces them when it changes, a few at a time: all but
which plugins are disabled. */ -}}
{{- define "evictd.podsFor" -}}
{{- $config := include "evictd.config" . | fromYaml }}
{{- range $name, $settings := $config.plugins }}
{{- if not (unset $settings "disabled") }}
{{- $_ := unset $config.plugins $name }}
{{- end }}
{{- end }}
{{- $files := list (include "evictd.image" .) }}
{{- range .Values.plugins }}
{{- $files = append $files (pick . "name" "image" "path" "container" "command" "args" "env" "resources" "securityContext" "volumeMounts" "volumes" "writablePaths" "capabilities") }}
{{- end }}
{{- list $config $files | toJson | sha256sum | trunc 16 }}
{{- end }}

{{- define "evictd.initContainer" -}}
resources:
  {{- toYaml .root.Values.resources | nindent 2 }}
{{ include "evictd.installer" . }}
{{- end }}

{{- define "evictd.installer" -}}
securityContext:
  {{- mergeOverwrite (dict "readOnlyRootFilesystem" true "allowPrivilegeEscalation" false) (omit .root.Values.securityContext "privileged" "allowPrivilegeEscalation") (dict "capabilities" (dict "drop" (list "ALL"))) | toYaml | nindent 2 }}
volumeMounts:
  - name: {{ .volume }}
    mountPath: /{{ .volume }}
{{- end }}
