# A unit is a service at a Unix socket in a folder of its own.
set -euo pipefail

unit=$PWD/units/$LEASEHOLD_UNIT
program=$PWD/service.py

property() {
    python3 -c 'import json, os, sys
known = json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}
print(known.get(sys.argv[1], sys.argv[2]))' "$1" "$2"
}

find_processes() {
    processes=()
    for process in /proc/[0-9]*; do
        if [ "$process/cwd" -ef "$unit" ]; then processes+=("${process#/proc/}"); fi
    done
}

answers() (
    cd "$unit" 2>/dev/null || return 1
    python3 -c 'import socket
try:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(2)
    client.connect("socket")
except OSError:
    raise SystemExit(1)'
)

case $LEASEHOLD_VERB in
setup | modify)
    mkdir -p "$unit"
    property greeting hello >"$unit/settings.new"
    mv "$unit/settings.new" "$unit/settings"
    find_processes
    if [ "${#processes[@]}" = 0 ]; then
        (
            cd "$unit"
            for file in /proc/self/fd/*; do
                if [ "${file##*/}" -gt 2 ]; then eval "exec ${file##*/}>&-"; fi
            done
            exec setsid python3 "$program"
        ) </dev/null >/dev/null 2>&1 &
        until [ "${#processes[@]}" -gt 0 ]; do sleep 0.05; find_processes; done
    fi
    echo "{\"properties\": {\"socket\": \"$unit/socket\"}}"
    ;;
teardown)
    find_processes
    while [ "${#processes[@]}" -gt 0 ]; do kill -9 "${processes[@]}" || true; find_processes; done
    rm -rf "$unit"
    ;;
probe) answers || exit 1 ;;
esac
