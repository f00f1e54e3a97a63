{{/* Who portald is, and what it may do: of the names of a part of the chart, and whether it watches pods. */}}
{{- define "portald.rbac" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "portald.labels" .root | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .clusterName }}
  labels:
    {{- include "portald.labels" .root | nindent 4 }}
rules:
- apiGroups: [""]
  resources: [services]
  verbs: [list, watch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
- apiGroups: [networking.k8s.io]
  resources: [servicecidrs]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- if .clientPods }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
{{- end }}
{{- if .root.Values.wake.enabled }}
- apiGroups: [apps]
  resources: [deployments/scale, statefulsets/scale, replicasets/scale]
  verbs: [get, update]
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .clusterName }}
  labels:
    {{- include "portald.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .clusterName }}
subjects:
- kind: ServiceAccount
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}
