# A unit is a name of the shared hosts file: "ADDRESS NAME # UNIT".
set -euo pipefail

hosts=$PWD/hosts
address=10.93.$((LEASEHOLD_INDEX / 250)).$((LEASEHOLD_INDEX % 250 + 2))

property() {
    python3 -c 'import json, os, sys
known = json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}
print(known.get(sys.argv[1], sys.argv[2]))' "$1" "$2"
}

lock() { # all units write the one file
    until mkdir hosts.lock 2>/dev/null; do sleep 0.1; done
    trap 'rmdir hosts.lock' EXIT
}

without_unit() {
    if [ -e "$hosts" ]; then awk -v unit="$LEASEHOLD_UNIT" '$NF != unit' "$hosts"; fi
}

replace() { # the file is at any moment the old or the new one
    mv -f "$hosts.new" "$hosts"
}

case $LEASEHOLD_VERB in
setup | modify)
    name=$(property name "$LEASEHOLD_UNIT.lease.example")
    lock
    {
        without_unit
        echo "$address $name # $LEASEHOLD_UNIT"
    } >"$hosts.new"
    replace
    echo "{\"properties\": {\"address\": \"$address\", \"name\": \"$name\"}}"
    ;;
teardown)
    lock
    without_unit >"$hosts.new"
    replace
    ;;
probe)
    [ -e "$hosts" ] || exit 1
    awk -v unit="$LEASEHOLD_UNIT" '$NF == unit {found = 1} END {exit !found}' "$hosts"
    ;;
esac
