#!/usr/bin/env bash
# Make the secrets of a cluster, at random and new: there are no default ones.
#
#   deploy/secrets.sh compose             into deploy/compose/secrets, which must not be there yet
#   deploy/secrets.sh k8s [NAMESPACE]     as a Secret's manifest on stdout: | kubectl apply -f -
#   deploy/secrets.sh env                 as lines for /etc/rollcall/rollcall.env on stdout
#   deploy/secrets.sh metrics             a token for metrics alone, for a cluster whose secrets were made before it had one
#
# All members of one cluster have the same ones. Keep them: tokens of users end when the key of tokens is another.
# The token for metrics is also Prometheus's, so it is in a file or a Secret without the others.
set -euo pipefail
umask 077

random() {
    python3 -c "import base64, secrets; print(base64.$1(secrets.token_bytes(48)).decode())"
}

# The variables of a member's settings, see docs/settings.md.
settings() {
    printf 'NACOS_CORE_AUTH_SERVER_IDENTITY_KEY=Cluster-Identity\n'
    printf 'NACOS_CORE_AUTH_SERVER_IDENTITY_VALUE=%s\n' "$(random urlsafe_b64encode)"
    printf 'NACOS_CORE_AUTH_ENABLED=true\n'
    printf 'NACOS_CORE_AUTH_PLUGIN_NACOS_TOKEN_SECRET_KEY=%s\n' "$(random b64encode)"
}

# secret NAME NAMESPACE: the beginning of a Secret's manifest, up to its values.
secret() {
    printf 'apiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\n  namespace: %s\ntype: Opaque\nstringData:\n' "$@"
}

case ${1:-} in
compose)
    folder=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)/compose/secrets
    mkdir -- "$folder"
    random urlsafe_b64encode >"$folder/metrics-token"
    {
        settings
        printf 'ROLLCALL_METRICS_TOKEN=%s\n' "$(cat -- "$folder/metrics-token")"
    } >"$folder/rollcall.env"
    random urlsafe_b64encode >"$folder/grafana-password"
    # Grafana and Prometheus read them in containers, as other users.
    chmod 0644 "$folder/grafana-password" "$folder/metrics-token"
    printf 'made %s; keep it, and give it to nobody\n' "$folder" >&2
    ;;
k8s)
    secret rollcall "${2:-default}"
    settings | sed 's/^\([A-Z_]*\)=\(.*\)$/  \1: "\2"/'
    printf -- '---\n'
    secret rollcall-metrics "${2:-default}"
    printf '  token: "%s"\n' "$(random urlsafe_b64encode)"
    ;;
env)
    settings
    printf 'ROLLCALL_METRICS_TOKEN=%s\n' "$(random urlsafe_b64encode)"
    ;;
metrics)
    random urlsafe_b64encode
    ;;
*)
    sed -n '2,/^set/s/^#[ ]\{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
