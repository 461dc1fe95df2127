# A unit is a name of a shared zone, "NAME A ADDRESS ; UNIT", and a folder that the web server finds by a link.
set -euo pipefail

zone=$PWD/zone
folder=$PWD/www/$LEASEHOLD_UNIT
link=$PWD/enabled/$LEASEHOLD_UNIT
address=10.96.$((LEASEHOLD_INDEX / 250)).$((LEASEHOLD_INDEX % 250 + 2))

property() {
    python3 -c 'import json, os, sys
known = json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}
print(known.get(sys.argv[1], sys.argv[2]))' "$1" "$2"
}

without_unit() {
    if [ -e "$zone" ]; then awk -v unit="$LEASEHOLD_UNIT" '$NF != unit' "$zone"; fi
}

change_zone() { # to have the given line for this unit, or none
    (
        flock 9 # goes with its process, however that ends
        without_unit >"$zone.new"
        if [ -n "$1" ]; then echo "$1" >>"$zone.new"; fi
        mv -f "$zone.new" "$zone"
    ) 9>zone.lock
}

case $LEASEHOLD_VERB in
setup | modify)
    name=$(property name "$LEASEHOLD_UNIT")
    mkdir -p "$folder" enabled
    echo "$name" >"$folder/title.new"
    mv -f "$folder/title.new" "$folder/title"
    change_zone "$name A $address ; $LEASEHOLD_UNIT"
    if [ ! -L "$link" ]; then ln -s "../www/$LEASEHOLD_UNIT" "$link"; fi
    echo "{\"properties\": {\"address\": \"$address\", \"name\": \"$name\"}}"
    ;;
teardown)
    rm -f "$link"
    change_zone ""
    rm -rf "$folder"
    ;;
probe)
    [ -L "$link" ] && [ -e "$link/title" ] && [ -e "$zone" ] || exit 1
    awk -v unit="$LEASEHOLD_UNIT" '$NF == unit {found = 1} END {exit !found}' "$zone"
    ;;
esac
