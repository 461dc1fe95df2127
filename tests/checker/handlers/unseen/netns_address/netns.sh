# A unit is a network namespace with an address, that of its number, at a veth pair.
set -euo pipefail

digest=$(printf '%s %s' "$PWD" "$LEASEHOLD_UNIT" | sha1sum | cut -c1-8)
space=leased-$digest
outer=lo$digest
inner=li$digest
address=10.91.$((LEASEHOLD_INDEX / 250)).$((LEASEHOLD_INDEX % 250 + 2))

property() {
    python3 -c 'import json, os, sys
known = json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}
print(known.get(sys.argv[1], sys.argv[2]))' "$1" "$2"
}

set_mtu() {
    mtu=$(property mtu 1400)
    ip link set "$outer" mtu "$mtu" up
    ip -n "$space" link set "$inner" mtu "$mtu" up
}

case $LEASEHOLD_VERB in
setup)
    # One whose file is there without its mount comes from an attempt that was killed.
    if [[ $(</proc/self/mounts) != *" /run/netns/$space nsfs "* ]]; then
        if [ -e "/run/netns/$space" ]; then ip netns delete "$space"; fi
        ip netns add "$space"
    fi
    if [ ! -e "/sys/class/net/$outer" ]; then
        ip link add "$outer" type veth peer name "$inner" netns "$space"
    fi
    ip -n "$space" address add "$address/16" dev "$inner"
    ip -n "$space" link set lo up
    set_mtu
    echo "{\"properties\": {\"address\": \"$address\", \"namespace\": \"$space\"}}"
    ;;
modify)
    set_mtu
    echo "{\"properties\": {\"address\": \"$address\", \"namespace\": \"$space\"}}"
    ;;
teardown)
    if [ -e "/sys/class/net/$outer" ]; then ip link delete "$outer"; fi
    if [ -e "/run/netns/$space" ]; then ip netns delete "$space"; fi
    ;;
probe)
    shown=$(ip -n "$space" -o address show dev "$inner" 2>/dev/null) || exit 1
    [[ $shown == *" $address/"* ]]
    ;;
esac
