"""The assumptions of a proof: all that it depends on besides the text of the specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leasehold.checker.prove.decide.induction import Setting
from leasehold.checker.prove.decide.k_induction import DEPTH
from leasehold.checker.prove.encode.encoding import known_sizes
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.check.lint import linted_expressions
from leasehold.spec.language.constant import Constant
from leasehold.spec.language.model import System


@dataclass(frozen=True)
class Assumptions:
    """The assumptions of a proof: for what it holds, and what it takes for granted.

    Attributes:
        machines: numbers of machines by role, and of counted types, in words.
        constants: their values, in words: one value, or which.
        faults_left_out: which faults no step has, and why; empty where steps have all that the prover knows.
        assumed: what holds in every run by assumption.
        limit_seconds: for one query to the solver.
        most_steps: of k-induction; 0: only induction was tried.
    """

    machines: Mapping[str, str]
    constants: Mapping[str, str]
    faults_left_out: str
    assumed: tuple[str, ...]
    limit_seconds: float
    most_steps: int

    @property
    def lines(self) -> list[str]:
        """The assumptions in words, one line for each kind."""
        parts = [("machines", self._listed(self.machines)), ("constants", self._listed(self.constants))]
        parts += [("faults left out", self.faults_left_out), ("assumed", "; ".join(self.assumed))]
        more = f"k-induction over at most {self.most_steps} steps, lemmas from explored states"
        methods = (
            f"queries of at most {self.limit_seconds:g} s, induction{f', {more}' if self.most_steps else ' alone'}"
        )
        return [f"{name}: {text}" for name, text in [*parts, ("methods", methods)] if text]

    @staticmethod
    def _listed(values: Mapping[str, str]) -> str:
        return ", ".join(f"{name} {value}" for name, value in values.items())


def assumptions(system: System, setting: Setting, *, searches: bool = True) -> Assumptions:
    """Returns what a proof of a system depends on; `searches` says whether more than induction was tried."""
    counted = {type_.name: _number(system, setting, type_) for type_ in system.counted()}
    single = {role.name: "1" for role in system.roles.values() if not role.indexed}
    return Assumptions(
        machines={**single, **counted},
        constants={name: _value(system, setting, c) for name, c in system.constants.items()},
        faults_left_out=_left_out(system, setting),
        assumed=tuple(_assumed(system, setting.scope or FaultScope.of(system))),
        limit_seconds=setting.limit_seconds,
        most_steps=DEPTH if searches else 0,
    )


def any_number(system: System, setting: Setting) -> list[str]:
    """Roles and counted types that have any number of instances in a proof."""
    known, bounding = known_sizes(system, setting.sizes), system.bounding
    return [i.name for i in system.counted() if i.counted_by and i.counted_by not in bounding and i.name not in known]


def held(system: System, setting: Setting) -> list[str]:
    """Returns what has one value in a proof: set numbers of instances, set constants, and constants that bound."""
    fixed = [f"{name}={count}" for name, count in known_sizes(system, setting.sizes).items()]
    counting = {type_.counted_by for type_ in system.counted() if type_.name in setting.sizes}
    constants = [c for n, c in sorted(system.constants.items()) if n in {*setting.values, *system.bounding} - counting]
    return [*fixed, *(f"{c.name}={t.show(c.type, c.value)}" for c in constants)]


def _number(system: System, setting: Setting, type_: t.Instance) -> str:
    sizes = known_sizes(system, setting.sizes)
    if type_.name in sizes:
        return f"{sizes[type_.name]} ({'--set' if type_.counted_by in setting.values else '--instances'})"
    if type_.name not in any_number(system, setting):
        return str(type_.count)
    return f"any number from {_least(system.constants[type_.counted_by], [1])} on"


def _value(system: System, setting: Setting, constant: Constant) -> str:
    counted = [type_ for type_ in system.counted() if type_.counted_by == constant.name]
    for type_ in counted:
        if type_.name in setting.sizes and constant.name not in setting.values:
            return f"{setting.sizes[type_.name]} (--instances)"
    if constant.name in system.bounding:
        value = t.show(constant.type, constant.value)
        return f"= {value} (bounds a type, a first value, a number of machines or of faults)"
    if constant.name in setting.values:
        return f"= {t.show(constant.type, setting.values[constant.name])} (--set)"
    least = _least(constant, [1] if counted else [])
    return "any" if least is None else f"any from {least} on"


def _least(constant: Constant, lows: Sequence[int]) -> int | None:
    """The least value of a constant in a proof; None: there is none."""
    if isinstance(constant.type, t.Int) and constant.type.low is not None:
        lows = [*lows, constant.type.low]
    return max(lows, default=None)


def _left_out(system: System, setting: Setting) -> str:
    scope = setting.scope or FaultScope.of(system)
    missing = [
        *(["crashes"] if not scope.crash else []),
        *(["faults of the network but those that channels declare"] if not scope.network else []),
    ]
    if not missing:
        return ""
    other = [f"channel {c.name} is a {c.kind}" for c in system.channels.values() if c.kind != "mailbox"]
    why = "as --no-faults asks" if setting.scope is not None else f"as {', '.join(other)}"
    return f"{' and '.join(missing)}, {why}"


def _assumed(system: System, scope: FaultScope) -> list[str]:
    sentences = ["nobody is Byzantine: every role follows its text"]
    if not scope.amnesia:
        sentences.append("stores last: no actor comes back without what it has committed")
    if system.environment:
        sentences.append("events from outside come as `environment` says, with fields within their types")
    if system.initially is not None:
        sentences.append("the first state is as `initially` says")
    if system.clock is not None:
        sentences.append("all actors' clocks agree")
    every = [
        *linted_expressions(system),
        *(e for p in system.lemmas.values() for e in (p.when, p.claim) if e is not None),
    ]
    if any(x.mentions(e, lambda node: x.is_query(node, "reachable")) for e in every):
        sentences.append("`reachable` is arbitrary: in any state, any two machines may be apart")
    return sentences
