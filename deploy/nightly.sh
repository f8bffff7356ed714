#!/usr/bin/env bash
# The nightly run: dump all members, then check the dump. Settings come from the environment: see audit.env.example.
# Exit code: 0 agreed; 1 divergent; 2 could not judge, also for a time-out; 3 another run is under way.
set -euo pipefail

AGREED=0 DIVERGENT=1 UNJUDGED=2 LOCKED=3
KILL_AFTER_S=30

home=${ROLLCALL_AUDIT_HOME:-$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)}
state=${ROLLCALL_AUDIT_STATE:-/var/lib/rollcall-audit}
dumps=${ROLLCALL_AUDIT_DUMPS:-$state/dumps}
results=${ROLLCALL_AUDIT_RESULTS:-$state/results}
keep_days=${ROLLCALL_AUDIT_KEEP_DAYS:-30}
night=$(date -u +%F)
dump=("$home/.venv/bin/rollcall" dump)
if [ -n "${ROLLCALL_AUDIT_DUMP:-}" ]; then
    read -ra dump <<<"$ROLLCALL_AUDIT_DUMP"
fi
check=("$home/.venv/bin/rollcall" check)
if [ -n "${ROLLCALL_AUDIT_CHECK:-}" ]; then
    read -ra check <<<"$ROLLCALL_AUDIT_CHECK"
fi
read -ra dump_options <<<"${ROLLCALL_AUDIT_DUMP_OPTIONS:-}"
read -ra check_options <<<"${ROLLCALL_AUDIT_CHECK_OPTIONS:-}"

finished=
verdict_file=
# A command of this script that fails ends it with a code of its own, such as 1, which would pass for a verdict.
# shellcheck disable=SC2329  # called by the trap
at_exit() {
    rm -f -- ${verdict_file:+"$verdict_file"}
    [ -n "$finished" ] || exit "$UNJUDGED"
}
trap at_exit EXIT

# What is printed to 3 leaves the script, for cron to mail; all else goes to the log, when there is one.
exec 3>&1
if [ -n "${ROLLCALL_AUDIT_LOG:-}" ]; then
    exec >>"$ROLLCALL_AUDIT_LOG" 2>&1
fi

say() {
    printf '%s nightly: %s\n' "$(date -u +%FT%TZ)" "$*" >&2
}

# Say it last, to the log and to whoever started this, and end.
finish() {
    local code=$1
    shift
    finished=yes
    say "$* (exit code $code)"
    if [ "$code" -ne "$AGREED" ] && [ -n "${ROLLCALL_AUDIT_LOG:-}" ]; then
        printf 'rollcall nightly check: %s (exit code %s)\n' "$*" "$code" >&3
    fi
    exit "$code"
}

mkdir -p -- "$state" || finish "$UNJUDGED" "$state cannot be made"
# Opened for appending, so that the file of a run under way is not changed. The commands inherit the lock: it is held
# until the last of them is gone, even when this script was killed.
exec 9>>"$state/nightly.lock" || finish "$UNJUDGED" "$state/nightly.lock cannot be written"
flock --nonblock 9 || finish "$LOCKED" "another run is under way"

child=
# shellcheck disable=SC2329  # called by the trap
stopped() {
    trap '' TERM INT
    if [ -n "$child" ]; then
        kill -TERM "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    finish "$UNJUDGED" "stopped from outside"
}
trap stopped TERM INT
verdict_file=$(mktemp)

# Run a command under a time-out, and return its exit code; 124 or 137 when it took too long.
limited() {
    local limit=$1 code=0
    shift
    timeout --kill-after="$KILL_AFTER_S" "$limit" "$@" &
    child=$!
    wait "$child" || code=$?
    child=
    return "$code"
}

if [ -n "${ROLLCALL_AUDIT_FROM_CLUSTER:-}" ]; then
    members=(--from-cluster "$ROLLCALL_AUDIT_FROM_CLUSTER")
elif [ -n "${ROLLCALL_AUDIT_MEMBERS:-}" ]; then
    members=(--members "$ROLLCALL_AUDIT_MEMBERS")
else
    finish "$UNJUDGED" "neither ROLLCALL_AUDIT_MEMBERS nor ROLLCALL_AUDIT_FROM_CLUSTER is set"
fi
if [ -n "${ROLLCALL_AUDIT_USER:-}" ]; then
    members+=(--user "$ROLLCALL_AUDIT_USER")
fi

say "dump of the night $night to $dumps"
dump_limit=${ROLLCALL_AUDIT_DUMP_TIMEOUT:-1h}
dump_code=0
limited "$dump_limit" "${dump[@]}" "${members[@]}" --out "$dumps" --date "$night" --keep "$keep_days" \
    ${dump_options[@]+"${dump_options[@]}"} || dump_code=$?
case $dump_code in
0) dump_failed= ;;
1) dump_failed= && say "a member is absent" ;; # a finding of the check, which so must not say "agreed"
124 | 137) dump_failed="the dump took over $dump_limit" ;;
*) dump_failed="the dump failed with exit code $dump_code" ;;
esac

# Also without a dump: then the check says so where its verdicts are read, to the alert URL and in the metrics.
arguments=(--dumps "$dumps" --out "$results" --night "$night" --keep "$keep_days")
if [ -n "${ROLLCALL_AUDIT_ALERT_URL:-}" ]; then
    arguments+=(--alert-url "$ROLLCALL_AUDIT_ALERT_URL")
    if [ -n "${ROLLCALL_AUDIT_ALERT_FORMAT:-}" ]; then
        arguments+=(--alert-format "$ROLLCALL_AUDIT_ALERT_FORMAT")
    fi
    if [ -n "${ROLLCALL_AUDIT_ALERT_CLUSTER:-}" ]; then
        arguments+=(--alert-cluster "$ROLLCALL_AUDIT_ALERT_CLUSTER")
    fi
fi
if [ -n "${ROLLCALL_AUDIT_SUPPRESSIONS:-}" ]; then
    arguments+=(--suppressions "$ROLLCALL_AUDIT_SUPPRESSIONS")
fi
if [ -n "${ROLLCALL_AUDIT_TEXTFILE:-}" ]; then
    arguments+=(--textfile "$ROLLCALL_AUDIT_TEXTFILE")
fi
check_limit=${ROLLCALL_AUDIT_CHECK_TIMEOUT:-3h}
check_code=0
limited "$check_limit" "${check[@]}" "${arguments[@]}" ${check_options[@]+"${check_options[@]}"} \
    >"$verdict_file" || check_code=$?
verdict=$(tail -n 1 -- "$verdict_file")

if [ -n "$dump_failed" ]; then
    finish "$UNJUDGED" "$dump_failed"
fi
case $check_code in
"$AGREED" | "$DIVERGENT" | "$UNJUDGED")
    # An interpreter that fails ends with 1 too, but without a verdict.
    [ -n "$verdict" ] || finish "$UNJUDGED" "the check ended with exit code $check_code and no verdict"
    if [ "$check_code" -eq "$AGREED" ] && [ "$dump_code" -ne 0 ]; then
        finish "$UNJUDGED" "a member was absent from the dump, and the check did not find that: $verdict"
    fi
    finish "$check_code" "$verdict"
    ;;
124 | 137) finish "$UNJUDGED" "the check took over $check_limit" ;;
*) finish "$UNJUDGED" "the check failed with exit code $check_code" ;;
esac
