"""A system as a Promela model for SPIN, with the same states.

Theory of operation. One process takes one step after another: an `atomic` that chooses among the alternatives, one for
each choice, machine, message and witness, then carries it out and judges the step. SPIN stores no state between: it
stores what lies before and after an `atomic`. The time of `spin -a` grows with the square of the number of statements
after inlining. So statements that several alternatives share stand once, under numbers that the alternatives set. What
is part of a state is global and in canonical form (promela_channels.py); all else is hidden. So SPIN stores exactly the
states that the explorer counts. Promela has one initial state, in which all machines of a role are as their type
declares. Where the system has several, or one in which machines of a role differ, the first step chooses one of them,
and the state before it is one more.

A step out of the bounds (`constraint`, explored ranges of data) is taken back, so that it leads nowhere new. It is
possible all the same, so a state with no other steps is no deadlock, as for the explorer.

What may be wrong with a step (a value out of its type's range, two guards at once, a broken property) is asserted under
the property's name (promela_properties.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.export.promela_channels import RANKED_SCRATCH, SCRATCH, operations, types
from leasehold.checker.export.promela_layout import SIZES, PromelaNames, between, both, declared, flat, scalars
from leasehold.checker.export.promela_properties import PromelaProperties
from leasehold.checker.export.promela_steps import Alternative, PromelaSteps, inline
from leasehold.checker.export.promela_terms import PromelaBindings, word
from leasehold.checker.export.shared import (
    Exported,
    ExportError,
    ExportOptions,
    bounded,
    heading,
    ranges,
    sentence,
    wrapped,
)
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Relation
from leasehold.spec.language.model import Role

MOST_INITIAL = 10_000
HELPERS = """
#define BIT(Set, Place) (((Set) >> (Place)) & 1)
#define MIN(A, B) ((A) < (B) -> (A) : (B))
#define MAX(A, B) ((A) > (B) -> (A) : (B))
/* rounded down, and 0 where it is divided by 0 */
#define DIV(A, B) ((B) == 0 -> 0 : (A) / (B) - ((A) % (B) != 0 && ((A) % (B) < 0) != ((B) < 0)))
#define MOD(A, B) ((B) == 0 -> 0 : (((A) % (B)) + (B)) % (B))
"""


def render(relation: Relation, options: ExportOptions) -> Exported:
    """The model of a system."""
    return _Model(relation, options.slots).exported()


class _Model:
    def __init__(self, relation: Relation, slots: int) -> None:
        self.system = relation.system
        self.names = PromelaNames(relation, slots)
        self.steps = PromelaSteps(self.names)
        self.properties = PromelaProperties(self.names)
        self.bounded = bounded(self.system)
        self.slotted = [c for c in self.system.channels.values() if c.kind != "set"]
        self.begin: dict[
            tuple[str, str], Any
        ] = {}  # by role and datum, its first value if that is `any` and the only one

    def exported(self) -> Exported:
        for name, value in self.system.values().items():
            if isinstance(value, int) and not -(2**31) <= value < 2**31:
                raise ExportError(f"`{name}` is {value}, and Promela's numbers have 32 bits", "make it smaller")
        first = self._initial()
        state = self._state()
        alternatives = self.steps.all()
        groups = self.properties.groups(alternatives)
        monitors, judge = self.properties.monitors(), self._judge()
        begun = "Begun" if first and self.properties.live() else ""
        never = self.properties.never(alternatives, groups, begun)
        state += [f"bool {begun};  /* an initial state is set */"] if begun else []
        parts = [
            self._header(bool(first)),
            self._constants(),
            self._helpers(),
            state,
            self._hidden(),
            *(operations(self.names, c) for c in self.slotted),
            *self.steps.definitions.values(),
            self.properties.took(),
            self.properties.taken(),
            self._remember(),
            judge,
            self._process(first, alternatives, groups, monitors, bool(judge)),
            never,
        ]
        text = "\n\n".join("\n".join(part) for part in parts if part)
        return Exported(text + "\n", left_out=tuple(self.properties.left_out))

    # What stands before the steps

    def _header(self, several: bool) -> list[str]:
        size = 64 + sum(SIZES[leaf.type] for leaf in self.names.leaves())
        vector = f" -DVECTORSZ={-(-2 * size // 1024) * 1024}" if size > 500 else ""
        one_more = ", and one more: the state before an initial one is set" if several else ""
        paragraphs = [
            *heading(self.system),
            f"The states that SPIN stores are those that `leasehold explore` counts{one_more}. An assertion that is "
            "violated has the name of its property; `spin -t FILE` prints the run.",
            *self.properties.usage(),
        ]
        command = f"    spin -a FILE && cc -O2 -DSAFETY -DNOREDUCE{vector} -o pan pan.c && ./pan -m1000000"
        blocks = [wrapped(paragraph, " * ", " * ") for paragraph in paragraphs]
        blocks.insert(2, [f" * {command}"])
        left = [wrapped(f"{p.name}: {p.why}", " *     ", " *       ") for p in self.properties.left_out]
        blocks += [[" * Not in this model:", *(line for block in left for line in block)]] if left else []
        return ["/*", *"\n *\n".join("\n".join(block) for block in blocks).splitlines(), " */"]

    def _constants(self) -> list[str]:
        define, system, lines = self.names.define, self.system, []
        for name, c in system.constants.items():
            (value,) = flat(self.names.literal(c.type, c.value))
            lines.append(f"#define {define('constant', name)} {value}" + _comment(c.doc))
        for role in system.roles.values():
            lines += ["", f"/* the states of {role.name} */"]
            lines += [f"#define {define('state', role.name, s)} {n}" for n, s in enumerate(role.states)]
        for enum in system.types.values():
            if isinstance(enum, t.Enum):
                lines += ["", f"/* {enum.name} */"]
                lines += [f"#define {self.names.member(enum, m)} {n}" for n, m in enumerate(enum.members)]
        lines += ["", "/* kinds of message; 0 is no message */"] if system.messages else []
        for n, message in enumerate(system.messages.values(), 1):
            lines += wrapped(message.doc, "/* ", " * ", " */") if message.doc else []
            lines.append(f"#define {define('message', message.name)} {n}")
        return lines

    def _helpers(self) -> list[str]:
        small = [*self.system.types.values(), *(role.instance for role in self.system.roles.values())]
        bits = " + ".join(f"BIT(Set, {k})" for k in range(max(len(t.members(kind)) for kind in small)))
        return [*HELPERS.strip().splitlines(), f"#define SIZE(Set) ({bits})"]

    # State

    def _state(self) -> list[str]:
        """Declarations of all that is part of a state, with the types that they need."""
        lines: list[str] = []
        for holder in self.system.holders.values():
            lines += [*self._record(holder), self._declared(holder.name), ""]
        for channel in self.system.channels.values():
            lines += [*types(self.names, channel), self._declared(channel.name)]
            lines += [
                f"int {self.names.left(name, fault)} = {getattr(channel, fault)};"
                for name, fault in self.names.layout.budgets
                if name == channel.name
            ]
            lines.append("")
        if self.system.clock is not None:
            lines += [f"/* the clock, from 0 to {self.system.clock.horizon} */", "int clock;", ""]
        about = (
            "/* the step that is being carried out: what it takes out of a channel, and what else it does; else 0 */"
        )
        return [*lines, about, "short Take, Then;"]

    def _declared(self, owner: str, old: bool = False) -> str:
        """The declaration of a role's records, of that of shared variables, or of a channel's lanes."""
        if holder := self.system.holders.get(owner):
            kind, many = f"{owner}_Record", holder.count if holder.indexed else None
        else:
            kind, many = f"{owner}_Lane", len(self.names.lanes[owner]) if len(self.names.lanes[owner]) > 1 else None
        return f"{'hidden ' * old}{kind} {self.names.place(owner, many, old)};"

    def _record(self, role: Role) -> list[str]:
        """The type of a role's records, or of that of shared variables."""
        about = f"{role.name}: {role.doc}" if role.states else "the variables that all machines share"
        lines = [*wrapped(about, "/* ", " * ", " */"), f"typedef {role.name}_Record {{"]
        if role.states:
            lines.append(f"\tbyte state = {self.names.define('state', role.name, role.initial[0].name)};")
        for d in role.data.values():
            fields, comment = scalars(d.name, d.type), _comment(d.doc)
            terms = flat(self.names.literal(d.type, self.begin.get((role.name, d.name), d.initial)))
            for (leaf, of), first in zip(fields, terms, strict=True):
                lines.append(
                    f"\t{declared(of)} {leaf}" + (f" = {first}" if first not in ("0", "false") else "") + f";{comment}"
                )
                comment = ""
        return [*lines, "};"]

    def _hidden(self) -> list[str]:
        scratch = {**dict.fromkeys([*self.steps.scratch, *self.properties.hidden()], "")}
        if self.system.channels:
            scratch |= {**SCRATCH, **(RANKED_SCRATCH if any(map(self.names.ranked, self.slotted)) else {})}
        lines = ["/* What is hidden is no part of a state. */"]
        lines += [f"hidden int {name};" + _comment(comment) for name, comment in scratch.items()]
        lines += [f"hidden {c.name}_Slot New_{c.name};" for c in self.slotted]
        lines += ["hidden byte Within_bounds;"] if self.bounded else []
        owners = {leaf.owner: leaf.place for leaf in self._kept()}
        plain = [f"hidden int Old_{leaf.place};" for leaf in self._kept() if "." not in leaf.place]
        return lines + [self._declared(owner, old=True) for owner, place in owners.items() if "." in place] + plain

    # Before and after a step

    def _kept(self) -> list[Any]:
        """Returns what properties of steps read of the state before; all of it where steps may be taken back."""
        return [leaf for leaf in self.names.leaves() if self.bounded or leaf.owner in self.names.remembered]

    def _remember(self) -> list[str]:
        kept = self._kept()
        lines = inline("Remember", [f"Old_{leaf.place} = {leaf.place}" for leaf in kept]) if kept else []
        if self.bounded:
            lines += inline("Take_back", [f"{leaf.place} = Old_{leaf.place}" for leaf in kept])
        return lines

    def _judge(self) -> list[str]:
        judged = self.properties.judgements()
        if self.bounded:
            f = PromelaBindings(self.names)
            tests = [word(self.system.constraint, f)] if self.system.constraint is not None else []
            for role, datum, (low, high) in ranges(self.system):
                for i in range(role.count):
                    value = self.names.data(self.names.machine(role.name, i), datum.name, datum.type)
                    tests += between(datum.type, value, word(low, f), word(high, f))
            within, judged = ";\n\t".join(judged or ["skip"]), [f"Within_bounds = {both(tests)}"]
            judged.append(f"if\n\t:: !Within_bounds -> Take_back()\n\t:: else ->\n\t{within}\n\tfi")
        return inline("Judge", judged) if judged else []

    # The process

    def _process(
        self,
        first: list[str],
        alternatives: Sequence[Alternative],
        groups: Mapping[Any, int],
        monitors: list[str],
        judge: bool,
    ) -> list[str]:
        lines = ["active proctype Steps() {", *(f"\t{line}" for line in first)]
        lines += ["end:"] if self.system.ends is None else []
        lines += ["\tdo", "\t:: atomic {", "\t\tif"]
        shared: dict[str, dict[str, int]] = {"Take": {"": 0}, "Then": {"": 0}}
        section = ""
        for a in alternatives:
            if a.section != section:
                section = a.section
                lines += wrapped(section, "\t\t/* ", "\t\t * ", " */")
            noted = [*self.properties.consumed(a), *([f"Fair({groups.get(a.group, 0)})"] if groups else [])]
            numbers = [
                f"{name} = {shared[name].setdefault('; '.join(statements), len(shared[name]))}"
                for name, statements in (("Take", a.take), ("Then", a.then))
            ]
            body = [f'printf("{a.label}\\n")', *a.first, *noted, *numbers]
            lines.append(f"\t\t:: d_step {{ {a.guard} -> {'; '.join(body)} }}")
        if self.properties.live():
            lines += ["#ifdef LIVENESS", "\t\t:: d_step { true -> Fair(0) }  /* nothing need happen */", "#endif"]
        if not alternatives:
            lines.append("\t\t:: false")
        lines += ["\t\tfi;", "\t\td_step { Remember() };" if self._kept() else "\t\tskip;"]
        for name, texts in shared.items():
            cases = [f"\t\t:: d_step {{ {name} == {n} -> {text or 'skip'} }}" for text, n in texts.items()]
            lines += ["\t\tif", *cases, "\t\tfi;"]
        lines += [f"\t\td_step {{ {'Judge(); ' * judge}Take = 0; Then = 0 }}", "\t}"]
        lines += [line if line.startswith("#") else f"\t{line}" for line in monitors]
        return [*lines, "\tod", "}"]

    def _initial(self) -> list[str]:
        """The choice of an initial state, where there are several, or machines of a role differ in the only one."""
        world, names = reference_of(self.system), self.names
        first = [s for s in dict.fromkeys(world.initial_states()) if world.within_bounds(s)]
        data = [
            (role, i, d) for role, i in self.system.records() for d in role.data.values() if d.any_initial or d.begin
        ]
        if not first:
            raise ExportError("no initial state is within the bounds", "loosen `initially` or `constraint`")
        firsts = {
            (role.name, d.name): {
                state[world.layout.at(role.name, i, d.name)] for state in first for i in range(role.count)
            }
            for role, _, d in data
        }
        apart = any(role.begin for role in self.system.roles.values()) or any(d.begin for _, _, d in data)
        if not apart and all(len(values) == 1 for values in firsts.values()):
            self.begin = {key: value for key, (value,) in firsts.items()}
            return []
        if len(first) > MOST_INITIAL:
            raise ExportError(f"there are {len(first):,} initial states", "set constants lower")
        lines = []
        for state in first:
            sets = [
                f"{names.machine(role.name, i)}.state = {names.define('state', role.name, role.first(i).name)}"
                for role, i in self.system.machines()
                if role.begin
            ]
            sets += [
                f"{place} = {value}"
                for role, i, d in data
                for place, value in zip(
                    flat(names.data(names.machine(role.name, i), d.name, d.type)),
                    flat(names.literal(d.type, state[world.layout.at(role.name, i, d.name)])),
                    strict=True,
                )
            ]
            sets += ["Begun = true"] if self.properties.live() else []
            lines.append(f":: d_step {{ {'; '.join(sets)} }}")
        return ["if", *lines, "fi;"]


def _comment(text: str) -> str:
    return f"  /* {sentence(text)} */" if text else ""
