"""A system as a TLA+ module for TLC, with the same states, and what TLC is to be told beside it.

Every role is a variable: a record, or a function from the machines' numbers to records. The shared variables are the
fields of one more record. Every channel is a variable: its
content, or a function from what it joins to contents. A mailbox is a sequence of messages, a fifo too, a bag a bag
and a set a set. All that the explorer counts is there and nothing else, so TLC finds the same distinct states, and
generates as many.

What is out of the bounds is left to TLC's CONSTRAINT; as the explorer claims nothing of such states, invariants here
claim nothing of them either.
"""

from __future__ import annotations

from pathlib import Path

from leasehold.checker.export.shared import (
    Exported,
    ExportError,
    ExportOptions,
    LeftOut,
    asks_what_was_ignored,
    asks_what_was_taken,
    bounded,
    heading,
    low_high,
    named_cases,
    ranges,
    sentence,
    without_refinement,
    wrapped,
)
from leasehold.checker.export.tla_steps import TlaAction, TlaActions, comment, either, exists
from leasehold.checker.export.tla_terms import TlaBindings, TlaNames, term
from leasehold.spec.language import types as t
from leasehold.spec.language.expression import SHARED
from leasehold.spec.language.lower import Relation
from leasehold.spec.language.model import OF_FAIR_RUNS, Property, Role

HELPERS = r"""
Min(A, B) == IF A < B THEN A ELSE B
Max(A, B) == IF A > B THEN A ELSE B
\* of a set of numbers; the fallback where it is empty
Least(S, Fallback) == IF S = {} THEN Fallback ELSE CHOOSE N \in S : \A M \in S : N <= M
Greatest(S, Fallback) == IF S = {} THEN Fallback ELSE CHOOSE N \in S : \A M \in S : N >= M
\* rounded down, and 0 where it is divided by 0
Div(A, B) == IF B = 0 THEN 0 ELSE IF B > 0 THEN A \div B ELSE (-A) \div (-B)
Mod(A, B) == IF B = 0 THEN 0 ELSE A - B * Div(A, B)
\* an option is the set of its value, or empty
Get(Option, Fallback) == IF Option = {} THEN Fallback ELSE CHOOSE V \in Option : TRUE
Values(Q) == {Q[I] : I \in DOMAIN Q}
Item(Q, Place) == IF 0 <= Place /\ Place < Len(Q) THEN {Q[Place + 1]} ELSE {}
Take(Q, N) == SubSeq(Q, 1, IF N < 0 THEN 0 ELSE IF N > Len(Q) THEN Len(Q) ELSE N)
Rest(Q) == IF Q = <<>> THEN <<>> ELSE Tail(Q)
StartsWith(Q, Start) == Take(Q, Len(Start)) = Start

Sum(S, F(_)) ==
  LET G[T \in SUBSET S] == IF T = {} THEN 0 ELSE LET E == CHOOSE E \in T : TRUE IN F(E) + G[T \ {E}]
  IN G[S]
SumOfSequence(Q, F(_)) == Sum(DOMAIN Q, LAMBDA I : F(Q[I]))
SumOfBag(B, F(_)) == Sum(BagToSet(B), LAMBDA E : B[E] * F(E))

\* a sequence without what lies at some places
Without(Q, Places) ==
  LET G[N \in 0..Len(Q)] == IF N = 0 THEN <<>> ELSE IF N \in Places THEN G[N - 1] ELSE Append(G[N - 1], Q[N])
  IN G[Len(Q)]

\* Of each kind the newest message counts, and the one before it may still be on its way.
PutInMailbox(Q, M) ==
  LET Same == {I \in DOMAIN Q : Q[I].kind = M.kind}
  IN Append(Without(Q, {I \in Same : \E L \in Same : L > I}), M)
PutInBag(B, M) == B (+) SetToBag({M})
RemoveFromBag(B, M) == B (-) SetToBag({M})
PutInSet(S, M) == S \union {M}
""".strip()


def render(relation: Relation, options: ExportOptions) -> Exported:
    """The module of a system, and its `.cfg`; it has the name of its file, or of the system where none is given."""
    return _TlaModule(relation, _module_name(options.file) or relation.system.name).exported()


def _module_name(file: Path | None) -> str:
    if file is None:
        return ""
    if not (file.stem.isascii() and file.stem.replace("_", "a").isalnum() and not file.stem.isdigit()):
        raise ExportError(f"{file.stem[:60]!r} is no name of a TLA+ module", "use letters, digits and `_`")
    if file.suffix != ".tla":
        raise ExportError(f"TLC reads modules from files that end in .tla, not {file.name[:60]!r}", "rename the file")
    return file.stem


class _TlaModule:
    def __init__(self, relation: Relation, name: str) -> None:
        self.system, self.name = relation.system, name
        self.layout = TlaNames(relation)
        self.steps = TlaActions(self.layout)
        self.bounded = bounded(self.system)
        self.left_out = without_refinement(self.system)
        self.invariants: list[str] = []
        self.temporal: list[str] = []
        self.sought: list[str] = []

    def exported(self) -> Exported:
        driven = list(self.steps.driven())
        actions = list(self.steps.all())
        judged = self._judged(actions)
        claims = self._claims()
        parts = [
            self._constants(),
            HELPERS.splitlines(),
            self._variables(),
            self._init(),
            *driven,
            *(action.text for action in actions),
            self._next(actions),
            self._fairness(actions),
            self._bounds(),
            judged,
            *claims,
        ]
        title = f" MODULE {self.name} "
        lines = [title.center(110, "-"), *self._header(), "EXTENDS Integers, Sequences, FiniteSets, Bags, TLC"]
        body = "\n\n".join("\n".join(part) for part in parts if part)
        return Exported("\n".join(lines) + f"\n\n{body}\n\n{'=' * 110}\n", self._settings(), tuple(self.left_out))

    def _header(self) -> list[str]:
        system = self.system
        about = [line for paragraph in heading(system) for line in comment(paragraph)]
        if any(p.kind == "step" for p in system.properties.values()):
            about += comment("TLC judges steps that change something; the explorer also those that change nothing.")
        if self.left_out:
            about.append("\\* Not in this module:")
            for left in self.left_out:
                about += wrapped(f"{left.name}: {left.why}", "\\*     ", "\\*       ")
        return about

    # State

    def _constants(self) -> list[str]:
        return [
            f"{self.layout.constant(name)} == {self.layout.literal(c.type, c.value)}{_remark(c.doc)}"
            for name, c in self.system.constants.items()
        ]

    def _variables(self) -> list[str]:
        variables = [self.layout.variable(v) for v in self.steps.variables]
        docs = {
            **{r.name: r.doc for r in self.system.roles.values()},
            **({SHARED.name: "the variables that all machines share"} if self.system.shared else {}),
            **{c.name: c.doc or f"{c.kind}, from {c.sender} to {c.receiver}" for c in self.system.channels.values()},
        }
        commas = [","] * (len(variables) - 1) + [""]
        lines = [
            f"  {word}{comma}{_remark(docs.get(name, ''))}"
            for name, word, comma in zip(self.steps.variables, variables, commas, strict=True)
        ]
        return ["VARIABLES", *lines, "", f"vars == <<{', '.join(variables)}>>"]

    def _init(self) -> list[str]:
        tests = [test for role in self.system.holders.values() for test in self._first(role)]
        for channel in self.system.channels.values():
            empty = "EmptyBag" if channel.unordered else "{}" if channel.kind == "set" else "<<>>"
            joints = self.layout.joints(channel)
            value = f"[J \\in {joints} |-> {empty}]" if joints else empty
            tests.append(f"{self.layout.variable(channel.name)} = {value}")
        tests += [] if self.system.clock is None else [f"{self.layout.variable('clock')} = 0"]
        tests += [] if self.system.initially is None else [term(self.system.initially, TlaBindings(self.layout))]
        return _all_of("Init", tests)

    def _first(self, role: Role) -> list[str]:
        """Returns what holds at first of a role's machines, or of the shared variables."""
        variable, members = self.layout.variable(role.name), self.layout.members(role.instance)
        firsts = {"state": [f'"{role.first(i).name}"' for i in range(role.count)]} if role.states else {}
        firsts |= {
            d.name: [self.layout.literal(d.type, d.first(i)) for i in range(role.count)]
            for d in role.data.values()
            if not d.any_initial
        }
        if len(firsts) == len(role.data) + bool(role.states):
            record = f"[{', '.join(f'{name} |-> {_by_machine(values)}' for name, values in firsts.items())}]"
            return [f"{variable} = [Me \\in {members} |-> {record}]" if role.indexed else f"{variable} = {record}"]
        sets = {name: f"{{{', '.join(dict.fromkeys(values))}}}" for name, values in firsts.items()}
        sets |= {d.name: self.steps.domain(d) for d in role.data.values() if d.any_initial}
        record = f"[{', '.join(f'{name} : {sets[name]}' for name in ('state', *role.data) if name in sets)}]"
        apart = [
            f"\\A Me \\in {members} : {variable}[Me].{name} = {_by_machine(values)}"
            for name, values in firsts.items()
            if len(set(values)) > 1
        ]
        return [f"{variable} \\in [{members} -> {record}]" if role.indexed else f"{variable} \\in {record}", *apart]

    # Steps

    def _next(self, actions: list[TlaAction]) -> list[str]:
        return ["Next ==", *([f"  \\/ {a.words}" for a in actions] or ["  FALSE"])]

    def _fairness(self, actions: list[TlaAction]) -> list[str]:
        """Fairness of the groups that the explorer has: what is possible for ever is done in the end."""
        groups: dict[tuple[str, tuple[str, ...]], list[TlaAction]] = {}
        for a in actions:
            if a.group is not None:
                groups.setdefault(a.group, []).append(a)
        lines = comment(
            "What could happen all the time from some point on does happen. (Of a group of which some step changes "
            "nothing, the explorer takes that step for enough; TLC asks for one that changes something.)"
        )
        lines.append("Fairness ==")
        for (name, bound), members in groups.items():
            outer = [w for w in members[0].witnesses if w[0] in bound]
            disjunction = " \\/ ".join(
                f"({exists([w for w in a.witnesses if w[0] not in bound])}{a.call})" for a in members
            )
            every = "".join(f"\\A {n} \\in {domain} : " for n, domain in outer)
            kind = "SF" if members[0].strong else "WF"
            lines.append(f"  /\\ {every}{kind}_vars({disjunction})  \\* {name}")
        spec = "Spec == Init /\\ [][Next]_vars" + (" /\\ Fairness" if groups else "")
        return [*(lines if groups else []), "", spec]

    def _bounds(self) -> list[str]:
        if not self.bounded:
            return []
        f = TlaBindings(self.layout)
        tests = [term(self.system.constraint, f)] if self.system.constraint is not None else []
        for role, d, (low, high) in ranges(self.system):
            every, own = self._every(role)
            value = f"{own}.{d.name}"
            if isinstance(d.type, t.Option):  # a set of one value, or of none
                every, value = f"{every}\\A V \\in {value} : ", "V"
            tests.append(f"{every}{term(low, f)} <= {value} /\\ {value} <= {term(high, f)}")
        about = comment("States out of these bounds are not explored.")
        return [*about, *_all_of("Bounds", [f"({test})" for test in tests])]

    def _every(self, role: Role) -> tuple[str, str]:
        """Returns what is said of every machine of a role: the quantifier, and the machine's record."""
        name = self.layout.variable(role.name)
        return (f"\\A Me \\in {self.layout.members(role.instance)} : ", f"{name}[Me]") if role.indexed else ("", name)

    # Claims

    def _judged(self, actions: list[TlaAction]) -> list[str]:
        """Returns what says that a claim holds of a step, whatever action the step is taken for."""
        if not any(asks_what_was_taken(p) for p in self.system.properties.values()):
            return []
        about = comment(
            "A claim P about steps that asks who consumed what: it holds of every action that a step can be taken for."
        )
        head = f"Judged(P({', '.join('_' for _ in self.asked)}))"
        return [*about, *_all_of(head, [action.judged(asks_what_was_ignored(self.system)) for action in actions])]

    @property
    def asked(self) -> list[str]:
        """Returns what `took` and `ignored` ask of an action."""
        return [*("Took_role", "Took_instance", "Took_event"), *["Took_ignored"] * asks_what_was_ignored(self.system)]

    def _claims(self) -> list[list[str]]:
        claims = [self._types_hold()]
        if any(len(choices) > 1 for choices in self.layout.relation.moves.values()):
            why = "of two actions that are possible at once TLC takes either; the explorer watches that none are"
            self.left_out.append(LeftOut("guards_disjoint", why))
        for p in self.system.properties.values():
            try:
                claims += map(self._claim, named_cases(p) if p.kind == "sometimes" else [p])
            except ExportError as error:
                self.left_out.append(LeftOut(p.name, error.what))
        if self.system.ends is not None:
            claims.append(self._deadlock_free())
        return claims

    def _claim(self, p: Property) -> list[str]:
        name = self.layout.names.name(("property", p.name), p.name.capitalize())
        variables = {v: f"Each_{v}" for v in p.variables}
        f = TlaBindings(self.layout, primed=p.kind == "step", variables=variables)
        claim, when = term(p.claim, f), term(p.when, f) if p.when is not None else ""
        implied = f"({when} => {claim})" if when else claim
        match p.kind:
            case "always":
                formula, where = ("Bounds => " if self.bounded else "") + implied, self.invariants
            case "step":
                body = ("Bounds' => " if self.bounded else "") + implied
                if asks_what_was_taken(p):
                    body = f"Judged(LAMBDA {', '.join(self.asked)} : {body})"
                formula, where = f"[][{body}]_vars", self.temporal
            case "sometimes":
                formula, where = f"~{claim}  \\* what breaks this is the witness", self.sought
            case kind if kind in OF_FAIR_RUNS:
                formula, where = self._of_fair_runs(p, claim, when), self.temporal
                each = "".join(f"\\A {variables[v]} \\in {self.steps.values(of)} : " for v, of in p.variables.items())
                formula = f"{each}({formula})" if each else formula
            case _:
                why = "that some run leads to it is a claim about branching time"
                raise ExportError(why, "TLA+ speaks of single runs")
        where.append(name)
        return [*comment(f"{p.name}: {p.kind}. {p.doc}"), f"{name} == {formula}"]

    def _of_fair_runs(self, p: Property, claim: str, when: str) -> str:
        if self.bounded:
            raise ExportError("fairness would be asked of steps out of the bounds", "use the explorer")
        if p.within is not None:
            why = f"that it comes within {p.within} ticks is not said here, only that it comes"
            self.left_out.append(LeftOut(f"{p.name}, within", why))
        match p.kind:
            case "always_eventually":
                return f"[](({when}) => []<>({claim}))" if when else f"[]<>({claim})"
            case "eventually_always":
                return f"({when}) ~> []({claim})" if when else f"<>[]({claim})"
        return f"({when or 'TRUE'}) ~> ({claim})"

    def _types_hold(self) -> list[str]:
        """Every value stays in its type's range, which the language claims of every system."""
        tests = []
        for role in self.system.holders.values():
            every, own = self._every(role)
            typed = [d for d in role.data.values() if low_high(d.type) is not None or t.holds_sequence(d.type)]
            tests += [every + self._in_range(d.type, f"{own}.{d.name}", 0) for d in typed]
        if not tests:
            return []
        self.invariants.append("TypesHold")
        return [*comment("No int leaves its range."), *_all_of("TypesHold", tests)]

    def _in_range(self, kind: t.Type, value: str, depth: int) -> str:
        match kind:
            case t.Map(key=key, of=of):
                inner = self._in_range(of, f"{value}[K{depth}]", depth + 1)
                return f"\\A K{depth} \\in {self.layout.members(key)} : {inner}" if inner else ""
            case t.Option(of=of) if of is not None:
                inner = self._in_range(of, f"V{depth}", depth + 1)
                return f"\\A V{depth} \\in {value} : {inner}" if inner else ""
            case t.Seq(of=of, most=most) if of is not None:
                each = self._in_range(of, f"V{depth}", depth + 1)
                every = f" /\\ (\\A V{depth} \\in Values({value}) : {each})" if each else ""
                return f"Len({value}) <= {most}{every}"
        low, high = low_high(kind) or (None, None)
        tests = [f"{low} <= {value}"] * (low is not None) + [f"{value} <= {high}"] * (high is not None)
        return " /\\ ".join(tests)

    def _deadlock_free(self) -> list[str]:
        ends = either(term(e.holds, TlaBindings(self.layout)) for e in self.system.ends or ()) or "FALSE"
        self.invariants.append("DeadlockFree")
        within = "Bounds => " if self.bounded else ""
        about = comment(
            f"deadlock_free: nothing stops but in an allowed end: {', '.join(e.name for e in self.system.ends or ())}"
        )
        return [*about, f"DeadlockFree == {within}(ENABLED Next \\/ {ends})"]

    def _settings(self) -> str:
        lines = ["\\* tlc -deadlock FILE: the module itself says where it may stop.", "SPECIFICATION Spec"]
        lines += ["CONSTRAINT Bounds"] if self.bounded else []
        lines += [f"INVARIANT {name}" for name in self.invariants]
        lines += [f"PROPERTY {name}" for name in self.temporal]
        if self.sought:
            lines.append("\\* One of these at a time shows a witness, as a run that breaks it:")
        lines += [f"\\* INVARIANT {name}" for name in self.sought]
        return "\n".join(lines) + "\n"


def _remark(doc: str) -> str:
    """A comment at the end of a line."""
    return f"  \\* {sentence(doc)}" if doc else ""


def _all_of(name: str, tests: list[str]) -> list[str]:
    """The definition of a conjunction."""
    return [f"{name} ==", *(f"  /\\ {test}" for test in tests)]


def _by_machine(values: list[str]) -> str:
    """The value of a machine (`Me`), given those of all."""
    value = values[-1]
    for i in reversed(range(len(values) - 1)):
        value = value if value == values[i] else f"IF Me = {i} THEN {values[i]} ELSE {value}"
    return value
