#!/bin/bash
# Kind: wrong_probe. The probe asks nobody.
set -eu
case $LEASEHOLD_VERB in
setup | modify) mkdir -p "rooms/$LEASEHOLD_UNIT" ;;
teardown) rm -rf "rooms/$LEASEHOLD_UNIT" ;;
probe) exit 0 ;;
esac
