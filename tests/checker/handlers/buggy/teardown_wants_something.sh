#!/bin/bash
# Kind: not_repeatable. The teardown fails where there is nothing to take down.
set -eu
case $LEASEHOLD_VERB in
setup | modify) mkdir -p "rooms/$LEASEHOLD_UNIT" ;;
teardown) rmdir "rooms/$LEASEHOLD_UNIT/"lost+found 2>/dev/null || true; mv "rooms/$LEASEHOLD_UNIT" "rooms/.$LEASEHOLD_UNIT" && rm -rf "rooms/.$LEASEHOLD_UNIT" ;;
esac
