#!/bin/bash
# Kind: not_repeatable. The folder is made without a look whether it is there.
set -eu
case $LEASEHOLD_VERB in
setup) mkdir -p rooms && mkdir "rooms/$LEASEHOLD_UNIT" ;;
modify) ;;
teardown) rm -rf "rooms/$LEASEHOLD_UNIT" ;;
esac
