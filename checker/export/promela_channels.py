"""Channels in Promela: what `checker/explore/channels.py` does, over slots of fixed number.

Every joint of two machines has slots, filled from the first on; an empty slot is all zero, so that equal contents are
equal states. A channel is dealt with by a few inlines of its own:

    Drop_c(Lane, Place)      takes out what lies in a slot, and closes up
    Put_c(Lane, Kind)        puts the message in `New_c` on its way
    Receive_c(Lane, Place)   receives what lies in a slot

A mailbox whose messages may be lost, repeated or overtake keeps the rank of each message's number, and that of the
newest. In any other the ranks follow from the order, and are left out. Of a `set` there is a bit for each message that
may be in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from leasehold.checker.export.promela_layout import ChannelLink, PromelaNames, declared, safe
from leasehold.checker.export.promela_messages import bit_of
from leasehold.checker.export.shared import numbered, wrapped
from leasehold.spec.language.lower import messages_of
from leasehold.spec.language.model import Channel, Message

SCRATCH = [
    "hidden short At;  /* a slot */",
    "hidden short First;  /* the slot of the oldest message of a kind */",
    "hidden byte Enough_slots;  /* false: a channel holds more messages than its bound, which is then too small */",
]

RANKED_SCRATCH = [
    "hidden short Turn;  /* the slot of the message whose turn it is */",
    "hidden short Rank;",
    "hidden short Last;",
    "hidden short Number;",
]


class Slotted:
    """One channel that is no `set`."""

    def __init__(self, layout: PromelaNames, channel: Channel) -> None:
        self.layout, self.channel, self.name = layout, channel, channel.name
        self.count = layout.slots(channel)
        self.ranked = channel.kind == "mailbox" and numbered(layout.system, channel)
        self.entry = [name for name, _ in layout.entry(channel)]
        self.cells = ["kind", *(["number"] if self.ranked else []), *self.entry]

    def types(self) -> list[str]:
        entry = self.layout.entry(self.channel)
        lines = [f"typedef {self.name}_Entry {{", "\tbyte kind;"]
        lines += ["\tbyte number;"] if self.ranked else []
        lines += [f"\t{declared(of)} {name};" for name, of in entry]
        lines += ["};", f"typedef {self.name}_Lane {{", f"\t{self.name}_Entry slot[{self.count}];"]
        return [*lines, *(["\tbyte newest;"] if self.ranked else []), "};"]

    def inlines(self) -> list[str]:
        lines = [*self._drop(), *([*self._next(), *self._rank()] if self.ranked else [])]
        lines += self._put_sorted() if self.channel.kind == "bag" else self._put()
        if self.ranked:
            lines += [*self._receive(), *self._receive_copy(), *self._put_again()]
        return lines

    def _copy(self, to: str, source: str, cells: Sequence[str]) -> str:
        return "; ".join(f"{to}.{cell} = {source}.{cell}" for cell in cells)

    def _slots(self) -> list[str]:
        return [f"Lane.slot[{k}]" for k in range(self.count)]

    def _drop(self) -> list[str]:
        lines = [
            f"#define Length_{self.name}(Lane) ({' + '.join(f'({slot}.kind != 0)' for slot in self._slots())})",
            f"inline Drop_{self.name}(Lane, Place) {{",
        ]
        for k, (slot, following) in enumerate(pairwise(self._slots())):
            moved = [f"{slot}.{c} = ({k} < Place -> {slot}.{c} : {following}.{c})" for c in self.cells]
            lines.append(f"\t{'; '.join(moved)};")
        last = self._slots()[-1]
        return [*lines, "\t" + "; ".join(f"{last}.{cell} = 0" for cell in self.cells), "}"]

    def _seek_end(self) -> list[str]:
        return [f"\tAt = Length_{self.name}(Lane);", f"\tEnough_slots = At < {self.count}; assert(Enough_slots);"]

    def _put(self) -> list[str]:
        lines = [f"inline Put_{self.name}(Lane, Kind) {{"]
        if self.channel.kind == "mailbox":
            lines += self._forget()
        lines += [*self._seek_end(), "\tLane.slot[At].kind = Kind;"]
        if self.ranked:
            lines += ["\tLane.newest++;", "\tLane.slot[At].number = Lane.newest;"]
        if self.entry:
            lines.append(f"\t{self._copy('Lane.slot[At]', f'New_{self.name}', self.entry)};")
        return [*lines, f"\tRank_{self.name}(Lane)" if self.ranked else "\tAt = 0", "}"]

    def _forget(self) -> list[str]:
        """Of a kind, the newest message counts, and the one before it may still be on its way."""
        new = "{slot}.kind == Kind" + (" && {slot}.number > 0" if self.ranked else "")
        tests = [new.format(slot=slot) for slot in self._slots()]
        first = str(self.count - 1)
        for k in range(self.count - 2, -1, -1):
            first = f"({tests[k]} -> {k} : {first})"
        count = " + ".join(f"({test})" for test in tests)
        drop = f"First = {first}; Drop_{self.name}(Lane, First)"
        comment = "\t/* those of this kind before the last one are taken to have been overtaken */"
        if self.ranked:
            return [comment, "\tdo", f"\t:: {count} > 1 -> {drop}", "\t:: else -> break", "\tod;"]
        return [comment, "\tif", f"\t:: {count} > 1 -> {drop}", "\t:: else", "\tfi;"]

    def _put_sorted(self) -> list[str]:
        """A bag lies in order, so that one bag is one state."""
        last = self._slots()[-1]
        new = f"New_{self.name}"
        lines = [
            f"inline Put_{self.name}(Lane, Kind) {{",
            f"\t{new}.kind = Kind;",
            f"\tEnough_slots = ({last}.kind == 0); assert(Enough_slots);",
            "\tAt = " + " + ".join(f"({s}.kind != 0 && !({self._less(new, s)}))" for s in self._slots()) + ";",
        ]
        for k in range(self.count - 1, 0, -1):
            slot, before = self._slots()[k], self._slots()[k - 1]
            lines.append(
                "\t" + "; ".join(f"{slot}.{c} = ({k} > At -> {before}.{c} : {slot}.{c})" for c in self.cells) + ";"
            )
        return [*lines, f"\t{self._copy('Lane.slot[At]', new, self.cells)}", "}"]

    def _less(self, a: str, b: str) -> str:
        """Whether one message comes before another in a bag."""
        found = f"{a}.kind < {b}.kind"
        for n, cell in enumerate(self.cells[1:]):
            same = " && ".join(f"{a}.{c} == {b}.{c}" for c in self.cells[: n + 1])
            found += f" || ({same} && {a}.{cell} < {b}.{cell})"
        return found

    # With ranks

    def _next(self) -> list[str]:
        """Where the first message lies that was not received before: behind those that were."""
        again = [f"({slot}.kind != 0 && {slot}.number == 0)" for slot in self._slots()]
        return [f"#define Next_{self.name}(Lane) ({' + '.join(again)})"]

    def _rank(self) -> list[str]:
        lines = [
            "/* Numbers to ranks: 0 stays, the others become 1, 2, ... in their order. */",
            f"inline Rank_{self.name}(Lane) {{",
            "\tRank = 0; Last = 0;",
        ]
        for slot in self._slots():
            lines += [
                f"\tRank = ({slot}.number > 0 && {slot}.number != Last -> Rank + 1 : Rank);",
                f"\tLast = ({slot}.number > 0 -> {slot}.number : Last);",
                f"\t{slot}.number = ({slot}.number > 0 -> Rank : 0);",
            ]
        newest = "(Lane.newest == 0 -> 0 : (Lane.newest == Last -> Rank : Rank + 1))"
        return [*lines, f"\tLane.newest = {newest}", "}"]

    def _overtake(self) -> list[str]:
        """What was numbered up to the received message is stale, and numbers count from it."""
        first = self._slots()[0]
        return [
            "\tdo",
            f"\t:: {first}.kind != 0 && {first}.number <= Number -> Drop_{self.name}(Lane, 0)",
            "\t:: else -> break",
            "\tod;",
            *(f"\t{slot}.number = ({slot}.kind != 0 -> {slot}.number - Number : 0);" for slot in self._slots()),
            "\tLane.newest = Lane.newest - Number;",
        ]

    def _receive(self) -> list[str]:
        return [
            f"inline Receive_{self.name}(Lane, Place) {{",
            "\tNumber = Lane.slot[Place].number;",
            "\tif",
            f"\t:: Number == 0 -> Drop_{self.name}(Lane, Place)",
            "\t:: else ->",
            *(f"\t{line}" for line in self._overtake()),
            f"\t\tRank_{self.name}(Lane)",
            "\tfi",
            "}",
        ]

    def _receive_copy(self) -> list[str]:
        """A message is received, and a copy of it stays on its way, under the number last received."""
        lines = [
            f"inline Receive_copy_{self.name}(Lane, Place) {{",
            f"\tNumber = Lane.slot[Place].number; {self._copy(f'New_{self.name}', 'Lane.slot[Place]', self.cells)};",
            *self._overtake(),
        ]
        for slot, before in reversed(list(zip(self._slots()[1:], self._slots(), strict=False))):
            lines.append(f"\t{self._copy(slot, before, self.cells)};")
        new = f"New_{self.name}"
        lines.append(f"\t{new}.number = 0; {self._copy(self._slots()[0], new, self.cells)};")
        return [*lines, f"\tRank_{self.name}(Lane)", "}"]

    def _put_again(self) -> list[str]:
        def same(slot: str) -> str:
            tests = [f"{slot}.kind == Kind", f"{slot}.number == Lane.newest"]
            return " && ".join(tests + [f"{slot}.{c} == New_{self.name}.{c}" for c in self.entry])

        append = [f"\t{line}" for line in self._seek_end()]
        append += ["\t\tLane.slot[At].kind = Kind; Lane.slot[At].number = Lane.newest;"]
        append += [f"\t\t{self._copy('Lane.slot[At]', f'New_{self.name}', self.entry)};"] if self.entry else []
        return [
            "/* A message is sent again, under the number that it had. */",
            f"inline Put_again_{self.name}(Lane, Kind) {{",
            "\tif",
            f"\t:: {' || '.join(f'({same(slot)})' for slot in self._slots())}",
            "\t:: else ->",
            *append,
            f"\t\tRank_{self.name}(Lane)",
            "\tfi",
            "}",
        ]


def set_types(layout: PromelaNames, channel: Channel) -> list[str]:
    """The bits of a set."""
    lines = [f"typedef {channel.name}_Lane {{"]
    for m in messages_of(layout.system, channel):
        many = len(layout.held(channel, m))
        lines.append(f"\tbyte {safe(m.name)}" + (f"[{many}];" if many > 1 else ";"))
    return [*lines, "};"]


def about(layout: PromelaNames, channel: Channel) -> list[str]:
    """What a comment says of a channel."""
    kind = channel.kind if channel.capacity is None else f"{channel.kind}({channel.capacity})"
    faults = [f"{fault} {getattr(channel, fault)}" for fault in ("lose", "duplicate", "reorder")
              if getattr(channel, fault)]  # fmt: skip
    words = f"{channel.name}: {', '.join([kind, *faults])}, from {channel.sender} to {channel.receiver}. {channel.doc}"
    return wrapped(words, "/* ", " * ", " */")


def put(
    layout: PromelaNames, channel: Channel, message: Message, joint: str, rows: list[str], again: bool
) -> list[str]:
    """The statements that put a message with the given scalars on its way over a joint, which is given by its place."""
    names = [name for name, _ in layout.fields(channel, message)]
    values = dict(zip(names, rows, strict=True))
    if channel.kind == "set":
        return _put_in_set(layout, channel, message, joint, rows)
    sets = "; ".join(f"New_{channel.name}.{name} = {values.get(name, '0')}" for name, _ in layout.entry(channel))
    resend = again and channel.kind == "mailbox" and numbered(layout.system, channel)
    call = f"{'Put_again' if resend else 'Put'}_{channel.name}({joint}, {layout.kind(message.name)})"
    return ([f"{sets};"] if sets else []) + [call]


def _put_in_set(layout: PromelaNames, channel: Channel, message: Message, joint: str, rows: list[str]) -> list[str]:
    at = ChannelLink(channel, joint, "", "")
    held = layout.held(channel, message)
    if len(held) == 1 and not message.fields:
        return [f"{bit_of(layout, at, message, 0)} = 1"]
    lines = ["if"]
    for k, values in enumerate(held):
        words = [w for f, v in zip(message.fields, values, strict=True) for w in layout.literal(f.type, v)]
        test = " && ".join(f"{row} == {word}" for row, word in zip(rows, words, strict=True))
        lines.append(f":: {test} -> {bit_of(layout, at, message, k)} = 1")
    return [*lines, ":: else -> Enough_slots = false; assert(Enough_slots)", "fi"]
