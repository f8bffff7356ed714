#!/usr/bin/env bash
# Make the secrets of a cluster, at random and new: there are no default ones.
#
#   deploy/secrets.sh compose             into deploy/compose/secrets, which must not be there yet
#   deploy/secrets.sh k8s [NAMESPACE]     as a Secret's manifest on stdout: | kubectl apply -f -
#   deploy/secrets.sh env                 as lines for /etc/rollcall/rollcall.env on stdout
#
# All members of one cluster have the same ones. Keep them: tokens of users end when the key of tokens is another.
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

case ${1:-} in
compose)
    folder=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)/compose/secrets
    mkdir -- "$folder"
    settings >"$folder/rollcall.env"
    random urlsafe_b64encode >"$folder/grafana-password"
    # Grafana reads it in a container, as another user.
    chmod 0644 "$folder/grafana-password"
    printf 'made %s; keep it, and give it to nobody\n' "$folder" >&2
    ;;
k8s)
    printf 'apiVersion: v1\nkind: Secret\nmetadata:\n  name: rollcall\n  namespace: %s\ntype: Opaque\nstringData:\n' "${2:-default}"
    settings | sed 's/^\([A-Z_]*\)=\(.*\)$/  \1: "\2"/'
    ;;
env)
    settings
    ;;
*)
    sed -n '2,/^set/s/^#[ ]\{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
