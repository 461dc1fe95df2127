# A unit is an ext4 file system in a file, mounted below `mounts`. It has the
# size of `size`, in MiB, for as long as it is there, and the property `mode`, rw or ro, at any time.
set -euo pipefail

image=$PWD/images/$LEASEHOLD_UNIT
building=$PWD/building/$LEASEHOLD_UNIT
mount=$PWD/mounts/$LEASEHOLD_UNIT

property() {
    python3 -c 'import json, os, sys
known = json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}
print(known.get(sys.argv[1], sys.argv[2]))' "$1" "$2"
}

is_mounted() {
    [[ $(</proc/self/mounts) == *" $mount "* ]]
}

mounts_of_unit() { # its own and what its holder has mounted in it, the inner ones first
    awk -v path="$mount" '$2 == path || index($2, path "/") == 1 {print $2}' /proc/self/mounts | sort -r
}

case $LEASEHOLD_VERB in
setup | modify)
    size=$(property size 16)
    mode=$(property mode rw)
    mkdir -p images building "$mount"
    if [ ! -e "$image" ]; then
        rm -f "$building" # half a file system of an attempt that was killed
        truncate -s "${size}M" "$building"
        mkfs.ext4 -q -F "$building"
        mv "$building" "$image"
    fi
    if ! is_mounted; then mount -o loop "$image" "$mount"; fi
    mount -o "remount,$mode" "$mount"
    echo "{\"properties\": {\"path\": \"$mount\"}}"
    ;;
teardown)
    paths=$(mounts_of_unit)
    for path in $paths; do umount "$path"; done
    if [ -d "$mount" ]; then rmdir "$mount"; fi
    rm -f "$image" "$building"
    ;;
probe)
    is_mounted
    ;;
esac
