# A unit is a folder, a copy of the template, with the settings that its holder has.
set -euo pipefail

unit=$PWD/units/$LEASEHOLD_UNIT

property() {
    python3 -c 'import json, os, sys
known = json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}
print(known.get(sys.argv[1], sys.argv[2]))' "$1" "$2"
}

write_settings() {
    # Under its name it is either the old one or the new one.
    level=$(property level info)
    printf 'level=%s\n' "$level" >"$unit/settings.new"
    mv -f "$unit/settings.new" "$unit/settings"
}

case $LEASEHOLD_VERB in
setup)
    mkdir -p units
    # What the holder has changed in his copy stays his.
    if [ ! -d "$unit" ]; then
        cp -a template "$unit"
    fi
    write_settings
    echo "{\"properties\": {\"folder\": \"$unit\"}}"
    ;;
modify)
    write_settings
    echo "{\"properties\": {\"folder\": \"$unit\"}}"
    ;;
teardown)
    rm -rf "$unit"
    ;;
probe)
    [ -e "$unit/settings" ]
    ;;
esac
