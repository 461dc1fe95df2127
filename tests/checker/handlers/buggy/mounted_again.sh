#!/bin/bash
# Kind: made_twice. Each setup mounts once more.
set -eu
room=$PWD/rooms/$LEASEHOLD_UNIT
case $LEASEHOLD_VERB in
setup | modify)
    mkdir -p "$room"
    mount -t tmpfs -o size=1m leasehold "$room"
    ;;
teardown)
    while mountpoint -q "$room"; do umount "$room"; done
    rm -rf "$room"
    ;;
esac
