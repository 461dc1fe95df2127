# A unit is a disk for a virtual machine: a copy of base.img.gz, with a note for the machine's first boot beside it.
set -eu

disk=$PWD/disks/$LEASEHOLD_UNIT
building=$PWD/building/$LEASEHOLD_UNIT

property() {
    python3 -c 'import json, os, sys
known = json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}
print(known.get(sys.argv[1], sys.argv[2]))' "$1" "$2"
}

make_disk() {
    rm -rf "$building" # what an attempt that was killed has left
    mkdir -p "$building" disks
    gzip -dc base.img.gz | dd of="$building/image" bs=64K conv=sparse status=none
    note "$building"
    mv -T "$building" "$disk"
}

note() {
    hostname=$(property hostname "$LEASEHOLD_UNIT")
    echo "hostname: $hostname" >"$1/first-boot.new"
    mv -f "$1/first-boot.new" "$1/first-boot"
}

tell() {
    echo "{\"properties\": {\"disk\": \"$disk/image\"}}"
}

case $LEASEHOLD_VERB in
setup)
    if [ ! -d "$disk" ]; then make_disk; else note "$disk"; fi
    tell
    ;;
modify)
    note "$disk"
    tell
    ;;
teardown)
    # Away from its name first, so that no half of it is taken for a disk.
    if [ -d "$disk" ]; then
        mkdir -p building
        rm -rf "$building"
        mv -T "$disk" "$building"
    fi
    rm -rf "$building"
    ;;
probe)
    [ -s "$disk/image" ] && [ -e "$disk/first-boot" ]
    ;;
esac
