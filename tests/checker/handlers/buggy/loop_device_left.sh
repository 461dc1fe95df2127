#!/bin/bash
# Kind: left_over. The volume goes, and the loop device that it is behind does not.
set -eu
volume=$PWD/volumes/$LEASEHOLD_UNIT.img
mkdir -p volumes
case $LEASEHOLD_VERB in
setup | modify)
    [ -e "$volume" ] || truncate -s 1M "$volume"
    [ -n "$(losetup -j "$volume")" ] || losetup -f "$volume"
    ;;
teardown) rm -f "$volume" ;;
esac
