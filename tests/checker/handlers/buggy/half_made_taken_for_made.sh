#!/bin/bash
# Kind: half_made. The folder stands for all that is in it.
set -eu
mkdir -p rooms
room=$PWD/rooms/$LEASEHOLD_UNIT
case $LEASEHOLD_VERB in
setup | modify)
    [ ! -d "$room" ] || exit 0
    mkdir "$room"
    sleep 0.05
    truncate -s 64K "$room/volume"
    sleep 0.05
    echo "$LEASEHOLD_LEASE" >"$room/lease"
    ;;
teardown) rm -rf "$room" ;;
esac
