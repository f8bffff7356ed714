#!/usr/bin/env bash
# The nightly run: dump all members, then check the dump. Settings come from the environment: see audit.env.example.
# Exit code: 0 agreed; 1 divergent; 2 could not judge, also for a time-out; 3 another run is under way.
set -euo pipefail

AGREED=0 DIVERGENT=1 UNJUDGED=2 LOCKED=3
KILL_AFTER_S=30
REPORT_LIMIT=20s
POST_LIMIT_S=10

home=${ROLLCALL_AUDIT_HOME:-$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)}
state=${ROLLCALL_AUDIT_STATE:-/var/lib/rollcall-audit}
dumps=${ROLLCALL_AUDIT_DUMPS:-$state/dumps}
results=${ROLLCALL_AUDIT_RESULTS:-$state/results}
keep_days=${ROLLCALL_AUDIT_KEEP_DAYS:-30}
night=$(date -u +%F)
# The dump writes this into its manifests, and the check judges no other dump of the night.
run=$(date -u +%Y%m%dT%H%M%SZ)-$$
dump=("$home/.venv/bin/rollcall" dump)
# Words separated by spaces. Not by "read", which may need a temporary file.
set -f
if [ -n "${ROLLCALL_AUDIT_DUMP:-}" ]; then
    # shellcheck disable=SC2206
    dump=($ROLLCALL_AUDIT_DUMP)
fi
check=("$home/.venv/bin/rollcall" check)
if [ -n "${ROLLCALL_AUDIT_CHECK:-}" ]; then
    # shellcheck disable=SC2206
    check=($ROLLCALL_AUDIT_CHECK)
fi
# Reports a night without a verdict when the check itself cannot; it needs no Spark.
report=("$home/.venv/bin/rollcall" check)
# shellcheck disable=SC2206
dump_options=(${ROLLCALL_AUDIT_DUMP_OPTIONS:-})
# shellcheck disable=SC2206
check_options=(${ROLLCALL_AUDIT_CHECK_OPTIONS:-})
set +f

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

finished=
# A command of this script that fails ends it with a code of its own, such as 1, which would pass for a verdict.
# shellcheck disable=SC2329  # called by the trap
at_exit() {
    [ -n "$finished" ] || finish "$UNJUDGED" "nightly.sh failed"
}
trap at_exit EXIT

# What is printed to 3 leaves the script, for cron to mail; all else goes to the log, when there is one.
exec 3>&1
log_failed=
if [ -n "${ROLLCALL_AUDIT_LOG:-}" ]; then
    if { : >>"$ROLLCALL_AUDIT_LOG"; } 2>/dev/null; then
        exec >>"$ROLLCALL_AUDIT_LOG" 2>&1
    else
        log_failed="$ROLLCALL_AUDIT_LOG cannot be written"
        ROLLCALL_AUDIT_LOG=
    fi
fi

# A log on a full disk must not end the script.
say() {
    printf '%s nightly: %s\n' "$(date -u +%FT%TZ)" "$*" >&2 || true
}

# Say it last, to the log and to whoever started this, and end.
finish() {
    local code=$1
    shift
    finished=yes
    trap '' TERM INT HUP
    if [ "$code" -eq "$UNJUDGED" ]; then
        report_unjudged "$*"
    fi
    say "$* (exit code $code)"
    if [ "$code" -ne "$AGREED" ] && [ -n "${ROLLCALL_AUDIT_LOG:-}" ]; then
        printf 'rollcall nightly check: %s (exit code %s)\n' "$*" "$code" >&3 || true
    fi
    exit "$code"
}

child=
phase="before the dump"
# shellcheck disable=SC2329  # called by the trap
stopped() {
    trap '' TERM INT HUP
    if [ -n "$child" ]; then
        kill -TERM "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    finish "$UNJUDGED" "ended by a signal: stopped from outside $phase"
}
trap stopped TERM INT HUP

# --- a night without a verdict --------------------------------------------------------------------------------------

is_reported=
# Have page, alert and metrics say that there is no verdict, unless the check did: by the command without Spark, or, if
# that does not run either, from here.
report_unjudged() {
    local reason=$1 code=0
    if [ -z "$is_reported" ]; then
        is_reported=yes
        timeout --kill-after=5 "$REPORT_LIMIT" "${report[@]}" "${arguments[@]}" --not-judged "$reason" \
            >&2 9>&- || code=$?
        if [ "$code" -ne "$UNJUDGED" ]; then
            post_unjudged "$reason"
            show_unjudged "$reason"
        fi
    fi
    if [ -n "${ROLLCALL_AUDIT_TEXTFILE:-}" ] && ! grep -qs 'verdict="unjudged"} 1' "$ROLLCALL_AUDIT_TEXTFILE"; then
        write_unjudged
    fi
}

# Write the verdict without counts into the textfile; if it cannot be written, remove it: it may say "agreed".
write_unjudged() {
    local file=$ROLLCALL_AUDIT_TEXTFILE new=$ROLLCALL_AUDIT_TEXTFILE.$$
    if {
        printf '# HELP rollcall_check_verdict 1 for the verdict of the last check\n'
        printf '# TYPE rollcall_check_verdict gauge\n'
        printf 'rollcall_check_verdict{verdict="agreed"} 0.0\n'
        printf 'rollcall_check_verdict{verdict="divergent"} 0.0\n'
        printf 'rollcall_check_verdict{verdict="unjudged"} 1.0\n'
        printf '# HELP rollcall_check_timestamp_seconds When the last check ended, in Unix time\n'
        printf '# TYPE rollcall_check_timestamp_seconds gauge\n'
        printf 'rollcall_check_timestamp_seconds %s\n' "$(date +%s)"
    } 2>/dev/null >"$new" && mv -f -- "$new" "$file" 2>/dev/null; then
        return
    fi
    rm -f -- "$new" "$file" 2>/dev/null || say "$file cannot be written, and may show an earlier verdict"
}

# Post the verdict with curl, where there is one: "$1" is the reason.
post_unjudged() {
    local url=${ROLLCALL_AUDIT_ALERT_URL:-} cluster=${ROLLCALL_AUDIT_ALERT_CLUSTER:-rollcall} line body
    [ -n "$url" ] || return 0
    line=$(json_text "could not judge: $1")
    cluster=$(json_text "$cluster")
    case ${ROLLCALL_AUDIT_ALERT_FORMAT:-json} in
    slack) body="{\"text\": \"$cluster: unjudged (check): $line\"}" ;;
    text) body="$cluster: unjudged (check)"$'\n'"could not judge: $1"$'\n' ;;
    alertmanager)
        url=${url%/}
        url=${url%/api/v2/alerts}/api/v2/alerts
        body="[{\"labels\": {\"alertname\": \"RollcallUnjudged\", \"class\": \"UNJUDGED\", \"cluster\": \"$cluster\", "
        body+="\"source\": \"check\"}, \"annotations\": {\"summary\": \"$line\"}}]"
        ;;
    *) body="{\"night\": \"$night\", \"verdict\": \"unjudged\", \"line\": \"$line\"}" ;;
    esac
    # The address may hold a secret, so it is not an argument, which every user of the machine could read.
    if ! printf 'url = "%s"\n' "$url" | curl --silent --fail --max-time "$POST_LIMIT_S" --config - \
        --header 'Content-Type: application/json' --data-raw "$body" --output /dev/null 9>&-; then
        say "the alert was not delivered"
    fi
}

# Replace the page of the night, if it is in a folder of this machine: it may show the verdict of an earlier run.
show_unjudged() {
    local page="$results/reports/night=$night/report.html" text=${1//&/and}
    [ -f "$page" ] || return 0
    text=${text//[<>]/ }
    if ! printf '<!DOCTYPE html><title>Not judged</title><h1>Not judged</h1><p>%s, night %s</p>\n' "$text" "$night" \
        2>/dev/null >"$page"; then
        rm -f -- "$page" 2>/dev/null || say "$page cannot be written, and may show an earlier verdict"
    fi
}

# Return a text as the inside of a text in JSON: without control characters, quotes and backslashes escaped.
json_text() {
    local text=${1//[[:cntrl:]]/ }
    text=${text//\\/\\\\}
    printf '%s' "${text//\"/\\\"}"
}

# --- the run --------------------------------------------------------------------------------------------------------

mkdir -p -- "$state" || finish "$UNJUDGED" "$state cannot be made"
# Opened for appending, so that the file of a run under way is not changed. The commands inherit the lock: it is held
# until the last of them is gone, even when this script was killed.
{ exec 9>>"$state/nightly.lock"; } 2>/dev/null || finish "$UNJUDGED" "$state/nightly.lock cannot be written"
flock --nonblock 9 || finish "$LOCKED" "another run is under way"
[ -z "$log_failed" ] || finish "$UNJUDGED" "$log_failed"
probe=$(mktemp 2>/dev/null) || finish "$UNJUDGED" "no temporary file can be made in ${TMPDIR:-/tmp}"
rm -f -- "$probe"

# Print the last line of the input, each line also to the log if "$1" is set. It outlives the signals of this script.
last_of() {
    local line last=
    trap '' TERM INT HUP
    while IFS= read -r line || [ -n "$line" ]; do
        [ -z "$1" ] || printf '%s\n' "$line" >&2 || true
        last=$line
    done
    printf '%s\n' "$last"
}

# Run a command under a time-out, and return its exit code; 124 or 137 when it took too long. "last_line" is then the
# last line of its output, which comes through a pipe: a disk may be full, and temporary files may be impossible.
last_line=
limited() {
    local limit=$1 is_logged=$2 code=0 to from
    shift 2
    last_line=
    coproc KEPT { last_of "$is_logged"; }
    exec {to}>&"${KEPT[1]}" {from}<&"${KEPT[0]}"
    eval "exec ${KEPT[1]}>&- ${KEPT[0]}<&-"
    if [ -n "$is_logged" ]; then
        timeout --kill-after="$KILL_AFTER_S" "$limit" "$@" >&"$to" 2>&1 {to}>&- {from}<&- &
    else
        timeout --kill-after="$KILL_AFTER_S" "$limit" "$@" >&"$to" {to}>&- {from}<&- &
    fi
    child=$!
    exec {to}>&-
    wait "$child" || code=$?
    child=
    # Without end if a process of the command is left.
    read -r -t 10 last_line <&"$from" || true
    exec {from}<&-
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
phase="during the dump"
limited "$dump_limit" logged "${dump[@]}" "${members[@]}" --out "$dumps" --date "$night" --run "$run" \
    --keep "$keep_days" ${dump_options[@]+"${dump_options[@]}"} || dump_code=$?
dump_failed=
case $dump_code in
0) ;;
1) say "a member is absent" ;; # a finding of the check, which so must not say "agreed"
124 | 137) dump_failed="the dump took over $dump_limit, and was ended by a signal" ;;
*) dump_failed="the dump failed with exit code $dump_code${last_line:+: ${last_line:0:300}}" ;;
esac

# Also without a dump: then the check reports it where its verdicts are read, on the page, as alert and as metrics.
check_limit=${ROLLCALL_AUDIT_CHECK_TIMEOUT:-3h}
check_code=0
phase="during the check"
if [ -n "$dump_failed" ]; then
    judge=(--not-judged "$dump_failed")
else
    judge=(--run "$run")
fi
limited "$check_limit" "" "${check[@]}" "${arguments[@]}" "${judge[@]}" \
    ${check_options[@]+"${check_options[@]}"} || check_code=$?
verdict=$last_line

if [ "$check_code" -eq "$UNJUDGED" ] && [ -n "$verdict" ]; then
    is_reported=yes
fi
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
124 | 137)
    case $verdict in
    "could not judge: "* | "无法判断："*) is_reported=yes ;;
    esac
    finish "$UNJUDGED" "the check took over $check_limit, and was ended by a signal"
    ;;
129 | 130 | 143) finish "$UNJUDGED" "the check was ended by a signal (exit code $check_code)" ;;
*) finish "$UNJUDGED" "the check failed with exit code $check_code" ;;
esac
