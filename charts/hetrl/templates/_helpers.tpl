{{- define "hetrl.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "hetrl.selector" -}}
app.kubernetes.io/name: hetrl-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* managed-by stays Helm's: the operator's own value is what its watches select jobs' pods by. */ -}}
{{- define "hetrl.labels" -}}
{{ include "hetrl.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: hetrl
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* For the metadata of an object that has no annotations of its own. */ -}}
{{- define "hetrl.annotations" -}}
{{- with .Values.commonAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "hetrl.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "hetrl.name" .) -}}
{{- else -}}
{{- required "serviceAccount.name must name the account when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "hetrl.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "hetrl.tlsSecret" -}}
{{- .Values.progress.existingSecret | default (printf "%s-progress-tls" (include "hetrl.name" .)) -}}
{{- end -}}

{{- define "hetrl.progressHost" -}}
{{- printf "%s.%s.svc" (include "hetrl.name" .) .Release.Namespace -}}
{{- end -}}

{{- define "hetrl.hasPodMonitor" -}}
{{- $enabled := .Values.metrics.podMonitor.enabled -}}
{{- if or (eq $enabled "always") (and (eq $enabled "auto") (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) -}}
true
{{- end -}}
{{- end -}}
