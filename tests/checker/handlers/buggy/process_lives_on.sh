#!/bin/bash
# Kind: left_over. The program is deaf to SIGTERM, and nobody waits for its end.
set -eu
mkdir -p rooms
room=$PWD/rooms/$LEASEHOLD_UNIT
case $LEASEHOLD_VERB in
setup | modify)
    mkdir -p "$room"
    if [ ! -e "$room/pid" ] || ! kill -0 "$(cat "$room/pid")"; then
        (trap '' TERM; cd "$room"; for f in /proc/self/fd/*; do [ "${f##*/}" -gt 2 ] && eval "exec ${f##*/}>&-"; done; exec setsid sleep infinity) </dev/null >/dev/null 2>&1 &
        echo $! >"$room/pid"
    fi
    ;;
teardown)
    if [ -e "$room/pid" ]; then kill "$(cat "$room/pid")" || true; fi
    rm -rf "$room"
    ;;
esac
