#!/bin/bash
# Kind: left_over. The teardown believes a file that is written last.
set -eu
mkdir -p rooms
case $LEASEHOLD_VERB in
setup | modify)
    if [ ! -e "rooms/$LEASEHOLD_UNIT" ]; then
        ip netns list | grep -qw "$LEASEHOLD_UNIT" || ip netns add "$LEASEHOLD_UNIT"
        ip -n "$LEASEHOLD_UNIT" link set lo up
        sleep 0.1
        echo up >"rooms/$LEASEHOLD_UNIT"
    fi
    ;;
teardown)
    if [ -e "rooms/$LEASEHOLD_UNIT" ]; then
        ip netns delete "$LEASEHOLD_UNIT"
        rm "rooms/$LEASEHOLD_UNIT"
    fi
    ;;
esac
