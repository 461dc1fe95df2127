# A unit is a line of the DHCP server's file, "ENDS MAC ADDRESS NAME UNIT", with an address of 10.94.0.0/24.
set -euo pipefail

leases=$PWD/dhcp.leases

property() {
    python3 -c 'import json, os, sys
known = json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}
print(known.get(sys.argv[1], sys.argv[2]))' "$1" "$2"
}

line_of_unit() {
    awk -v unit="$LEASEHOLD_UNIT" '$5 == unit' "$leases"
}

without_unit() {
    awk -v unit="$LEASEHOLD_UNIT" '$5 != unit' "$leases"
}

free_address() {
    awk '{taken[$3] = 1} END {
        for (number = 2; number < 255; number++)
            if (!(("10.94.0." number) in taken)) {print "10.94.0." number; exit 0}
        exit 1}' "$leases"
}

exec 9>dhcp.lock
flock 9 # one at a time changes the file
if [ ! -e "$leases" ]; then : >"$leases"; fi

case $LEASEHOLD_VERB in
setup)
    line=$(line_of_unit)
    if [ -z "$line" ]; then
        name=$(property name "$LEASEHOLD_UNIT")
        mac=52:54:$(printf %s "$LEASEHOLD_UNIT" | sha1sum | sed 's/\(..\)\(..\)\(..\)\(..\).*/\1:\2:\3:\4/')
        address=$(free_address)
        cat "$leases" >"$leases.new"
        echo "0 $mac $address $name $LEASEHOLD_UNIT" >>"$leases.new"
        mv -f "$leases.new" "$leases"
    fi
    # What the server has is what the holder is told.
    read -r _ mac address name _ < <(tail -n 1 "$leases")
    echo "{\"properties\": {\"address\": \"$address\", \"mac\": \"$mac\", \"name\": \"$name\"}}"
    ;;
modify)
    name=$(property name "$LEASEHOLD_UNIT")
    awk -v unit="$LEASEHOLD_UNIT" -v name="$name" '$5 == unit {$4 = name} {print}' "$leases" >"$leases.new"
    mv -f "$leases.new" "$leases"
    read -r _ mac address name _ < <(line_of_unit)
    echo "{\"properties\": {\"address\": \"$address\", \"mac\": \"$mac\", \"name\": \"$name\"}}"
    ;;
teardown)
    without_unit >"$leases.new"
    mv -f "$leases.new" "$leases"
    ;;
probe)
    line=$(line_of_unit) || exit 4
    [ -n "$line" ]
    ;;
esac
