#!/bin/bash
# Kind: data_lost. A second setup writes the volume anew.
set -eu
case $LEASEHOLD_VERB in
setup)
    mkdir -p "rooms/$LEASEHOLD_UNIT"
    dd if=/dev/zero of="rooms/$LEASEHOLD_UNIT/volume" bs=32K count=1 2>/dev/null
    ;;
modify) ;;
teardown) rm -rf "rooms/$LEASEHOLD_UNIT" ;;
esac
