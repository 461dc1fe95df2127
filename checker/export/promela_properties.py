"""Properties in Promela.

    always       an alternative that is possible only where the claim is false, and asserts it
    step         an assertion after every step, over the state before it, which hidden variables hold
    sometimes    an alternative that is possible where the claim is true, asked for by -DSEEK_name
    leads_to     a never claim, asked for by -DCLAIM_name; with `within`, another by -DCLAIM_name_within
    always_eventually, eventually_always    a never claim likewise
    ends         what is possible when nothing else is, and asserts that an end holds

Theory of operation of the never claims. A run breaks `when` leads to `claim` if it comes to a state where `when` holds,
and from there on never to one where the claim does, and is fair: each group of steps that must happen in the end is
taken again and again, or impossible again and again. SPIN's own fairness is of processes, and there is but one; so the
never claim waits for each group in its turn, and accepts when it has seen all. For that the model notes, under
-DLIVENESS, which group the last step was of, and lets a run stand still: that is fair where no group is possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leasehold.checker.export.promela_layout import PromelaNames, both, either, opposite
from leasehold.checker.export.promela_steps import Alternative
from leasehold.checker.export.promela_terms import PromelaBindings, word
from leasehold.checker.export.shared import (
    ExportError,
    LeftOut,
    asks_what_was_taken,
    bounded,
    named_cases,
    without_refinement,
    wrapped,
)
from leasehold.spec.language.model import OF_FAIR_RUNS, Fair, Property

LIVENESS = """
#ifdef LIVENESS
byte taken;  /* the fair group of the last step; 0: none */
#define Fair(Group) taken = Group
#else
#define Fair(Group) skip
#endif
"""


class PromelaProperties:
    """The properties of one system, as parts of its model."""

    def __init__(self, names: PromelaNames) -> None:
        self.names, self.system, self.frame = names, names.system, PromelaBindings(names)
        strong = [f"`{name}`" for name, action in self.system.environment.items() if action.fair is Fair.STRONG]
        branching = "that some run leads to it is a claim about branching time, and SPIN's are about single runs"
        reasons: dict[str, str] = {"always_possible": branching}
        if bounded(self.system):
            why = "fairness would be asked of steps out of the bounds, which the model takes back"
            reasons |= dict.fromkeys(OF_FAIR_RUNS, why)
        elif strong:
            why = f"{', '.join(strong)} needs strong fairness, and the never claim asks for weak fairness alone"
            reasons |= dict.fromkeys(OF_FAIR_RUNS, why)
        properties = self.system.properties.values()
        self.left_out = [LeftOut(p.name, reasons[p.kind]) for p in properties if p.kind in reasons]
        self.left_out += without_refinement(self.system)
        self.stated = [case for p in properties if p.kind not in reasons for case in named_cases(p)]
        self.notes_took = any(map(asks_what_was_taken, self.stated))

    def of(self, kind: str) -> list[Property]:
        return [p for p in self.stated if p.kind == kind]

    def live(self) -> list[Property]:
        """The properties about fair runs, each a never claim."""
        return [p for p in self.stated if p.kind in OF_FAIR_RUNS]

    def usage(self) -> list[str]:
        """Returns what the head of the model says of properties that are asked for."""
        seek = ", ".join(p.name for p in self.of("sometimes"))
        live = ", ".join(p.name + (f", {p.name}_within" if p.within is not None else "") for p in self.live())
        lines = [f"To see a witness, give `spin -a` -DSEEK_name, of: {seek}"] if seek else []
        if live:
            lines.append(
                "To search for a run in which what should come never does, give `spin -a` -DLIVENESS -DCLAIM_name, "
                "leave out -DSAFETY, and give pan -a -A. (With -DLIVENESS there are more states, as the last step's "
                f"fair group is part of them.) Of: {live}"
            )
        return lines

    def hidden(self) -> list[str]:
        """Variables by whose names SPIN says what was violated, and what `took` and `ignored` ask for."""
        asserted = [p.name for p in (*self.of("always"), *self.of("step"))]
        asserted += ["deadlock_free"] if self.system.ends is not None else []
        took = ["Took_role", "Took_instance", "Took_event", "Took_ignored"] if self.notes_took else []
        return [*(f"Holds_{name}" for name in asserted), *(f"Not_yet_{p.name}" for p in self.of("sometimes")), *took]

    def _holds(self, p: Property) -> str:
        claim = word(p.claim, self.frame)
        return claim if p.when is None else either([opposite(word(p.when, self.frame)), claim])

    # Asserted

    def monitors(self) -> list[str]:
        """Alternatives that are possible only where there is something to report.

        They change nothing. A run that took one for ever would seem to take the step before for ever, of whatever group
        that was: under -DLIVENESS there are none.
        """
        lines: list[str] = []
        unless = self.of("always") and self.live()
        lines += ["#ifndef LIVENESS"] if unless else []
        for p in self.of("always"):
            lines += _about(p, "always")
            lines.append(
                f":: d_step {{ {opposite(self._holds(p))} -> Holds_{p.name} = false; assert(Holds_{p.name}) }}"
            )
        lines += ["#endif"] if unless else []
        for p in self.of("sometimes"):
            lines += [f"#ifdef SEEK_{p.name}", *_about(p, "sometimes; an error is the witness")]
            assertion = f"Not_yet_{p.name} = false; assert(Not_yet_{p.name})"
            lines += [f":: d_step {{ {self._holds(p)} -> {assertion} }}", "#endif"]
        if self.system.ends is not None:
            allowed = either([word(e.holds, self.frame) for e in self.system.ends])
            names = ", ".join(e.name for e in self.system.ends)
            lines += wrapped(f"deadlock_free: nothing stops but in an allowed end: {names}", "/* ", " * ", " */")
            lines.append(f":: atomic {{ else -> Holds_deadlock_free = {allowed}; assert(Holds_deadlock_free) }}")
        return lines

    def judgements(self) -> list[str]:
        """Assertions about the step that was taken."""
        return [
            "\n\t".join([*_about(p, "step"), f"Holds_{p.name} = {self._holds(p)}; assert(Holds_{p.name})"])
            for p in self.of("step")
        ]

    # What is noted of a step

    def took(self) -> list[str]:
        """Names for what `took` asks for."""
        if not self.notes_took:
            return []
        local = [e for role in self.system.roles.values() for e in role.events]
        events = dict.fromkeys([*self.system.messages, *local, "tick"])
        parts = ("role", "instance", "event", "ignored")
        names = ", ".join(part.capitalize() for part in parts)
        lines = [f"#define Took({names}) " + "; ".join(f"Took_{part} = {part.capitalize()}" for part in parts)]
        lines += [f"#define {self.names.define('role', r)} {n}" for n, r in enumerate(self.system.roles, 1)]
        return lines + [f"#define {self.names.define('event', e)} {n}" for n, e in enumerate(events, 1)]

    def consumed(self, a: Alternative) -> list[str]:
        if not self.notes_took:
            return []
        if a.took is None:
            return ["Took_role = 0"]
        role, instance, event = a.took
        ignored = str(a.ignored).lower()
        return [f"Took({self.names.define('role', role)}, {instance}, {self.names.define('event', event)}, {ignored})"]

    def groups(self, alternatives: Sequence[Alternative]) -> dict[tuple[Any, ...] | None, int]:
        """The fair groups, numbered from 1; 0 is no group."""
        groups = dict.fromkeys(a.group for a in alternatives if a.group is not None) if self.live() else {}
        if len(groups) > 255:
            raise ExportError(f"there are {len(groups)} fair groups of steps", "set the numbers of machines lower")
        return {group: n for n, group in enumerate(groups, 1)}

    def taken(self) -> list[str]:
        return LIVENESS.strip().splitlines() if self.live() else []

    # Never claims

    def never(
        self, alternatives: Sequence[Alternative], groups: dict[tuple[Any, ...] | None, int], begun: str
    ) -> list[str]:
        """The never claims, each under its name, and what says whether a group is possible.

        `begun` is true in the states of the system, not in the one before an initial state is set; it may be empty.
        """
        lines: list[str] = []
        at = [begun] if begun else []
        for group, number in groups.items():
            assert group is not None
            lines += wrapped(f"{number}: {' '.join(map(str, group))}", "/* fair group ", " * ", " */")
            lines.append(f"#define Possible_{number} {either([a.guard for a in alternatives if a.group == group])}")
        for p in self.live():
            lines += self._never(p, len(groups), at)
            if p.within is not None and self.system.clock is not None:
                owed = f"Owed_{p.name}_within"
                starts = range(max(0, self.system.clock.horizon - p.within))
                states = {
                    f"since_{now}": [
                        f"{owed} && clock <= {now + p.within}",
                        f"clock > {now + p.within} -> goto late",
                    ]
                    for now in starts
                }
                when = [] if p.when is None else [word(p.when, self.frame)]
                begins = {f"since_{now}": both([*at, f"(clock == {now})", *when, owed]) for now in starts}
                about = f"a run in which it is owed for more than {p.within} ticks"
                lines += self._claim(p, f"{p.name}_within", about, begins, states, ["late:", "\tskip"])
        return lines

    def _never(self, p: Property, groups: int, at: list[str]) -> list[str]:
        """The never claim about a fair run: it waits for the groups in their turn, and so again and again.

        Of an `eventually_always`, it waits for a state without the claim, too; else, there is no state with it.
        """
        owed, when = f"Owed_{p.name}", [] if p.when is None else [word(p.when, self.frame)]
        again = p.kind == "eventually_always"
        stay = "true" if again else owed
        turns = [f"(taken == {n} || !Possible_{n})" for n in range(1, groups + 1)] + [owed] * again
        waiting = "owed_1" if turns else "accept_owed_1"
        states: dict[str, list[str]] = {}
        if p.kind == "always_eventually" and when:
            states["since"] = ["true", f"{owed} -> goto {waiting}"]
        for n, turn in enumerate(turns, 1):
            then = f"owed_{n + 1}" if n < len(turns) else "accept_all"
            states[f"owed_{n}"] = [stay, f"{both([stay, turn]) if stay == owed else turn} -> goto {then}"]
        states |= {"accept_all": [f"{stay} -> goto owed_1"]} if turns else {"accept_owed_1": [owed]}
        first = [*at, *when] if again or "since" in states else [*at, *when, owed]
        start = "since" if "since" in states else waiting
        about = f"a fair run in which it is owed {'again and again' if again else 'for ever'}"
        return self._claim(p, p.name, about, {start: both(first)}, states)

    def _claim(
        self,
        p: Property,
        name: str,
        about: str,
        begins: dict[str, str],
        states: dict[str, list[str]],
        last: Sequence[str] = (),
    ) -> list[str]:
        """A never claim: where it begins to be owed, what may follow in each of its states while it is, and an end."""
        missing = opposite(word(p.claim, self.frame))
        lines = ["", f"#ifdef CLAIM_{name}", *_about(p, about), f"#define Owed_{name} ({missing})"]
        lines += ["never {", "wait:", "\tdo", "\t:: true"]
        lines += [f"\t:: {test} -> goto {state}" for state, test in begins.items()]
        lines.append("\tod;")
        for state, ways in states.items():
            lines += [f"{state}:", "\tdo", *(f"\t:: {way}" for way in ways), "\tod;"]
        return [*lines, *last, "}", "#endif"]


def _about(p: Property, kind: str) -> list[str]:
    return wrapped(f"{p.name}: {kind}. {p.doc}", "/* ", " * ", " */")
