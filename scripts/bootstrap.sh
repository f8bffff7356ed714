# Sourced by the other scripts: sets `root`, and makes the environment in .venv when it is missing or out of date.
# shellcheck shell=bash

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
# Containers often set it; then each start of a node, and tests start hundreds, compiles 400 modules anew.
unset PYTHONDONTWRITEBYTECODE

say() {
    printf '%s\n' "$*" >&2
}

# The first Python that really runs and is new enough; a version manager's stub may be in the path and do neither.
find_python() {
    local candidate
    for candidate in python3.13 python3.12 python3.11 python3; do
        if command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    say "rollcall needs Python 3.11 or newer, and found none in the path (python3.13, python3.12, python3.11, python3)."
    return 1
}

# Debian and Ubuntu keep a part of the venv module in a package of its own.
need_ensurepip() {
    local python=$1 package
    "$python" -c 'import ensurepip' >/dev/null 2>&1 && return
    package=python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing $package, which $python lacks for making environments"
        apt-get update -qq >&2 || true
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >&2 ||
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >&2 || true
        "$python" -c 'import ensurepip' >/dev/null 2>&1 && return
    fi
    say "$python cannot make environments, as its module ensurepip is missing."
    say "Install it and start again; on Debian or Ubuntu: apt-get install $package"
    return 1
}

# install_debian WHAT [OPTION] PACKAGE ...: install packages of Debian; fails where this is none, or we may not.
install_debian() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    say "installing $1"
    apt-get update -qq >&2 || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${@:2}" >&2
}

# install_service NAME WHAT: the same for a package with a service, which is switched off: tests start their own.
install_service() {
    ! install_debian "$2" --no-install-recommends "$1" || systemctl disable --now --quiet "$1" >/dev/null 2>&1 || true
}

# What tests of members in network namespaces call. Where it is missing and cannot be installed, they are skipped.
want_namespace_tools() {
    local tool
    for tool in ip nft; do
        command -v "$tool" >/dev/null 2>&1 && continue
        install_debian "iproute2 and nftables, which cut the networks of members in tests" iproute2 nftables || true
        return 0
    done
}

# What tests ask the DNS server with. Where it is missing and cannot be installed, they are skipped.
want_dig() {
    command -v dig >/dev/null 2>&1 && return
    install_debian "bind9-dnsutils, whose dig asks members in tests" bind9-dnsutils || true
}

# The Prometheus that scrapes members in tests. Where it is missing and cannot be installed, they are skipped.
want_prometheus() {
    { command -v prometheus && command -v promtool; } >/dev/null 2>&1 ||
        install_service prometheus "prometheus, which scrapes members in tests"
    command -v prometheus-node-exporter >/dev/null 2>&1 ||
        install_service prometheus-node-exporter "the node exporter that prometheus scrapes in tests"
}

# The proxies that stand before a node in tests. Where one is missing and cannot be installed, its tests are skipped.
want_proxies() {
    [ -e /usr/sbin/haproxy ] || install_service haproxy "haproxy, which stands before a node in tests"
    [ -e /usr/sbin/nginx ] || install_service nginx "nginx, which stands before a node in tests"
    [ -e /usr/lib/nginx/modules/ngx_stream_module.so ] ||
        install_debian "the module of nginx that forwards gRPC in tests" --no-install-recommends libnginx-mod-stream || true
}

# The browser in which tests open the console. Where it is missing and cannot be installed, they are skipped.
want_browser() {
    local name
    for name in chromium chromium-browser google-chrome; do
        command -v "$name" >/dev/null 2>&1 && return
    done
    install_debian "chromium, in which tests open the console" chromium || true
}

# bootstrap EXTRA: install the project, with the extra unless that is empty, if .venv does not hold it as it is now.
bootstrap() {
    local extra=$1 venv=$root/.venv python wanted stamp
    stamp=$venv/.installed${extra:+-$extra}
    wanted=$(cat "$root/setup.cfg" "$root/pyproject.toml" | cksum)
    # An environment does not survive a move: the commands in it begin with the path of its Python.
    if ! "$venv/bin/python" -c 'import pip' >/dev/null 2>&1 || [ "$(cat "$venv/.place" 2>/dev/null)" != "$venv" ]; then
        python=$(find_python)
        need_ensurepip "$python"
        say "making the environment $venv with $("$python" --version)"
        "$python" -m venv --clear "$venv"
        printf '%s\n' "$venv" >"$venv/.place"
    fi
    # Whoever has all that the tests need has the rest.
    [ "$(cat "$venv/.installed-dev" 2>/dev/null)" != "$wanted" ] || return 0
    if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
        # Earlier environments have the project under the name that a stranger has on PyPI.
        "$venv/bin/python" -m pip uninstall --quiet --yes --disable-pip-version-check rollcall >/dev/null 2>&1 || true
        say "installing rollcall${extra:+ with its extra $extra}; only now, and when setup.cfg changed"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-warn-script-location \
            --editable "$root${extra:+[$extra]}"
        # Whoever has the extra has the rest.
        printf '%s\n' "$wanted" | tee "$stamp" >"$venv/.installed"
    fi
}
