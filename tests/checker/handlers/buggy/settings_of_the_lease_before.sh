#!/bin/bash
# Kind: past_lease. The settings are written once for a unit, and the next lease finds them.
set -eu
mkdir -p settings rooms
case $LEASEHOLD_VERB in
setup | modify)
    mkdir -p "rooms/$LEASEHOLD_UNIT"
    [ -e "settings/$LEASEHOLD_UNIT" ] || echo "owner=$LEASEHOLD_LEASE" >"settings/$LEASEHOLD_UNIT"
    ;;
teardown) rm -rf "rooms/$LEASEHOLD_UNIT" ;;
esac
