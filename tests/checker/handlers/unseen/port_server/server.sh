# A unit is a web server of a folder, at a port of 21400 to 21499 that it keeps until it is torn down.
set -euo pipefail

unit=$PWD/units/$LEASEHOLD_UNIT

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

is_serving() { # one of the unit's own processes listens at its port
    local listening
    [ -s "$unit/port" ] || return 1
    listening=$(ss -Hltnp "sport = :$(<"$unit/port")") || exit 4
    find_processes
    for process in "${processes[@]}"; do
        if [[ $listening == *"pid=$process,"* ]]; then return 0; fi
    done
    return 1
}

take_port() {
    exec 9>ports.lock
    flock 9 # one at a time looks for a port
    if [ ! -s "$unit/port" ]; then
        used=$(ss -Hltn | awk '{sub(/.*:/, "", $4); print $4}')
        for port in {21400..21499} none; do grep -qx "$port" <<<"$used" || break; done
        [ "$port" != none ]
        echo "$port" >"$unit/port.new"
        mv "$unit/port.new" "$unit/port"
    fi
    exec 9>&-
}

case $LEASEHOLD_VERB in
setup | modify)
    mkdir -p "$unit"
    take_port
    property motd hello >"$unit/motd.new"
    mv -f "$unit/motd.new" "$unit/motd"
    find_processes
    if [ "${#processes[@]}" = 0 ]; then
        (
            cd "$unit"
            for file in /proc/self/fd/*; do
                if [ "${file##*/}" -gt 2 ]; then eval "exec ${file##*/}>&-"; fi
            done
            exec setsid python3 -m http.server --bind 127.0.0.1 "$(<port)"
        ) </dev/null >/dev/null 2>&1 &
    fi
    for _ in {1..100}; do if is_serving; then break; fi; sleep 0.1; done
    is_serving
    echo "{\"properties\": {\"port\": $(<"$unit/port")}}"
    ;;
teardown)
    find_processes
    while [ "${#processes[@]}" -gt 0 ]; do kill -9 "${processes[@]}" || true; find_processes; done
    rm -rf "$unit"
    ;;
probe) is_serving ;;
esac
