{{/* All settings of the role, under the user's own: a map with config and portaldConfig. */}}
{{- define "portald.settings" -}}
{{- $role := printf "roles/%s.yaml" .Values.role | .Files.Get | fromYaml -}}
{{- $own := dict -}}
{{- with .Values.connectionLog }}{{ $own = dict "connectionLog" . }}{{ end -}}
{{- dict "config" (mustMergeOverwrite $role.config .Values.config)
  "portaldConfig" (mustMergeOverwrite $role.portaldConfig $own .Values.portaldConfig) | toYaml -}}
{{- end }}

{{/* The same of Windows nodes: nothing of config and portaldConfig is theirs, since both are for Linux. */}}
{{- define "portald.windowsSettings" -}}
{{- $role := .Files.Get "roles/windows.yaml" | fromYaml -}}
{{- dict "config" (mustMergeOverwrite $role.config .Values.windows.config)
  "portaldConfig" (mustMergeOverwrite $role.portaldConfig .Values.windows.portaldConfig) | toYaml -}}
{{- end }}

{{/* The file of a ConfigMap, of such a map. */}}
{{- define "portald.documents" -}}
config.yaml: |
  {{- mustMergeOverwrite (dict "apiVersion" "kubeproxy.config.k8s.io/v1alpha1" "kind" "KubeProxyConfiguration") .config
    | toYaml | nindent 2 }}
  ---
  {{- mustMergeOverwrite (dict "apiVersion" "portald.io/v1alpha1" "kind" "PortaldConfiguration") .portaldConfig
    | toYaml | nindent 2 }}
{{- end }}

{{/* The port of ADDRESS:PORT, or what follows where that is empty; nothing when it is 0, which turns the server off. */}}
{{- define "portald.port" -}}
{{- $port := first . | default (last .) | splitList ":" | last -}}
{{- if ne $port "0" }}{{ $port }}{{ end -}}
{{- end }}

{{/* The admin socket in the container; nothing when there is none. */}}
{{- define "portald.socket" -}}
{{- dig "adminSocket" "/run/portald/admin.sock" (include "portald.settings" . | fromYaml).portaldConfig -}}
{{- end }}

{{- define "portald.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "portald.windowsImage" -}}
{{ .Values.windows.image.repository | default .Values.image.repository }}:
{{- .Values.windows.image.tag | default (printf "%s-windows" (.Values.image.tag | default .Chart.AppVersion)) }}
{{- end }}

{{/* The name of what has no namespace, and of a folder on the nodes: one role can be tried while the other is there. */}}
{{- define "portald.clusterName" -}}
{{ if eq .Values.role "beside" }}portald-beside{{ else }}portald{{ end }}
{{- end }}

{{- define "portald.labels" -}}
app.kubernetes.io/name: portald
app.kubernetes.io/version: {{ .Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "portald.windowsLabels" -}}
{{ include "portald.labels" . | replace "app.kubernetes.io/name: portald" "app.kubernetes.io/name: portald-windows" }}
{{- end }}

{{/* Settings that contradict each other. */}}
{{- define "portald.validate" -}}
{{- $s := include "portald.settings" . | fromYaml -}}
{{- $kubeconfig := dig "clientConnection" "kubeconfig" "" $s.config -}}
{{- if and (eq .Values.role "replace") (not .Values.apiServer.host) (not $kubeconfig) -}}
{{- fail "apiServer.host: is needed to replace kube-proxy: an address of the API server that works without a service proxy" -}}
{{- end -}}
{{- if not (dig "mode" "" $s.config) -}}
{{- fail "config.mode: is needed to replace kube-proxy: userspace, iptables, nftables or ipvs" -}}
{{- end -}}
{{- if and .Values.windows.enabled (ne .Values.role "replace") -}}
{{- fail (printf "windows.enabled: role %s is for Linux nodes only: on a Windows node portald replaces kube-proxy" .Values.role) -}}
{{- end -}}
{{- if and .Values.windows.enabled (ne (dig "mode" "userspace" .Values.windows.config) "userspace") -}}
{{- fail (printf "windows.config.mode: %s needs the kernel of Linux; leave it out, or write userspace" .Values.windows.config.mode) -}}
{{- end -}}
{{- $surge := not (has (toString .Values.maxSurge) (list "0" "0%")) -}}
{{- if eq $surge (not (has (toString .Values.maxUnavailable) (list "0" "0%"))) -}}
{{- fail "maxSurge, maxUnavailable: one of them has to be 0: the new pod of a node starts beside the old one, or after it" -}}
{{- end -}}
{{- if and $surge (not (include "portald.socket" .)) -}}
{{- fail "maxSurge: has to be 0 without portaldConfig.adminSocket: a new pod finds the old one by the folder of that socket" -}}
{{- end -}}
{{- if and .Values.keep.enabled (semverCompare "<1.29.0-0" .Capabilities.KubeVersion.Version) -}}
{{- fail "keep.enabled: needs Kubernetes 1.29: before, an init container that stays keeps portald from starting" -}}
{{- end -}}
{{- if and .Values.keep.enabled (eq (dig "engine" "" $s.portaldConfig) "goroutine") -}}
{{- fail "keep.enabled: portaldConfig.engine goroutine gives nothing to a keeper: leave the engine out" -}}
{{- end -}}
{{- if and $s.portaldConfig.ui (not $s.portaldConfig.readOnlyAPI) -}}
{{- fail "portaldConfig.ui: needs portaldConfig.readOnlyAPI: every user of the node may read what the page shows" -}}
{{- end -}}
{{- if and .Values.podMonitor.enabled (regexMatch "^(127\\.|\\[::1\\]|$)|:0$" $s.config.metricsBindAddress) -}}
{{- fail (printf "podMonitor.enabled: Prometheus cannot reach config.metricsBindAddress %q: give one such as 0.0.0.0:10249" $s.config.metricsBindAddress) -}}
{{- end -}}
{{- end }}
