# A unit is scratch space in memory, of `size` MiB; its holder has it until the unit is torn down.
set -euo pipefail

space=$PWD/scratch/$LEASEHOLD_UNIT

wanted() {
    python3 -c 'import json, os
print(int((json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}).get("size", 4)))'
}

is_mounted() {
    [[ $(</proc/self/mounts) == *" $space tmpfs "* ]]
}

mount_it() {
    mount -t tmpfs -o "size=$1m,mode=0755,nosuid,nodev" "lease-$LEASEHOLD_UNIT" "$space"
}

measure() { # its size, in MiB
    blocks=$(stat -f -c '%b*%S/1048576' "$space")
    present=$((blocks))
}

tell() {
    measure
    echo "{\"properties\": {\"path\": \"$space\", \"size\": $present}}"
}

case $LEASEHOLD_VERB in
setup)
    size=$(wanted)
    mkdir -p "$space"
    if ! is_mounted; then mount_it "$size"; fi
    tell
    ;;
modify)
    size=$(wanted)
    if is_mounted; then
        measure
        if [ "$present" != "$size" ]; then umount "$space"; fi
    fi
    if ! is_mounted; then mount_it "$size"; fi
    tell
    ;;
teardown)
    while is_mounted; do umount "$space"; done
    if [ -d "$space" ]; then rmdir "$space"; fi
    ;;
probe)
    is_mounted
    ;;
esac
