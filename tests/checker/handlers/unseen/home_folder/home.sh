# A unit is a home folder for the user `nobody`, with a token beside it by which its holder is let in.
set -euo pipefail

home=$PWD/homes/$LEASEHOLD_UNIT
token=$PWD/tokens/$LEASEHOLD_UNIT
new=$PWD/building/$LEASEHOLD_UNIT

property() {
    python3 -c 'import json, os, sys
known = json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}
print(known.get(sys.argv[1], sys.argv[2]))' "$1" "$2"
}

write_token() {
    # One holder's token is not another's: it follows from the lease.
    right=$(property right rw)
    printf '%s %s %s\n' "$LEASEHOLD_UNIT" "${LEASEHOLD_LEASE:-}" "$right" >"$new"
    chmod 600 "$new"
    mv -f "$new" "$token"
}

case $LEASEHOLD_VERB in
setup | modify)
    mkdir -p homes tokens building
    mkdir -p "$home"
    chown nobody "$home"
    chmod 700 "$home"
    write_token
    echo "{\"properties\": {\"home\": \"$home\"}}"
    ;;
teardown)
    # Nobody is let in any more, then what the holder had goes.
    rm -f "$token" "$new"
    rm -rf "$home"/*
    if [ -d "$home" ]; then
        rmdir --ignore-fail-on-non-empty "$home"
    fi
    ;;
probe)
    [ -d "$home" ] && [ -s "$token" ]
    ;;
esac
