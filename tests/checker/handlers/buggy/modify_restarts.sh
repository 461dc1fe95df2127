#!/bin/bash
# Kind: restarted. A modify takes the way of a teardown and a setup.
set -eu
mkdir -p rooms
room=$PWD/rooms/$LEASEHOLD_UNIT
mine() { for p in /proc/[0-9]*; do if [ "$(readlink "$p/cwd")" = "$room" ]; then echo "${p#/proc/}"; fi; done 2>/dev/null; }
end() { while p=$(mine) && [ -n "$p" ]; do kill -9 $p 2>/dev/null || true; sleep 0.01; done; }
case $LEASEHOLD_VERB in
setup | modify)
    mkdir -p "$room"
    [ "$LEASEHOLD_VERB" = setup ] || end
    if [ -z "$(mine)" ]; then
        (cd "$room"; for f in /proc/self/fd/*; do [ "${f##*/}" -gt 2 ] && eval "exec ${f##*/}>&-"; done; exec setsid sleep infinity) </dev/null >/dev/null 2>&1 &
        until [ -n "$(mine)" ]; do sleep 0.01; done
    fi
    ;;
teardown) end; rm -rf "$room" ;;
esac
