# A unit is a site of the web server: a folder, its configuration, and the link by which the server reads it.
set -euo pipefail

folder=$PWD/www/$LEASEHOLD_UNIT
available=$PWD/sites-available/$LEASEHOLD_UNIT.conf
enabled=$PWD/sites-enabled/$LEASEHOLD_UNIT.conf
new=$PWD/building/$LEASEHOLD_UNIT

property() {
    python3 -c 'import json, os, sys
known = json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}
print(known.get(sys.argv[1], sys.argv[2]))' "$1" "$2"
}

configure() {
    name=$(property server_name "$LEASEHOLD_UNIT.example")
    {
        echo "server {"
        echo "    server_name $name;"
        echo "    root $folder;"
        echo "}"
    } >"$new"
    mv -f "$new" "$available"
}

case $LEASEHOLD_VERB in
setup | modify)
    mkdir -p "$folder" sites-available sites-enabled building
    configure
    # The server reads what is there when it is told to, so the link comes last.
    if [ ! -L "$enabled" ]; then
        ln -s "../sites-available/$LEASEHOLD_UNIT.conf" "$enabled"
    fi
    echo "{\"properties\": {\"root\": \"$folder\"}}"
    ;;
teardown)
    # In the other order: the server never reads a link to nothing.
    unlink "$enabled"
    rm -f "$available" "$new"
    rm -rf "$folder"
    ;;
probe)
    [ -L "$enabled" ] && [ -f "$enabled" ] && [ -d "$folder" ]
    ;;
esac
