# A unit is a block device, of a file. It grows with the property `size`, in MiB, and keeps what is in it.
set -euo pipefail

unit=$PWD/units/$LEASEHOLD_UNIT

size() {
    python3 -c 'import json, os
print(int((json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}).get("size", 8)))'
}

attached() { # the device that has the unit's file, if there is one
    if [ -e "$unit/volume" ]; then losetup -n -O NAME -j "$unit/volume"; fi
}

grow() {
    bytes=$(($(size) * 1024 * 1024))
    present=0
    if [ -e "$unit/volume" ]; then present=$(stat -c %s "$unit/volume"); fi
    if [ "$present" -lt "$bytes" ]; then truncate -s "$bytes" "$unit/volume"; fi
}

case $LEASEHOLD_VERB in
setup | modify)
    mkdir -p "$unit"
    grow
    device=$(attached)
    if [ -z "$device" ]; then
        device=$(losetup -f --show "$unit/volume")
    else
        losetup -c "$device"
    fi
    echo "$device" >"$unit/device.new"
    mv "$unit/device.new" "$unit/device"
    echo "{\"properties\": {\"device\": \"$device\"}}"
    ;;
teardown)
    if [ ! -d "$unit" ]; then exit 0; fi
    device=$(<"$unit/device")
    present=$(attached)
    if [ "$present" = "$device" ]; then
        losetup -d "$device"
    fi
    rm -rf "$unit"
    ;;
probe)
    device=$(attached) || exit 4
    [ -n "$device" ]
    ;;
esac
