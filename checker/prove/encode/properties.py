"""The claims about a system: its properties, its lemmas, and auxiliary invariants that the prover adds by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import z3

from leasehold.checker.prove.encode.auxiliary import auxiliary_invariants
from leasehold.checker.prove.encode.encoding import Claim, Encoding, Kind, Meaning
from leasehold.checker.prove.encode.formulas import Term, Unencodable
from leasehold.checker.prove.encode.state import SymbolicState
from leasehold.checker.prove.encode.terms import ANY_STEP, Bindings, StepLabel, term
from leasehold.spec.language import expression as x
from leasehold.spec.language.check.lint import linted_expressions
from leasehold.spec.language.model import Property, System


def claims(encoding: Encoding) -> list[Claim]:
    """The properties about states and steps, the lemmas, and the auxiliary invariants.

    Properties that speak of Byzantine roles are left out: in the transition relation every role follows its text.
    """
    system = encoding.system
    texts = {**system.lemmas, **system.properties}
    written = [_claim(encoding, texts[name], kind) for name, kind in written_claims(system).items()]
    return [*written, *auxiliary_invariants(encoding)]


def written_claims(system: System) -> dict[str, Kind]:
    """The names of the properties about states and steps, and of the lemmas."""
    kinds: dict[str, Kind] = {
        p.name: "step" if p.kind == "step" else "always"
        for p in system.properties.values()
        if p.kind in ("always", "step") and not _is_about_byzantine(p)
    }
    return {**kinds, **dict.fromkeys(system.lemmas, "lemma")}


def meaning_of(encoding: Encoding, p: Property) -> Meaning:
    """A property as a term over states."""
    olds: dict[int, Any] = {}

    def meaning(s: SymbolicState, before: SymbolicState | None, took: StepLabel) -> Term:
        bindings = Bindings(encoding.sorts, s, encoding.constants, before=before, took=took, olds=olds)
        when = z3.BoolVal(True) if p.when is None else term(p.when, bindings)
        if z3.is_false(when):
            return z3.BoolVal(True)
        claim = term(p.claim, bindings)
        return claim if p.when is None else z3.Implies(when, claim)

    return meaning


def _claim(encoding: Encoding, p: Property, kind: Kind) -> Claim:
    meaning = meaning_of(encoding, p)
    messages = any(x.mentions(e, is_about_messages) for e in (p.when, p.claim))
    try:
        meaning(encoding.before, encoding.before if kind == "step" else None, ANY_STEP)
    except Unencodable as error:
        return Claim(p.name, kind, meaning, str(error), messages)
    return Claim(p.name, kind, meaning, encoding.relation.why_no_proof(), messages)


def is_about_messages(node: x.Expression) -> bool:
    """Returns whether a part of an expression is about messages on their way."""
    return x.reads_messages(node) or isinstance(node, x.MessageField)


def steps_read_messages(system: System) -> bool:
    """Returns whether the effect of a step depends on messages on their way, beside the one that it takes."""
    return _steps_mention(system, is_about_messages)


def steps_read_reachability(system: System) -> bool:
    """Returns whether the effect of a step depends on partitions of the network."""
    return _steps_mention(system, lambda node: x.is_query(node, "reachable"))


def _steps_mention(system: System, test: Callable[[x.Expression], bool]) -> bool:
    return any(x.mentions(e, test) for e in linted_expressions(replace(system, properties={})))


def _is_about_byzantine(p: Property) -> bool:
    return any(x.mentions(e, lambda node: x.is_query(node, "byzantine")) for e in (p.when, p.claim))
