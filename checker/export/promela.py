"""A system as a Promela model for SPIN, with the same states.

Theory of operation. One process takes one step after another: an `atomic` that chooses among the alternatives, one for
each transition, machine, message and witness, and then judges the step. Neither the choice nor the judgement leaves a
state between: SPIN stores what lies before and after an `atomic`. What is part of a state is global and in canonical
form (promela_channels.py); all else is hidden. So SPIN stores exactly the states that the explorer counts, and one more
where there are several initial states: the one before one of them is chosen.

A step out of the bounds (`constraint`, explored ranges of data) is taken back, so that it leads nowhere new. It is
possible all the same, so a state with no other steps is no deadlock, as for the explorer.

What may be wrong with a step (a value out of its type's range, two guards at once, a broken property) is asserted under
the property's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.export.promela_channels import RANKED_SCRATCH, SCRATCH, Slotted, about, set_types
from leasehold.checker.export.promela_claims import Claims
from leasehold.checker.export.promela_layout import PromelaNames, safe, stored
from leasehold.checker.export.promela_machines import PromelaMachines
from leasehold.checker.export.promela_messages import PromelaBindings, bit_of
from leasehold.checker.export.promela_steps import Alternative, PromelaSteps, left
from leasehold.checker.export.promela_terms import initial_scalars, term
from leasehold.checker.export.shared import (
    Exported,
    Options,
    Unsupported,
    bounded,
    ranges,
    sentence,
    settings_of,
    wrapped,
)
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Relation, messages_of
from leasehold.spec.language.model import Call, Drive, Role

MOST_INITIAL = 10_000
SIZES = {"byte": 1, "short": 2, "int": 4}


def render(relation: Relation, options: Options) -> Exported:
    """The model of a system."""
    return _Model(relation, options.slots).exported()


class _Model:
    def __init__(self, relation: Relation, slots: int) -> None:
        self.system = system = relation.system
        self.layout = PromelaNames(relation, slots)
        self.machines = PromelaMachines(self.layout)
        self.steps = PromelaSteps(self.layout, self.machines)
        self.claims = Claims(self.layout)
        self.slotted = [Slotted(self.layout, c) for c in system.channels.values() if c.kind != "set"]
        self.bounded = bounded(system)
        self.several = self._several_initial_states()

    def exported(self) -> Exported:
        for name, value in self.system.values().items():
            if isinstance(value, int) and not -(2**31) <= value < 2**31:
                raise Unsupported(f"`{name}` is {value}, and Promela's numbers have 32 bits", "make it smaller")
        definitions = self._role_definitions()
        alternatives = self.steps.all()
        groups = self.claims.groups(alternatives)
        monitors, judgements = self.claims.monitors(), self._judge()
        never = self.claims.never(alternatives, groups)
        remember = self._remember()
        process = self._process(alternatives, groups, monitors, bool(remember))
        parts = [
            self._header(), self._constants(), self._helpers(), self._state(), self._hidden(), *self._channel_inlines(),
            *definitions, [*self.steps.definitions.values()], self._took(), self._fair(groups), remember, judgements,
            process, never,
        ]  # fmt: skip
        text = "\n\n".join("\n".join(part) for part in parts if part)
        return Exported(text + "\n", left_out=tuple(self.claims.left_out))

    # What stands before the steps

    def _header(self) -> list[str]:
        system = self.system
        size = 64 + sum(self._size(line) for line in self._state())
        vector = f" -DVECTORSZ={-(-2 * size // 1024) * 1024}" if size > 500 else ""
        lines = ["/*", *wrapped(f"{system.name}. {system.doc}", " * ", " * "), " *"]
        lines += wrapped(f"Specification {system.digest[:12]}, {settings_of(system)}".rstrip(", "), " * ", " * ")
        lines += [
            " *",
            " *     spin -a FILE && cc -O2 -DSAFETY -DNOREDUCE" + vector + " -o pan pan.c && ./pan -m1000000",
            " *",
        ]
        one_more = "" if not self.several else ", and one more: the state before an initial one is chosen"
        lines += wrapped(
            f"The states that SPIN stores are those that `leasehold explore` counts{one_more}. An assertion that is "
            "violated has the name of its property; `spin -t FILE` prints the run.", " * ", " * ",
        )  # fmt: skip
        if seek := self.claims.of("sometimes"):
            names = ", ".join(p.name for p in seek)
            lines += [" *", *wrapped(f"To see a witness, give `spin -a` -DSEEK_name, of: {names}", " * ", " * ")]
        if live := self.claims.of("leads_to"):
            names = ", ".join(p.name + (f", {p.name}_within" if p.within is not None else "") for p in live)
            words = (
                "To search for a run in which what should come never does, give `spin -a` -DLIVENESS -DCLAIM_name, "
                "leave out -DSAFETY, and give pan -a -A. (With -DLIVENESS there are more states, as the last step's "
                f"fair group is part of them.) Of: {names}"
            )
            lines += [" *", *wrapped(words, " * ", " * ")]
        if self.claims.left_out:
            lines += [" *", " * Not in this model:"]
            for left_ in self.claims.left_out:
                lines += wrapped(f"{left_.name}: {left_.why}", " *     ", " *       ")
        return [*lines, " */"]

    def _size(self, line: str) -> int:
        """The bytes of a state that a line of declarations stands for."""
        word, _, rest = line.partition(" ")
        many = int(rest.split("[")[1].split("]")[0]) if "[" in rest else 1
        if word in SIZES:
            return SIZES[word] * many
        return self.sizes.get(word, 0) * many

    def _constants(self) -> list[str]:
        lines = []
        for name, c in self.system.constants.items():
            (word,) = self.layout.literal(c.type, c.value)
            doc = f"  /* {sentence(c.doc)} */" if c.doc else ""
            lines.append(f"#define {self.layout.constant(name)} {word}{doc}")
        for role in self.system.roles.values():
            lines += ["", f"/* the states of {role.name} */"]
            lines += [f"#define {self.layout.state(role, s)} {n}" for n, s in enumerate(role.states)]
        for enum in self.system.types.values():
            if isinstance(enum, t.Enum):
                lines += ["", f"/* {enum.name} */"]
                lines += [f"#define {self.layout.member(enum, m)} {n}" for n, m in enumerate(enum.members)]
        if self.system.messages:
            lines += ["", "/* kinds of message; 0 is no message */"]
            for n, m in enumerate(self.system.messages.values(), 1):
                lines += wrapped(m.doc, "/* ", " * ", " */") if m.doc else []
                lines.append(f"#define {self.layout.kind(m.name)} {n}")
        return lines

    def _helpers(self) -> list[str]:
        sizes = [len(t.members(kind)) for kind in self._set_members()]
        bits = " + ".join(f"BIT(Set, {k})" for k in range(max(sizes, default=0))) or "0"
        return [
            "#define BIT(Set, Place) (((Set) >> (Place)) & 1)",
            f"#define SIZE(Set) ({bits})",
            "#define MIN(A, B) ((A) < (B) -> (A) : (B))",
            "#define MAX(A, B) ((A) > (B) -> (A) : (B))",
            "/* rounded down, and 0 where it is divided by 0 */",
            "#define DIV(A, B) ((B) == 0 -> 0 : (A) / (B) - ((A) % (B) != 0 && ((A) % (B) < 0) != ((B) < 0)))",
            "#define MOD(A, B) ((B) == 0 -> 0 : (((A) % (B)) + (B)) % (B))",
        ]

    def _set_members(self) -> list[t.Enum | t.Instance]:
        return [*self.system.types.values(), *(role.instance for role in self.system.roles.values())]

    # State

    def _state(self) -> list[str]:
        """Declarations of all that is part of a state, with the types that they need."""
        self.sizes: dict[str, int] = {}
        lines: list[str] = []
        for role in self.system.roles.values():
            self._measure(record := self.machines.record(role))
            many = f"[{role.count}]" if role.indexed else ""
            lines += [*record, f"{role.name}_Record {safe(role.name)}{many};", ""]
        slotted = {s.name: s for s in self.slotted}
        for channel in self.system.channels.values():
            kinds = slotted[channel.name].types() if channel.name in slotted else set_types(self.layout, channel)
            self._measure(kinds)
            many = f"[{n}]" if (n := self.layout.dimension(channel)) > 1 else ""
            lines += [*about(self.layout, channel), *kinds, f"{channel.name}_Lane {safe(channel.name)}{many};"]
            for fault in ("lose", "duplicate", "reorder"):
                budget = getattr(channel, fault)
                if isinstance(budget, int) and budget:
                    lines.append(f"int {left(channel, fault)} = {budget};")
            lines.append("")
        if self.system.clock is not None:
            lines += [f"/* the clock, from 0 to {self.system.clock.horizon} */", "int clock;"]
        return lines

    def _measure(self, kinds: Sequence[str]) -> None:
        name = ""
        for line in kinds:
            if line.startswith("typedef"):
                name = line.split()[1]
                self.sizes[name] = 0
            elif line.startswith("\t"):
                self.sizes[name] += self._size(line.strip())

    def _hidden(self) -> list[str]:
        lines = ["/* What is hidden is no part of a state. */", *self.machines.scratch.values(), *self.claims.hidden()]
        if self.slotted or self.system.channels:
            lines += [*SCRATCH, *(RANKED_SCRATCH if any(s.ranked for s in self.slotted) else [])]
        lines += [f"hidden {s.name}_Entry New_{s.name};" for s in self.slotted]
        if "took" in self.claims.asked:
            lines += ["hidden byte Took_role;", "hidden short Took_instance;", "hidden short Took_event;"]
        if self.bounded:
            lines.append("hidden byte Within_bounds;")
        return lines + self.old

    def _channel_inlines(self) -> list[list[str]]:
        return [s.inlines() for s in self.slotted]

    def _role_definitions(self) -> list[list[str]]:
        """What the machines do, those that are driven before those that drive them."""
        parts: list[list[str]] = []
        for role in self._driven_first():
            for name, task in role.tasks.items():
                if not isinstance(task, Call):
                    parts.append(self.machines.task(role, name))
            parts += [self.machines.transition(role, tr) for tr in role.transitions()]
            for event in dict.fromkeys(task.event for task in self._drives() if task.role == role.name):
                parts.append(self.machines.driven(role, event))
            for offer, name in self.machines.offered(role):
                if name:
                    parts.append(self.machines.may(role, offer, name))
        return parts + [self.machines.resend(a, b) for a, b in self.steps.resends()]

    def _drives(self) -> list[Drive]:
        return [task for role in self.system.roles.values() for task in role.tasks.values() if isinstance(task, Drive)]

    def _driven_first(self) -> list[Role]:
        done: dict[str, Role] = {}

        def visit(role: Role) -> None:
            if role.name in done:
                return
            for task in role.tasks.values():
                if isinstance(task, Drive):
                    visit(self.system.roles[task.role])
            done[role.name] = role

        for role in self.system.roles.values():
            visit(role)
        return list(done.values())

    # Before and after a step

    def _took(self) -> list[str]:
        if "took" not in self.claims.asked:
            return []
        lines = ["/* what `took` asks for */"]
        lines += [f"#define {self.layout.role(r)} {n}" for n, r in enumerate(self.system.roles, 1)]
        lines += [f"#define {self.layout.event(e)} {n}" for n, e in enumerate(self._events(), 1)]
        return lines

    def _events(self) -> list[str]:
        local = [e for role in self.system.roles.values() for e in role.events]
        return list(dict.fromkeys([*self.system.messages, *local, "tick"]))

    def _fair(self, groups: dict[tuple[Any, ...], int]) -> list[str]:
        if not self.claims.live():
            return []
        if len(groups) > 255:
            raise Unsupported(f"there are {len(groups)} fair groups of steps", "set the numbers of machines lower")
        return [
            "#ifdef LIVENESS", "byte taken;  /* the fair group of the last step; 0: none */",
            "#define Fair(Group) taken = Group", "#else", "#define Fair(Group) skip", "#endif",
        ]  # fmt: skip

    def _places(self) -> list[tuple[tuple[str, str], str, str]]:
        """Every part of a state: what `old` notes of it, where it lies, and where it is remembered."""
        found: list[tuple[tuple[str, str], str, str]] = []
        for role, i in self.system.machines():
            now, then = (self.layout.machine(role.name, str(i), old) for old in (False, True))
            found.append(((role.name, "state"), f"{now}.state", f"{then}.state"))
            for d in role.data.values():
                for leaf, _, cells in stored(d.name, d.type):
                    for k in [""] if cells is None else [f"[{k}]" for k in range(cells)]:
                        name = safe(leaf) + k
                        found.append(((role.name, leaf), f"{now}.{name}", f"{then}.{name}"))
        for channel in self.system.channels.values():
            for joint in self.layout.joints(channel):
                old = self.layout.joint(channel, joint.sender, joint.receiver, old=True)
                slotted = next((s for s in self.slotted if s.channel is channel), None)
                for cell in self._lane_cells(joint.place, slotted):
                    found.append(((channel.name, ""), cell, old.place + cell[len(joint.place) :]))
            for fault in ("lose", "duplicate", "reorder"):
                if isinstance(budget := getattr(channel, fault), int) and budget:
                    found.append((("", ""), left(channel, fault), f"Old_{left(channel, fault)}"))
        if self.system.clock is not None:
            found.append((("clock", "now"), "clock", "Old_clock"))
        return found

    def _lane_cells(self, place: str, slotted: Slotted | None) -> list[str]:
        if slotted is None:
            channel = next(c for c in self.system.channels.values() for j in self.layout.joints(c) if j.place == place)
            joint = next(j for j in self.layout.joints(channel) if j.place == place)
            return [
                bit_of(self.layout, joint, m, k)
                for m in messages_of(self.system, channel)
                for k in range(len(self.layout.held(channel, m)))
            ]
        cells = [f"{place}.slot[{k}].{cell}" for k in range(slotted.count) for cell in slotted.cells]
        return [*cells, *([f"{place}.newest"] if slotted.ranked else [])]

    def _remember(self) -> list[str]:
        """Keeps what claims about steps read of the state before, and all of it where steps may be taken back."""
        kept = [(a, b) for key, a, b in self._places() if self.bounded or key in self.claims.noted]
        noted = {key for key, _, _ in self._places() if self.bounded or key in self.claims.noted}
        self.old: list[str] = []
        for role in self.system.roles.values():
            if any(owner == role.name for owner, _ in noted):
                many = f"[{role.count}]" if role.indexed else ""
                self.old.append(f"hidden {role.name}_Record Old_{role.name}{many};")
        for channel in self.system.channels.values():
            if (channel.name, "") in noted:
                many = f"[{n}]" if (n := self.layout.dimension(channel)) > 1 else ""
                self.old.append(f"hidden {channel.name}_Lane Old_{channel.name}{many};")
        self.old += [f"hidden int {b};" for a, b in kept if "." not in a]
        if not kept:
            return []
        lines = ["inline Remember() {", *(f"\t{b} = {a};" for a, b in kept), "\tskip", "}"]
        if self.bounded:
            lines += ["inline Take_back() {", *(f"\t{a} = {b};" for a, b in kept), "\tskip", "}"]
        return lines

    def _judge(self) -> list[str]:
        judged = self.claims.judgements()
        if self.bounded:
            tests = (
                [term(self.system.constraint, PromelaBindings(self.layout))]
                if self.system.constraint is not None
                else []
            )
            tests += list(self._ranges())
            judged = [
                f"Within_bounds = ({' && '.join(tests)});", "if", ":: !Within_bounds -> Take_back()", ":: else ->",
                *(f"\t{line}" for line in judged), "\tskip", "fi;",
            ]  # fmt: skip
        return ["inline Judge() {", *(f"\t{line}" for line in judged), "\tskip", "}"] if judged else []

    def _ranges(self) -> list[str]:
        found = []
        for role, datum, (low, high) in ranges(self.system):
            if not isinstance(datum.type, t.Int | t.Time | t.Opaque | t.Instance):
                raise Unsupported(f"`{role.name}.{datum.name}` is a {datum.type} with `explore`",
                                  "write the bound as `constraint`", datum.place)  # fmt: skip
            a, b = (term(e, PromelaBindings(self.layout)) for e in (low, high))
            for i in range(role.count):
                value = f"{self.layout.machine(role.name, str(i))}.{safe(datum.name)}"
                found.append(f"({a} <= {value} && {value} <= {b})")
        return found

    # The process

    def _process(
        self, alternatives: Sequence[Alternative], groups: dict[tuple[Any, ...], int], monitors: list[str], old: bool
    ) -> list[str]:
        lines = ["active proctype Steps() {", *(f"\t{line}" for line in self._initial())]
        lines += ["\tdo", "\t:: atomic {", "\t\tif"]
        section = ""
        for a in alternatives:
            if a.section != section:
                section = a.section
                lines += wrapped(section, "\t\t/* ", "\t\t * ", " */")
            first = [f'printf("{a.label}\\n")', *(["Remember()"] if old else [])]
            last = self._consumed(a) + ([f"Fair({groups.get(a.group, 0) if a.group else 0})"] if groups else [])
            lines.append(f"\t\t:: d_step {{ {a.guard} -> {'; '.join([*first, *a.body, *last])} }}")
        if self.claims.live():
            lines += ["#ifdef LIVENESS", "\t\t:: d_step { true -> Fair(0) }  /* nothing need happen */", "#endif"]
        if not alternatives:
            lines.append("\t\t:: false")
        lines += ["\t\tfi;", "\t\td_step { Judge() }" if self._judge() else "\t\tskip", "\t}"]
        lines += [line if line.startswith("#") else f"\t{line}" for line in monitors]
        return [*lines, "\tod", "}"]

    def _consumed(self, a: Alternative) -> list[str]:
        """What `took` is to know of a step."""
        if "took" not in self.claims.asked:
            return []
        if a.took is None:
            return ["Took_role = 0"]
        role, instance, event = a.took
        return [
            f"Took_role = {self.layout.role(role)}", f"Took_instance = {instance}",
            f"Took_event = {self.layout.event(event)}",
        ]  # fmt: skip

    def _several_initial_states(self) -> bool:
        return any(d.any_initial for role in self.system.roles.values() for d in role.data.values())

    def _initial(self) -> list[str]:
        """The choice of an initial state, where there are several; a system that claims no ends may stop anywhere."""
        lines: list[str] = []
        world = reference_of(self.system)
        states = world.initial_states()
        first = [s for s in dict.fromkeys(states) if world.within_bounds(s)]
        if not first:
            raise Unsupported("no initial state is within the bounds", "loosen `initially` or `constraint`")
        if self.several:
            if len(first) > MOST_INITIAL:
                raise Unsupported(f"there are {len(first):,} initial states", "set constants lower")
            lines.append("if")
            for state in first:
                sets = [
                    f"{self.layout.machine(role.name, str(i))}.{place} = {word}"
                    for role, i in self.system.machines()
                    for d in role.data.values()
                    if d.any_initial
                    for place, word in initial_scalars(
                        self.layout, d.name, d.type, state[world.layout.at(role.name, i, d.name)]
                    )
                ]
                lines.append(f":: d_step {{ {'; '.join(sets)} }}")
            lines.append("fi;")
        return [*lines, *(["end:"] if self.system.ends is None else [])]
