{{/* All settings of the role, under the user's own: a map with config and portaldConfig. */}}
{{- define "portald.settings" -}}
{{- $role := printf "roles/%s.yaml" .Values.role | .Files.Get | fromYaml -}}
{{- $own := dict -}}
{{- with .Values.connectionLog }}{{ $own = dict "connectionLog" . }}{{ end -}}
{{- dict "config" (mustMergeOverwrite $role.config .Values.config)
  "portaldConfig" (mustMergeOverwrite $role.portaldConfig $own .Values.portaldConfig) | toYaml -}}
{{- end }}

{{/* The port of ADDRESS:PORT, or what follows where that is empty; nothing when it is 0, which turns the server off. */}}
{{- define "portald.port" -}}
{{- $port := first . | default (last .) | splitList ":" | last -}}
{{- if ne $port "0" }}{{ $port }}{{ end -}}
{{- end }}

{{- define "portald.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The name of what has no namespace: one role can be tried while the other is there. */}}
{{- define "portald.clusterName" -}}
{{ if eq .Values.role "beside" }}portald-beside{{ else }}portald{{ end }}
{{- end }}

{{- define "portald.labels" -}}
app.kubernetes.io/name: portald
app.kubernetes.io/version: {{ .Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* Settings that contradict each other. */}}
{{- define "portald.validate" -}}
{{- $s := include "portald.settings" . | fromYaml -}}
{{- $kubeconfig := dig "clientConnection" "kubeconfig" "" $s.config -}}
{{- if and (eq .Values.role "replace") (not .Values.apiServer.host) (not $kubeconfig) -}}
{{- fail "apiServer.host: is needed to replace kube-proxy: an address of the API server that works without a service proxy" -}}
{{- end -}}
{{- if and .Values.podMonitor.enabled (regexMatch "^(127\\.|\\[::1\\]|$)|:0$" $s.config.metricsBindAddress) -}}
{{- fail (printf "podMonitor.enabled: Prometheus cannot reach config.metricsBindAddress %q: give one such as 0.0.0.0:10249" $s.config.metricsBindAddress) -}}
{{- end -}}
{{- end }}
