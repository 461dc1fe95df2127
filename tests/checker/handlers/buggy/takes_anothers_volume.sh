#!/bin/bash
# Kind: other_unit. The cleanup has a pattern that is too wide.
set -eu
mkdir -p volumes
case $LEASEHOLD_VERB in
setup | modify) [ -e "volumes/$LEASEHOLD_UNIT.img" ] || truncate -s 64K "volumes/$LEASEHOLD_UNIT.img" ;;
teardown) rm -f volumes/"${LEASEHOLD_UNIT%?}"*.img ;;
esac
