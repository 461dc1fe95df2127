# A unit is a file system in memory, which is shown below `exports` too, where the file server looks for it.
set -euo pipefail

unit=$PWD/units/$LEASEHOLD_UNIT
export=$PWD/exports/$LEASEHOLD_UNIT

size() {
    python3 -c 'import json, os
print(int((json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}).get("size", 4)))'
}

is_mounted() {
    [[ $(</proc/self/mounts) == *" $1 "* ]]
}

hide() {
    while is_mounted "$export"; do umount "$export"; done
}

case $LEASEHOLD_VERB in
setup | modify)
    size=$(size)
    mkdir -p "$unit/data" "$export"
    if ! is_mounted "$unit/data"; then
        hide # one of a file system that is gone
        mount -t tmpfs -o "size=${size}m,mode=0755" "export-$LEASEHOLD_UNIT" "$unit/data"
    fi
    mount -o "remount,size=${size}m" "$unit/data"
    if ! is_mounted "$export"; then
        mount --bind "$unit/data" "$export"
    fi
    printf 'size=%s\n' "$size" >"$unit/settings.new"
    mv -f "$unit/settings.new" "$unit/settings"
    echo "{\"properties\": {\"export\": \"$export\"}}"
    ;;
teardown)
    if [ ! -d "$unit" ]; then exit 0; fi # it is gone already
    while is_mounted "$unit/data"; do umount "$unit/data"; done
    rm -rf "$unit"
    hide
    if [ -d "$export" ]; then rmdir "$export"; fi
    ;;
probe)
    is_mounted "$unit/data" && is_mounted "$export"
    ;;
esac
