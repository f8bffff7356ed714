{{- define "rollcall.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of all objects. At most 40 characters: a pod's name, with its number, is a label of a host name. */}}
{{- define "rollcall.fullname" -}}
{{- $name := include "rollcall.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "rollcall.selector" -}}
app.kubernetes.io/name: {{ include "rollcall.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "rollcall.memberSelector" -}}
{{ include "rollcall.selector" . }}
app.kubernetes.io/component: member
{{- end -}}

{{- define "rollcall.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "rollcall.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "rollcall.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "rollcall.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "rollcall.image" -}}
{{- $repository := required "image.repository is empty: name the image that deploy/docker/Dockerfile built for you, such as registry.example.org/rollcall" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "rollcall.auditImage" -}}
{{- $own := .Values.nightlyCheck.image -}}
{{- $tag := printf "%s-audit" (default .Chart.AppVersion .Values.image.tag) -}}
{{- printf "%s:%s" (default .Values.image.repository $own.repository) (default $tag $own.tag) -}}
{{- end -}}

{{/* How many members the list names. */}}
{{- define "rollcall.listed" -}}
{{- $listed := int (default .Values.replicaCount .Values.listedMembers) -}}
{{- if lt $listed (int .Values.replicaCount) -}}
{{- fail (printf "listedMembers is %d, and replicaCount %d: the list has to name all members that run" $listed (int .Values.replicaCount)) -}}
{{- end -}}
{{- $listed -}}
{{- end -}}

{{- define "rollcall.isStandalone" -}}
{{- if eq (include "rollcall.listed" .) "1" }}true{{ end -}}
{{- end -}}

{{/* The members' addresses, one a line. */}}
{{- define "rollcall.members" -}}
{{- $name := include "rollcall.fullname" . -}}
{{- range $number := until (int (include "rollcall.listed" .)) }}
{{ printf "%s-%d.%s-members:8848" $name $number $name }}
{{- end -}}
{{- end -}}

{{- define "rollcall.scheme" -}}
{{- ternary "HTTPS" "HTTP" .Values.tls.enabled -}}
{{- end -}}

{{/* The prefix of paths: empty, or such as /nacos. */}}
{{- define "rollcall.contextPath" -}}
{{- $given := index .Values.settings "server.servlet.contextPath" | default (index .Values.settings "server.servlet.context-path") | default "/nacos" -}}
{{- with trimAll "/" $given }}/{{ . }}{{ end -}}
{{- end -}}

{{- define "rollcall.dnsPort" -}}
{{- if eq (toString (index .Values.settings "rollcall.dns.enabled")) "true" -}}
{{- int (index .Values.settings "rollcall.dns.port" | default 8853) -}}
{{- end -}}
{{- end -}}

{{/* application.properties: the settings, and the names under which browsers reach a member from outside. */}}
{{- define "rollcall.properties" -}}
{{- $settings := deepCopy .Values.settings -}}
{{- $hosts := list -}}
{{- with index $settings "rollcall.http.hosts" }}{{ $hosts = append $hosts . }}{{ end -}}
{{- if .Values.ingress.enabled }}{{ $hosts = concat $hosts .Values.ingress.hosts }}{{ end -}}
{{- if .Values.gateway.http.enabled }}{{ $hosts = concat $hosts .Values.gateway.http.hostnames }}{{ end -}}
{{- if $hosts }}{{ $_ := set $settings "rollcall.http.hosts" (join "," (uniq $hosts)) }}{{ end -}}
{{- range $key, $value := $settings }}
{{ $key }}={{ if kindIs "float64" $value }}{{ int64 $value }}{{ else }}{{ $value | toString | replace "\\" "\\\\" }}{{ end }}
{{- end -}}
{{- end -}}

{{/* Names of Secrets, empty where there is none. */}}
{{- define "rollcall.secret" -}}
{{- if .Values.secrets.existingSecret -}}
{{- .Values.secrets.existingSecret -}}
{{- else if or .Values.secrets.generate .Values.secrets.identityValue .Values.secrets.tokenKey -}}
{{- include "rollcall.fullname" . -}}
{{- end -}}
{{- end -}}

{{- define "rollcall.metricsSecret" -}}
{{- if .Values.metrics.existingSecret -}}
{{- .Values.metrics.existingSecret -}}
{{- else if or .Values.metrics.token .Values.secrets.generate -}}
{{- printf "%s-metrics" (include "rollcall.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "rollcall.administratorSecret" -}}
{{- $given := .Values.auth.administrator -}}
{{- if $given.existingSecret -}}
{{- $given.existingSecret -}}
{{- else if $given.username -}}
{{- printf "%s-administrator" (include "rollcall.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "rollcall.tlsSecret" -}}
{{- if .Values.tls.enabled -}}
{{- default (printf "%s-tls" (include "rollcall.fullname" .)) .Values.tls.existingSecret -}}
{{- end -}}
{{- end -}}

{{/* A value of a Secret of the chart: the given one, or the one in the cluster, or a new one of 64 characters.
     Takes a list of: the root, the Secret's name, the key, the given value, whether it is base64 of what is random. */}}
{{- define "rollcall.secretValue" -}}
{{- $root := index . 0 -}}
{{- $held := lookup "v1" "Secret" $root.Release.Namespace (index . 1) | default dict -}}
{{- $data := get $held "data" | default dict -}}
{{- if index . 3 -}}
{{- index . 3 | b64enc -}}
{{- else if get $data (index . 2) -}}
{{- get $data (index . 2) -}}
{{- else if $root.Release.IsUpgrade -}}
{{- fail (printf "the Secret %s has no %s, and secrets.generate makes one only at the first install: members with different secrets refuse each other. Set the value, or name a Secret in secrets.existingSecret" (index . 1) (index . 2)) -}}
{{- else -}}
{{- $random := randAlphaNum 64 -}}
{{- if index . 4 }}{{ $random = b64enc $random }}{{ end -}}
{{- $random | b64enc -}}
{{- end -}}
{{- end -}}

{{- define "rollcall.resources" -}}
{{- if .Values.resources -}}
{{- toYaml .Values.resources -}}
{{- else -}}
{{- $size := include "rollcall.size" . | fromYaml -}}
requests: {cpu: {{ $size.cpu | quote }}, memory: {{ $size.memory }}}
# No limit of CPU: a member that is throttled looks like one that is gone.
limits: {memory: {{ $size.memoryLimit }}}
{{- end -}}
{{- end -}}

{{- define "rollcall.size" -}}
{{- $size := get .Values.sizes .Values.size -}}
{{- if not $size -}}
{{- fail (printf "size is %q: choose one of %s, or add it to sizes" .Values.size (keys .Values.sizes | sortAlpha | join ", ")) -}}
{{- end -}}
{{- toYaml $size -}}
{{- end -}}

{{- define "rollcall.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10848
runAsGroup: 10848
fsGroup: 10848
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "rollcall.containerSecurity" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* What the schema cannot say: values that need each other. */}}
{{- define "rollcall.check" -}}
{{- $secret := include "rollcall.secret" . -}}
{{- $isCluster := ne (include "rollcall.isStandalone" .) "true" -}}
{{- if and $isCluster (not $secret) -}}
{{- fail "a cluster needs the secret by which its members know each other: set secrets.existingSecret (deploy/secrets.sh k8s NAMESPACE prints one), or secrets.identityValue, or secrets.generate=true" -}}
{{- end -}}
{{- if and .Values.auth.enabled (not $secret) -}}
{{- fail "auth.enabled=true needs the key of users' tokens: set secrets.existingSecret (deploy/secrets.sh k8s NAMESPACE prints one), or secrets.tokenKey, or secrets.generate=true; or set auth.enabled=false" -}}
{{- end -}}
{{- if not (or .Values.secrets.existingSecret .Values.secrets.generate) -}}
{{- if and $isCluster (not .Values.secrets.identityValue) -}}
{{- fail "secrets.identityValue is empty: the members of a cluster need it; or set secrets.generate=true" -}}
{{- end -}}
{{- if and .Values.auth.enabled (not .Values.secrets.tokenKey) -}}
{{- fail "secrets.tokenKey is empty, and auth.enabled is true: make one with openssl rand -base64 48; or set secrets.generate=true" -}}
{{- end -}}
{{- end -}}
{{- $administrator := .Values.auth.administrator -}}
{{- if and $administrator.username (not $administrator.password) -}}
{{- fail "auth.administrator.password is empty, and auth.administrator.username is not: set both, or auth.administrator.existingSecret" -}}
{{- end -}}
{{- if .Values.tls.enabled -}}
{{- if not (or .Values.tls.existingSecret .Values.tls.certManager.issuerRef) -}}
{{- fail "tls.enabled=true needs certificates: set tls.existingSecret, or tls.certManager.issuerRef" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.podMonitor.enabled .Values.auth.enabled (not (include "rollcall.metricsSecret" .)) -}}
{{- fail "metrics.podMonitor needs the token of scrapes, as users are on: set metrics.existingSecret, metrics.token, or secrets.generate=true" -}}
{{- end -}}
{{- if and .Values.nightlyCheck.enabled .Values.auth.enabled (not (or .Values.nightlyCheck.existingSecret (include "rollcall.administratorSecret" .))) -}}
{{- fail "nightlyCheck logs in as an administrator: set nightlyCheck.existingSecret, or auth.administrator" -}}
{{- end -}}
{{- if and .Values.nightlyCheck.enabled (not $isCluster) -}}
{{- fail "nightlyCheck compares members, and this is a single node: set replicaCount=3, or nightlyCheck.enabled=false" -}}
{{- end -}}
{{- $wanted := div (add (int .Values.rollout.leaveGraceMs) 999) 1000 | add 20 | int -}}
{{- if lt (int .Values.rollout.terminationSeconds) $wanted -}}
{{- fail (printf "rollout.terminationSeconds is %d: a member needs rollout.leaveGraceMs and 20 s to leave, so set %d or more" (int .Values.rollout.terminationSeconds) $wanted) -}}
{{- end -}}
{{- end -}}
