"""Properties in Promela.

    always       an alternative that is possible only where the claim is false, and asserts it
    step         an assertion after every step, over the state before it, which hidden variables hold
    sometimes    an alternative that is possible where the claim is true, asked for by -DSEEK_name
    leads_to     a never claim, asked for by -DCLAIM_name; with `within`, another by -DCLAIM_name_within
    ends         what is possible when nothing else is, and asserts that an end holds

Theory of operation of the never claims. A run breaks `when` leads to `claim` if it comes to a state where `when` holds,
and from there on never to one where the claim does, and is fair: each group of steps that must happen in the end is
taken again and again, or impossible again and again. SPIN's own fairness is of processes, and there is but one; so the
never claim waits for each group in its turn, and accepts when it has seen all. For that the model notes, under
-DLIVENESS, which group the last step was of, and lets a run stand still: that is fair where no group is possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from leasehold.checker.export.promela_layout import PromelaNames
from leasehold.checker.export.promela_messages import PromelaBindings
from leasehold.checker.export.promela_steps import Alternative
from leasehold.checker.export.promela_terms import term
from leasehold.checker.export.shared import LeftOut, bounded, wrapped
from leasehold.spec.language.model import Fair, Property, System


@dataclass
class Claims:
    """The properties of one system, as parts of its model."""

    layout: PromelaNames
    system: System = field(init=False)
    noted: set[tuple[str, str]] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    left_out: list[LeftOut] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.system = self.layout.system
        strong = [f"`{name}`" for name, action in self.system.environment.items() if action.fair is Fair.STRONG]
        for p in self.system.properties.values():
            if p.kind == "always_possible":
                why = "that some run leads to it is a claim about branching time, and SPIN's are about single runs"
                self.left_out.append(LeftOut(p.name, why))
            elif p.kind == "leads_to" and bounded(self.system):
                why = "fairness would be asked of steps out of the bounds, which the model takes back"
                self.left_out.append(LeftOut(p.name, why))
            elif p.kind == "leads_to" and strong:
                why = f"{', '.join(strong)} needs strong fairness, and the never claim asks for weak fairness alone"
                self.left_out.append(LeftOut(p.name, why))

    def frame(self) -> PromelaBindings:
        return PromelaBindings(self.layout, noted=self.noted, asked=self.asked)

    def of(self, kind: str) -> list[Property]:
        without = {left.name for left in self.left_out}
        return [p for p in self.system.properties.values() if p.kind == kind and p.name not in without]

    def words(self, p: Property) -> str:
        claim = term(p.claim, self.frame())
        return claim if p.when is None else f"(!{term(p.when, self.frame())} || {claim})"

    def hidden(self) -> list[str]:
        """Variables by whose names SPIN says what was violated."""
        named = [p.name for p in (*self.of("always"), *self.of("step"))]
        named += ["deadlock_free"] if self.system.ends is not None else []
        lines = [f"hidden byte Holds_{name};" for name in named]
        return lines + [f"hidden byte Not_yet_{p.name};" for p in self.of("sometimes")]

    # Asserted

    def monitors(self) -> list[str]:
        """Alternatives that are possible only where there is something to report."""
        lines: list[str] = []
        for p in self.of("always"):
            lines += _about(p, "always")
            lines.append(f":: d_step {{ !{self.words(p)} -> Holds_{p.name} = false; assert(Holds_{p.name}) }}")
        for p in self.of("sometimes"):
            lines += [f"#ifdef SEEK_{p.name}", *_about(p, "sometimes; an error is the witness")]
            found = f"Not_yet_{p.name} = false; assert(Not_yet_{p.name})"
            lines += [f":: d_step {{ {self.words(p)} -> {found} }}", "#endif"]
        if self.system.ends is not None:
            held = " || ".join(term(e.holds, self.frame()) for e in self.system.ends) or "false"
            names = ", ".join(e.name for e in self.system.ends)
            lines += wrapped(f"deadlock_free: nothing stops but in an allowed end: {names}", "/* ", " * ", " */")
            lines.append(f":: atomic {{ else -> Holds_deadlock_free = ({held}); assert(Holds_deadlock_free) }}")
        return lines

    def judgements(self) -> list[str]:
        """Assertions about the step that was taken."""
        lines: list[str] = []
        for p in self.of("step"):
            lines += _about(p, "step")
            lines.append(f"Holds_{p.name} = {self.words(p)}; assert(Holds_{p.name});")
        return lines

    # Never claims

    def live(self) -> bool:
        return bool(self.of("leads_to"))

    def groups(self, alternatives: Sequence[Alternative]) -> dict[tuple[Any, ...], int]:
        """The fair groups, numbered from 1; 0 is no group."""
        found: dict[tuple[Any, ...], int] = {}
        for a in alternatives if self.live() else ():
            if a.group is not None:
                found.setdefault(a.group, len(found) + 1)
        return found

    def never(self, alternatives: Sequence[Alternative], groups: dict[tuple[Any, ...], int]) -> list[str]:
        """The never claims, each under its name, and what says whether a group is possible."""
        lines: list[str] = []
        for group, number in groups.items():
            guards = " || ".join(f"({a.guard})" for a in alternatives if a.group == group)
            lines += [*wrapped(f"{number}: {' '.join(map(str, group))}", "/* fair group ", " * ", " */")]
            lines.append(f"#define Possible_{number} ({guards})")
        for p in self.of("leads_to"):
            lines += self._fair_run(p, len(groups))
            if p.within is not None and self.system.clock is not None:
                lines += self._late(p, p.within, self.system.clock.horizon)
        return lines

    def _owed(self, p: Property) -> tuple[str, str]:
        """Where the claim begins to be owed, and where it still is."""
        missing = f"!{term(p.claim, self.frame())}"
        begins = missing if p.when is None else f"{term(p.when, self.frame())} && {missing}"
        return begins, missing

    def _fair_run(self, p: Property, groups: int) -> list[str]:
        begins, missing = self._owed(p)
        lines = ["", f"#ifdef CLAIM_{p.name}", *_about(p, "a fair run in which it is owed for ever")]
        lines += [f"#define Owed_{p.name} ({missing})", "never {", "wait:", "\tdo", "\t:: true"]
        lines += [f"\t:: {begins} -> goto owed_1", "\tod;"]
        for n in range(1, groups + 1):
            then = f"owed_{n + 1}" if n < groups else "accept_all"
            lines += [
                f"owed_{n}:", "\tdo", f"\t:: Owed_{p.name}",
                f"\t:: Owed_{p.name} && (taken == {n} || !Possible_{n}) -> goto {then}", "\tod;",
            ]  # fmt: skip
        last = "accept_all" if groups else "accept_owed_1"
        lines += [f"{last}:", *(["\tdo", f"\t:: Owed_{p.name} -> goto owed_1", "\tod"] if groups else
                                ["owed_1:", "\tdo", f"\t:: Owed_{p.name}", "\tod"])]  # fmt: skip
        return [*lines, "}", "#endif"]

    def _late(self, p: Property, within: int, horizon: int) -> list[str]:
        begins, missing = self._owed(p)
        name = f"{p.name}_within"
        lines = ["", f"#ifdef CLAIM_{name}", *_about(p, f"a run in which it is owed for more than {within} ticks")]
        lines += [f"#define Owed_{name} ({missing})", "never {", "wait:", "\tdo", "\t:: true"]
        starts = range(max(0, horizon - within))
        lines += [f"\t:: clock == {now} && {begins} -> goto since_{now}" for now in starts]
        lines.append("\tod;")
        for now in starts:
            lines += [
                f"since_{now}:", "\tdo", f"\t:: Owed_{name} && clock <= {now + within}",
                f"\t:: Owed_{name} && clock > {now + within} -> goto late", "\tod;",
            ]  # fmt: skip
        return [*lines, "late:", "\tskip", "}", "#endif"]


def _about(p: Property, kind: str) -> list[str]:
    return wrapped(f"{p.name}: {kind}. {p.doc}", "/* ", " * ", " */")
