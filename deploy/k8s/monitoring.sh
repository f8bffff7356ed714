#!/usr/bin/env bash
# Print what the Prometheus operator and Grafana in Kubernetes need, from the rules and dashboards of deploy/:
#
#   deploy/k8s/monitoring.sh | kubectl apply -n NAMESPACE -f -
#
# NAMESPACE is that of the members, which has the Secret rollcall-metrics. The operator takes PodMonitor and PrometheusRules
# that its Prometheus selects: set LABELS='release: NAME' if it selects by a label. Grafana's sidecar takes ConfigMaps with
# the label grafana_dashboard.
set -euo pipefail
deploy=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
labels="app.kubernetes.io/name: rollcall${LABELS:+, $LABELS}"

# indented SPACES FILE
indented() {
    sed "s/^\(.\)/$1\1/" -- "$2"
}

# rule NAME FILE
rule() {
    printf -- '---\napiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n'
    printf 'metadata:\n  name: %s\n  labels: {%s}\nspec:\n' "$1" "$labels"
    indented '  ' "$2"
}

# dashboard NAME FILE
dashboard() {
    printf -- '---\napiVersion: v1\nkind: ConfigMap\n'
    printf 'metadata:\n  name: %s\n  labels: {%s, grafana_dashboard: "1"}\ndata:\n  %s.json: |\n' "$1" "$labels" "$1"
    indented '    ' "$2"
}

cat <<YAML
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: rollcall
  labels: {$labels}
spec:
  # The job's name is rollcall, as the rules have it.
  jobLabel: app.kubernetes.io/name
  selector:
    matchLabels: {app.kubernetes.io/name: rollcall}
  podMetricsEndpoints:
    - port: http
      path: /metrics
      authorization:
        credentials: {name: rollcall-metrics, key: token}
      relabelings:
        # A target's instance is the member's address in the member list: rules and dashboards rely on that.
        - sourceLabels: [__meta_kubernetes_pod_name]
          targetLabel: instance
          replacement: \$1.rollcall-members:8848
YAML
rule rollcall-node "$deploy/prometheus-node-rules.yml"
rule rollcall-audit "$deploy/prometheus-rules.yml"
dashboard rollcall-node "$deploy/grafana-node.json"
dashboard rollcall-audit "$deploy/grafana-dashboard.json"
