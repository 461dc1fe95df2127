# A unit is a daemon at a Unix socket in a folder of its own.
set -euo pipefail

unit=$PWD/units/$LEASEHOLD_UNIT
program=$PWD/daemon.py

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

case $LEASEHOLD_VERB in
setup | modify)
    mkdir -p "$unit"
    property greeting hello >"$unit/settings.new"
    mv "$unit/settings.new" "$unit/settings"
    find_processes
    if [ "${#processes[@]}" = 0 ]; then
        rm -f "$unit/socket" # of one that is dead
        (
            cd "$unit"
            for file in /proc/self/fd/*; do
                if [ "${file##*/}" -gt 2 ]; then eval "exec ${file##*/}>&-"; fi
            done
            exec setsid python3 "$program"
        ) </dev/null >/dev/null 2>&1 &
    fi
    for _ in {1..100}; do if [ -S "$unit/socket" ]; then break; fi; sleep 0.1; done
    [ -S "$unit/socket" ]
    echo "{\"properties\": {\"socket\": \"$unit/socket\"}}"
    ;;
teardown)
    find_processes
    while [ "${#processes[@]}" -gt 0 ]; do kill -9 "${processes[@]}" || true; find_processes; done
    rm -rf "$unit"
    ;;
probe)
    [ -S "$unit/socket" ]
    ;;
esac
