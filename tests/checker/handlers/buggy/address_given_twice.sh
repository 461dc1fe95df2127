#!/bin/bash
# Kind: same_address. The next address is the number of those that are in use.
set -eu
mkdir -p addresses
mine=addresses/$LEASEHOLD_UNIT
case $LEASEHOLD_VERB in
setup | modify)
    if [ ! -s "$mine" ]; then
        echo "10.9.0.$(($(ls addresses | wc -l) + 10))" >"$mine.new"
        mv "$mine.new" "$mine"
    fi
    echo "{\"properties\": {\"address\": \"$(cat "$mine")\"}}"
    ;;
teardown) rm -f "$mine" ;;
esac
