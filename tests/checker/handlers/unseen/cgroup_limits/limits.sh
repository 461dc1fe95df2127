# A unit is a program in a control group, which limits its processes to the property `processes`.
set -euo pipefail

unit=$PWD/units/$LEASEHOLD_UNIT
root=/sys/fs/cgroup/pids
if [ ! -d $root ]; then root=/sys/fs/cgroup; fi
group=$root/leased-$(printf '%s %s' "$PWD" "$LEASEHOLD_UNIT" | sha1sum | cut -c1-8)

wanted() {
    python3 -c 'import json, os
print(int((json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}).get("processes", 20)))'
}

find_processes() {
    processes=()
    if [ -d "$group" ]; then mapfile -t processes <"$group/cgroup.procs"; fi
}

case $LEASEHOLD_VERB in
setup)
    mkdir -p "$unit" "$group"
    # What was agreed when the lease began holds also where the unit has to be set up again.
    if [ ! -s "$unit/limit" ]; then
        wanted >"$unit/limit.new"
        mv "$unit/limit.new" "$unit/limit"
    fi
    cat "$unit/limit" >"$group/pids.max"
    find_processes
    if [ "${#processes[@]}" = 0 ]; then
        (
            cd "$unit"
            echo "$BASHPID" >"$group/cgroup.procs"
            for file in /proc/self/fd/*; do # locks are not for what stays
                if [ "${file##*/}" -gt 2 ]; then eval "exec ${file##*/}>&-"; fi
            done
            exec setsid sleep infinity
        ) </dev/null >/dev/null 2>&1 &
        until [ "${#processes[@]}" -gt 0 ]; do find_processes; done
    fi
    echo "{\"properties\": {\"processes\": $(<"$group/pids.max")}}"
    ;;
modify)
    limit=$(wanted)
    echo "$limit" >"$group/pids.max"
    echo "{\"properties\": {\"processes\": $(<"$group/pids.max")}}"
    ;;
teardown)
    while [ -d "$group" ]; do
        find_processes
        if [ "${#processes[@]}" -gt 0 ]; then kill -9 "${processes[@]}" || true; fi
        rmdir "$group" 2>/dev/null || sleep 0.05
    done
    rm -rf "$unit"
    ;;
probe)
    find_processes
    [ "${#processes[@]}" -gt 0 ]
    ;;
esac
