#!/bin/bash
# A unit is a folder with a volume and the name of its lease, and a program that runs in the folder.
# The command handler's `directory` gives it the lock and the numbers; so nothing else acts on the unit meanwhile.
set -eu
unit=$PWD/rooms/$LEASEHOLD_UNIT

# Its processes, by their working folder: also those that a start which was killed has left behind. No tool is
# asked, as one that fails would say that there are none.
find_processes() {
    processes=()
    for process in /proc/[0-9]*; do
        if [ "$process/cwd" -ef "$unit" ]; then processes+=("${process#/proc/}"); fi
    done
}

# One of them is the program, and not a start of it that may still fail.
is_up() {
    find_processes
    for process in "${processes[@]}"; do
        if read -r name <"/proc/$process/comm" && [ "$name" = sleep ]; then return 0; fi
    done 2>/dev/null
    return 1
}

end() {
    find_processes
    while [ "${#processes[@]}" -gt 0 ]; do
        kill -9 "${processes[@]}" 2>/dev/null || true
        sleep 0.01
        find_processes
    done
}

start() {
    (
        cd "$unit"
        for file in /proc/self/fd/*; do # the lock too, which is not for what stays
            if [ "${file##*/}" -gt 2 ]; then eval "exec ${file##*/}>&-"; fi
        done
        exec setsid sleep infinity
    ) </dev/null >/dev/null 2>&1 &
    until is_up; do
        kill -0 $! 2>/dev/null || return 1 # it has ended
        sleep 0.01
    done
}

case $LEASEHOLD_VERB in
setup | modify)
    mkdir -p "$unit"
    if [ ! -e "$unit/volume" ]; then
        truncate -s 64K "$unit/volume.new"
        mv "$unit/volume.new" "$unit/volume"
    fi
    echo "$LEASEHOLD_LEASE" >"$unit/lease.new"
    mv "$unit/lease.new" "$unit/lease"
    if ! is_up; then
        end # what has not come up, and may do so still
        start
    fi
    ;;
teardown)
    end
    rm -rf "$unit"
    ;;
probe) is_up ;;
esac
