#!/bin/bash
# Kind: left_over, past_lease. The volume is kept, with all that its guest has written.
set -eu
mkdir -p volumes
case $LEASEHOLD_VERB in
setup | modify) [ -e "volumes/$LEASEHOLD_UNIT.img" ] || truncate -s 64K "volumes/$LEASEHOLD_UNIT.img" ;;
teardown) touch "volumes/$LEASEHOLD_UNIT.free" ;;
esac
