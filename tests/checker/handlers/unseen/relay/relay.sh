# A unit is a relay that counts in a folder of its own, and goes on where it was when it is begun again.
set -euo pipefail

unit=$PWD/units/$LEASEHOLD_UNIT
program=$PWD/lease-relay.py

property() {
    python3 -c 'import json, os, sys
known = json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}
print(known.get(sys.argv[1], sys.argv[2]))' "$1" "$2"
}

# The unit's processes, by their working folder, whoever has started them.
find_processes() {
    processes=()
    for process in /proc/[0-9]*; do
        if [ "$process/cwd" -ef "$unit" ]; then processes+=("${process#/proc/}"); fi
    done
}

case $LEASEHOLD_VERB in
setup | modify)
    mkdir -p "$unit"
    property step 1 >"$unit/settings.new"
    mv -f "$unit/settings.new" "$unit/settings"
    find_processes
    if [ "${#processes[@]}" = 0 ]; then
        (
            cd "$unit"
            for file in /proc/self/fd/*; do
                if [ "${file##*/}" -gt 2 ]; then eval "exec ${file##*/}>&-"; fi
            done
            exec setsid python3 "$program"
        ) </dev/null >/dev/null 2>&1 &
    fi
    for _ in {1..100}; do
        find_processes
        if [ -e "$unit/count" ] && [ "${#processes[@]}" -gt 0 ]; then break; fi
        sleep 0.1
    done
    [ -e "$unit/count" ] && [ "${#processes[@]}" -gt 0 ]
    ;;
teardown)
    find_processes
    while [ "${#processes[@]}" -gt 0 ]; do
        pkill -9 -f "$program" || true # it may have ended by itself
        find_processes
    done
    rm -rf "$unit"
    ;;
probe)
    find_processes
    [ "${#processes[@]}" -gt 0 ]
    ;;
esac
