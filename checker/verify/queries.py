"""Each property of a system as one query, which yields the cuts (`run`, `cut`) that decide it.

A query of `always` or `step` yields the cuts that violate the property, one of `sometimes` those that show it. It reads
new cuts alone: those with `cut.entry > :checked`, where `:checked` is the entry up to which it was asked before. A
claim about what comes is decided later than the cut that it is about: a `leads_to` when the run is over, or when more
time has passed than `within`; so its query reads runs, or instants, that are over since that entry.

The ends that a system allows are a claim about runs that are over. What no query can decide is in `not_asked`, with the
reason: whether something *can* happen from a state (`always_possible`), and what depends on actors that may send
anything. Facts about messages, machines, actors and partitions are all asked.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from leasehold.checker.explore.properties import DEADLOCK
from leasehold.checker.verify.schema import Table, Tables
from leasehold.checker.verify.sql.frame import Moment, NotAsked, SqlFrame, alias, nested
from leasehold.checker.verify.sql.source import over_cuts, sql
from leasehold.checker.verify.sql.text import COMPARED, NOT, Enclosed, Joined, Sequel, Sql, Words, lines
from leasehold.spec.language import expression as x
from leasehold.spec.language.conditions import folded, opposite
from leasehold.spec.language.for_each import each
from leasehold.spec.language.model import Property, System

CHECKED = ":checked"
WHAT_CAN = "it says what can happen, and a run shows only what has happened"  # why it is not asked
COMMENT = 100  # characters of a line of a comment
Yields: TypeAlias = Literal["violations", "witnesses"]


@dataclass(frozen=True)
class PropertyQuery:
    """A property as a query.

    Attributes:
        name: of the property; where it is claimed of each value of variables, with the values.
        yields: what the cuts are that it yields.
        text: the query, with the parameter `:checked`.
        of: the property's name; `doc` and `source` are its own, `claim` is it as the language writes it.
    """

    name: str
    yields: Yields
    text: str
    of: str
    doc: str = ""
    source: str = ""
    claim: str = ""

    def since(self, checked: int) -> str:
        """The query of the cuts that were entered after this one; -1 is before all."""
        return self.text.replace(CHECKED, str(checked))

    def explained(self) -> str:
        """The query below its property, as a person may run it."""
        comment = [f"{self.name} ({self.source})" if self.source else self.name]
        comment += textwrap.wrap(self.doc, COMMENT)
        for line in self.claim.splitlines():
            deep = " " * (len(line) - len(line.lstrip()) + 2)
            comment += textwrap.wrap(line.strip(), COMMENT, initial_indent=deep, subsequent_indent=f"{deep}    ")
        comment.append(
            {"violations": "Yields the cuts that violate it.", "witnesses": "Yields the cuts that show it."}[
                self.yields
            ]
        )
        return "\n".join([*(f"-- {line}" for line in comment), f"{self.text};\n"])


class Queries:
    """The queries of a system's properties for a database.

    Attributes:
        queries: by name.
        not_asked: properties that no query decides, with the reason.
    """

    def __init__(self, tables: Tables, properties: Mapping[str, Property] | None = None) -> None:
        self.tables, self.system = tables, tables.system
        self.queries: dict[str, PropertyQuery] = {}
        self.not_asked: dict[str, str] = {}
        for p in ({**self.system.properties, **end_claim(self.system)} if properties is None else properties).values():
            try:
                queries = [self._query(one) for one in each(p)]
            except NotAsked as why:
                self.not_asked[p.name] = str(why)
            else:
                self.queries |= {q.name: q for q in queries}

    def _query(self, p: Property) -> PropertyQuery:
        values = self.system.values()
        claim = folded(p.claim, values)
        when = x.TRUE if p.when is None else folded(p.when, values)
        for e in (claim, when):
            if x.mentions(e, lambda n: x.is_query(n, "byzantine")):
                raise NotAsked("it is about an actor that may send anything, and no run says of itself that one does")
        text = {
            "always": self._state,
            "step": self._step,
            "sometimes": self._witness,
            "leads_to": self._leads_to,
            "always_eventually": self._at_end,
            "eventually_always": self._at_end,
        }.get(p.kind)
        if text is None:
            raise NotAsked(WHAT_CAN)
        name = p.name + "".join(f" {n}={v}" for n, v in p.binding.items())
        yields: Yields = "witnesses" if p.kind == "sometimes" else "violations"
        return PropertyQuery(name, yields, text(p, when, claim), p.name, p.doc, p.source, claim_text(p))

    # Of states and steps

    def _frame(self) -> SqlFrame:
        frame = over_cuts(self.tables)
        frame.scope.query.of = "cut.run, cut.number AS cut"
        frame.scope.query.where.append(Words(f"cut.entry > {CHECKED}", COMPARED))
        return frame

    def _state(self, p: Property, when: x.Expression, claim: x.Expression) -> str:
        return self._violating(self._frame(), when, claim)

    def _step(self, p: Property, when: x.Expression, claim: x.Expression) -> str:
        frame = self._frame()
        frame.scope.query.where.append(Words("cut.number > 0", COMPARED))
        return self._violating(frame, when, claim)

    def _violating(self, frame: SqlFrame, when: x.Expression, claim: x.Expression) -> str:
        where = frame.scope.query.where
        for part in (*x.conjuncts(when), *x.conjuncts(opposite(claim))):
            if part != x.TRUE:
                where.append(sql(part, frame))
        return printed(frame)

    def _witness(self, p: Property, when: x.Expression, claim: x.Expression) -> str:
        return self._violating(self._frame(), claim, replace(x.TRUE, value=False))

    # Of what comes

    def _leads_to(self, p: Property, when: x.Expression, claim: x.Expression) -> str:
        """A cut where `when` holds, from which on the claim did not hold when it was too late."""
        over = self._after_end(when, claim)
        if p.within is None:
            return over
        return f"{self._too_late(p.within, when, claim)}\nUNION\n{over}"

    def _after_end(self, when: x.Expression, claim: x.Expression) -> str:
        frame = self._of_runs_over()
        frame.scope.query.where += [sql(part, frame) for part in x.conjuncts(when) if part != x.TRUE]
        frame.scope.query.where.append(self._never(frame, claim, "later.number >= cut.number"))
        return printed(frame)

    def _of_runs_over(self) -> SqlFrame:
        """The frame of a query over the cuts of the runs that are over since it was asked last."""
        frame = over_cuts(self.tables)
        query = frame.scope.query
        query.of = "cut.run, cut.number AS cut"
        ran = alias("run", frame.scope, frame.scope)
        query.tables = [("run", ()), ("cut", (f"cut.run = {ran}.run",))]
        query.where.append(Words(f"{ran}.ended > {CHECKED}", COMPARED))
        return frame

    def _never(self, frame: SqlFrame, claim: x.Expression, among: str) -> Sql:
        """Returns the condition that the claim holds at no cut `later` of the run that `among` selects."""
        inner, later = nested(frame, "cut", "later")
        inner = replace(inner, moment=Moment(later, inner.scope))
        where = inner.scope.query.where
        where += [Words(f"{later}.run = cut.run", COMPARED), Words(among, COMPARED)]
        where += [sql(part, inner) for part in x.conjuncts(claim)]
        return Enclosed("NOT EXISTS (", inner.scope.query, binding=NOT)

    def _too_late(self, within: int, when: x.Expression, claim: x.Expression) -> str:
        """A cut more than `within` ticks before one that the clock has just led to."""
        frame = over_cuts(self.tables)
        query = frame.scope.query
        query.of = "cut.run, cut.number AS cut"
        late, before = (alias(name, frame.scope, frame.scope) for name in ("late", "earlier"))
        query.tables = [
            (f"cut AS {late}", ()),
            (f"cut AS {before}", (f"{before}.run = {late}.run", f"{before}.number = {late}.number - 1")),
            ("cut", (f"cut.run = {late}.run", f"cut.number < {late}.number")),
        ]
        query.where += [
            Words(f"{late}.entry > {CHECKED}", COMPARED),
            Words(f"cut.now + {within} < {late}.now", COMPARED),
            Words(f"cut.now + {within} >= {before}.now", COMPARED),
        ]
        query.where += [sql(part, frame) for part in x.conjuncts(when) if part != x.TRUE]
        query.where.append(self._never(frame, claim, f"later.number BETWEEN cut.number AND {before}.number"))
        return printed(frame)

    def _at_end(self, p: Property, when: x.Expression, claim: x.Expression) -> str:
        """The last cut of a run that is over, where what is to hold again and again, or for good, does not."""
        frame = self._of_runs_over()
        query = frame.scope.query
        query.where.append(self._never(frame, x.TRUE, "later.number > cut.number"))
        if when != x.TRUE:
            inner, earlier = nested(frame, "cut", "earlier")
            inner = replace(inner, moment=Moment(earlier, inner.scope))
            inner.scope.query.where += [Words(f"{earlier}.run = cut.run", COMPARED)]
            inner.scope.query.where += [sql(part, inner) for part in x.conjuncts(when)]
            query.where.append(Enclosed("EXISTS (", inner.scope.query))
        return self._violating(frame, x.TRUE, claim)

    # Of the tables themselves

    def incomplete(self) -> Iterator[tuple[str, str]]:
        """Yields each role and a query of the cuts at which it lacks rows of machines or, if not dynamic, has more."""
        for role in self.system.holders.values():
            yield role.name, _incomplete(self.tables.machine_tables[role.name], role.count, role.instance.dynamic)


def _incomplete(table: Table, count: int, dynamic: bool) -> str:
    more = ">=" if dynamic else "="
    return "\n".join(
        (
            "SELECT cut.run, cut.number AS cut",
            "FROM cut",
            f"WHERE cut.entry > {CHECKED}",
            "  AND NOT (",
            "    SELECT COUNT(*)",
            f"    FROM {table.name} AS m",
            "    WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until",
            f"  ) {more} {count}",
        )
    )


def end_claim(system: System) -> dict[str, Property]:
    """Returns the property that a run that is over is in an allowed end, by its name; empty where no ends are named."""
    if not system.ends:
        return {}
    doc = f"A run that is over is in an allowed end: {', '.join(e.name for e in system.ends)}."
    claim = x.disjunction([e.holds for e in system.ends])
    return {DEADLOCK: Property(DEADLOCK, "eventually_always", claim, doc=doc)}


def printed(frame: SqlFrame) -> str:
    return "\n".join(frame.scope.query.lines(100))


def claim_text(p: Property) -> str:
    """A property as the language writes it, in lines of bounded length."""
    parts = [("when", p.when), (p.kind, p.claim)]
    text_lines = []
    for word, e in parts:
        if e is not None:
            first, *rest = lines(_said(e), COMMENT - 12)
            text_lines += [f"{word}: {first}"] if not rest else [f"{word}:", *(f"  {line}" for line in (first, *rest))]
    return "\n".join(text_lines if p.within is None else [*text_lines, f"within: {p.within}"])


def _said(e: x.Expression) -> Sql:
    match e:
        case x.Apply(op="and" | "or" as op, operands=parts):
            return Joined(op, tuple(_inside(part, op) for part in parts), COMPARED)
        case x.Apply(op="not", operands=(x.Apply(op="and" | "or") as inner,)):
            return Enclosed("not (", _said(inner))
        case x.Apply(op="if", operands=(test, then, other)):
            return Sequel((_said(then), Enclosed("if ", _said(test), ""), Enclosed("else ", _said(other), "")))
        case x.Old(operand=operand):
            return Enclosed("old(", _said(operand))
        case x.Quantifier(kind="all" | "any", variable=variable, body=body) if not isinstance(body, x.Literal_):
            head, tail = x.text(replace(e, body=x.TRUE)).split("true", 1)
            return Enclosed(head, _said(body), tail) if variable else Words(x.text(e))
    return Words(x.text(e))


def _inside(e: x.Expression, op: str) -> Sql:
    torn = isinstance(e, x.Apply) and (e.op == "if" or (e.op in ("and", "or") and e.op != op))
    return Enclosed("(", _said(e)) if torn else _said(e)
