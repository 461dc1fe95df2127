"""Channels in Promela: the operations of `checker/explore/channels.py`, over a fixed number of slots.

Every lane between two machines has slots, filled from the first on. An empty slot is all zero and a bag lies in order,
so that equal contents are equal states. A `set` has a bit for each message that it may hold, and needs no operations. A
mailbox whose messages may be lost, repeated or overtaken keeps the rank of each message's number, and that of the
newest; in any other the ranks follow from the order, and are left out.

The operations are inlines of each channel: in the texts below `$c` is the channel, and `$last` its last slot.
"""

from __future__ import annotations

from functools import reduce
from string import Template

from leasehold.checker.export.promela_layout import PromelaNames
from leasehold.checker.export.shared import wrapped
from leasehold.spec.language.model import CHANNEL_FAULTS, Channel

SCRATCH = {
    "At": "a slot",
    "Gap": "a slot that is being filled",
    "First": "the slot of the oldest message of a kind",
    "Enough_slots": "false: a channel holds more messages than its bound, which is then too small",
}
RANKED_SCRATCH = {"Turn": "the slot of the message whose turn it is", "Rank": "", "Last": "", "Number": ""}

SLOTTED = """
#define Length_$c(Lane) ($length)
inline Copy_$c(To, Source) { $copy }
inline Drop_$c(Lane, Place) {  /* takes out what lies in a slot, and closes up */
	Gap = Place;
	do
	:: Gap < $last -> Copy_$c(Lane.slot[Gap], Lane.slot[Gap + 1]); Gap++
	:: else -> break
	od;
	$clear
}
inline Append_$c(Lane) {
	At = Length_$c(Lane); Enough_slots = At <= $last; assert(Enough_slots);
	Copy_$c(Lane.slot[At], New_$c); At = 0
}
"""
INSERT = """
inline Insert_$c(Lane, Place) {  /* moves what lies in a slot and after it up, and puts the message in New_$c there */
	Gap = $last;
	do
	:: Gap > Place -> Copy_$c(Lane.slot[Gap], Lane.slot[Gap - 1]); Gap--
	:: else -> break
	od;
	Copy_$c(Lane.slot[Gap], New_$c)
}
"""
MAILBOX = """
inline Forget_$c(Lane) {  /* those of the kind of New_$c before the last one are taken to have been overtaken */
	do
	:: $alike > 1 -> First = $first; Drop_$c(Lane, First)
	:: else -> break
	od
}
"""
BAG = """
#define Less_$c(A, B) ($less)
inline Put_$c(Lane) {  /* sends the message in New_$c */
	At = $before; Enough_slots = Length_$c(Lane) <= $last; assert(Enough_slots);
	Insert_$c(Lane, At); At = 0
}
"""
PUT = """
inline Put_$c(Lane) {  /* sends the message in New_$c */
	${forget}Append_$c(Lane)$rank
}
"""
RANKED = """
#define Same_$c(A, B) ($same)
/* where the first message lies that was not received before */
#define Next_$c(Lane) ($next)
inline Rank_$c(Lane) {  /* numbers to ranks: 0 stays, the others become 1, 2, ... in their order */
	Rank = 0; Last = 0; Gap = 0;
	do
	:: Gap <= $last ->
		Rank = Rank + ($gap.number > Last);
		Last = MAX(Last, $gap.number);
		$gap.number = ($gap.number > 0 -> Rank : 0);
		Gap++
	:: else -> break
	od;
	Lane.newest = (Lane.newest == 0 -> 0 : (Lane.newest == Last -> Rank : Rank + 1))
}
inline Overtake_$c(Lane) {  /* what was numbered up to Number is stale, and numbers count from it */
	do
	:: Lane.slot[0].kind != 0 && Lane.slot[0].number <= Number -> Drop_$c(Lane, 0)
	:: else -> break
	od;
	Gap = 0;
	do
	:: Gap <= $last -> $gap.number = ($gap.kind != 0 -> $gap.number - Number : 0); Gap++
	:: else -> break
	od;
	Lane.newest = Lane.newest - Number
}
inline Receive_$c(Lane, Place) {
	Number = Lane.slot[Place].number;
	if
	:: Number == 0 -> Drop_$c(Lane, Place)
	:: else -> Overtake_$c(Lane); Rank_$c(Lane)
	fi
}
inline Receive_copy_$c(Lane, Place) {  /* a copy stays on its way, under the number last received */
	Copy_$c(New_$c, Lane.slot[Place]); Number = New_$c.number; New_$c.number = 0;
	Overtake_$c(Lane);
	Insert_$c(Lane, 0);
	Rank_$c(Lane)
}
inline Put_again_$c(Lane) {  /* sends a message again, under the number that it had */
	New_$c.number = Lane.newest;
	if
	:: $there
	:: else -> Append_$c(Lane); Rank_$c(Lane)
	fi
}
"""


def types(names: PromelaNames, channel: Channel) -> list[str]:
    """The types of a channel's slots and lanes, under what a comment says of it."""
    kind = channel.kind if channel.capacity is None else f"{channel.kind}({channel.capacity})"
    faults = [f"{f} {getattr(channel, f)}" for f in CHANNEL_FAULTS if getattr(channel, f)]
    text = f"{channel.name}: {', '.join([kind, *faults])}, from {channel.sender} to {channel.receiver}. {channel.doc}"
    lines = wrapped(text, "/* ", " * ", " */")
    cells = [f"byte {bit.rpartition('.')[2]}" for _, _, bit in names.members(names.lanes[channel.name][0])]
    if channel.kind != "set":
        lines += [f"typedef {channel.name}_Slot {{", *(f"\t{of} {name};" for name, of in names.slot(channel)), "};"]
        cells = [f"{channel.name}_Slot slot[{names.slots(channel)}]", *["byte newest"] * names.ranked(channel)]
    return [*lines, f"typedef {channel.name}_Lane {{", *(f"\t{cell};" for cell in cells), "};"]


def operations(names: PromelaNames, channel: Channel) -> list[str]:
    """The inlines of a channel that is no `set`."""
    c, cells, count = channel.name, [name for name, _ in names.slot(channel)], names.slots(channel)
    mailbox, bag, ranked = channel.kind == "mailbox", channel.unordered, names.ranked(channel)
    slots = [f"Lane.slot[{k}]" for k in range(count)]
    alike = [f"({slot}.kind == New_{c}.kind{f' && {slot}.number > 0' * ranked})" for slot in slots]

    parts = [SLOTTED, INSERT * (ranked or bag), MAILBOX * mailbox, RANKED * ranked, BAG if bag else PUT]
    text = Template("".join(parts)).substitute(
        c=c,
        last=count - 1,
        gap="Lane.slot[Gap]",
        length=" + ".join(f"({slot}.kind != 0)" for slot in slots),
        copy="; ".join(f"To.{cell} = Source.{cell}" for cell in cells),
        clear="; ".join(f"{slots[-1]}.{cell} = 0" for cell in cells),
        alike=" + ".join(alike),
        first=reduce(
            lambda otherwise, k: f"({alike[k]} -> {k} : {otherwise})", reversed(range(count - 1)), str(count - 1)
        ),
        less=_less(cells),
        before=" + ".join(f"({slot}.kind != 0 && !Less_{c}(New_{c}, {slot}))" for slot in slots),
        same=" && ".join(f"A.{cell} == B.{cell}" for cell in cells),
        there=" || ".join(f"Same_{c}({slot}, New_{c})" for slot in slots),
        next=" + ".join(f"({slot}.kind != 0 && {slot}.number == 0)" for slot in slots),
        forget=f"Forget_{c}(Lane); " * mailbox + f"Lane.newest++; New_{c}.number = Lane.newest; " * ranked,
        rank=f"; Rank_{c}(Lane)" * ranked,
    )
    return text.strip().splitlines()


def _less(cells: list[str]) -> str:
    """Writes whether one message comes before another in a bag."""
    cell, *others = cells
    return f"A.{cell} < B.{cell}" + (f" || (A.{cell} == B.{cell} && ({_less(others)}))" if others else "")
