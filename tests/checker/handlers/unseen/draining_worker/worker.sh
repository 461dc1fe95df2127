# A unit is a worker in a folder of its own, which looks at its settings again and again.
set -euo pipefail

unit=$PWD/units/$LEASEHOLD_UNIT
program=$PWD/worker.py

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
    property pause 0.2 >"$unit/settings.new"
    mv "$unit/settings.new" "$unit/settings"
    find_processes
    if [ "${#processes[@]}" = 0 ]; then
        rm -f "$unit/ready"
        (
            cd "$unit"
            for file in /proc/self/fd/*; do # locks are not for what stays
                if [ "${file##*/}" -gt 2 ]; then eval "exec ${file##*/}>&-"; fi
            done
            exec setsid python3 "$program"
        ) </dev/null >/dev/null 2>&1 &
    fi
    for _ in {1..100}; do if [ -e "$unit/ready" ]; then break; fi; sleep 0.1; done
    [ -e "$unit/ready" ]
    ;;
teardown)
    find_processes
    if [ "${#processes[@]}" -gt 0 ]; then kill -TERM "${processes[@]}" || true; fi
    for _ in {1..30}; do # it may finish its batch
        find_processes
        if [ "${#processes[@]}" = 0 ]; then break; fi
        sleep 0.1
    done
    rm -rf "$unit"
    ;;
probe)
    find_processes
    [ -e "$unit/ready" ] && [ "${#processes[@]}" -gt 0 ]
    ;;
esac
