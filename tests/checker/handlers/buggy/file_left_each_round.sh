#!/bin/bash
# Kind: leak. Each setup leaves its temporary file.
set -eu
case $LEASEHOLD_VERB in
setup | modify)
    mkdir -p "rooms/$LEASEHOLD_UNIT"
    list=$(mktemp)
    env | grep LEASEHOLD_ >"$list"
    cp "$list" "rooms/$LEASEHOLD_UNIT/settings"
    ;;
teardown) rm -rf "rooms/$LEASEHOLD_UNIT" ;;
esac
