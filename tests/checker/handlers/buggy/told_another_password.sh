#!/bin/bash
# Kind: told_anew. A setup that is done again tells another password than the one in use.
set -eu
mkdir -p rooms
mine=rooms/$LEASEHOLD_UNIT
case $LEASEHOLD_VERB in
setup | modify)
    password=$RANDOM$RANDOM
    if [ ! -s "$mine" ]; then
        echo "$password" >"$mine.new"
        mv "$mine.new" "$mine"
    fi
    echo "{\"properties\": {\"password\": \"$password\"}}"
    ;;
teardown) rm -f "$mine" ;;
esac
