"""Typing an expression: functions and quantifiers."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import a, listed, near_miss
from leasehold.spec.language.operators import OPERATORS
from leasehold.spec.language.types import (
    BOOL,
    INT,
    TIME,
    MessageType,
    Option,
    Seq,
    Set,
    Time,
    Type,
    UnknownType,
    default,
)
from leasehold.spec.language.typing import foreign
from leasehold.spec.language.typing.infer import EXTREMES, FUNCTIONS, QUANTIFIERS, wrong
from leasehold.spec.language.typing.infer_operators import Operators
from leasehold.spec.language.typing.names import RoleNames, Scope

_USAGE = {
    "len": "len(granted)",
    "index": "index(self)",
    "get": "get(holder, self)",
    "append": "append(log, event.entry)",
    "first": "first(waiting)",
    "last": "last(log)",
    "rest": "rest(waiting)",
    "take": "take(log, 2)",
    "starts_with": "starts_with(log, other)",
    "old": "old(units)",
    "took": "took(broker.granted)",
    "ignored": "ignored(broker.ticket)",
    "accepts": "accepts(broker.granted)",
    "pending": "pending(ticket)",
    "heard": "heard(CHANNEL)` or `heard(CHANNEL, owner)",
    "running": "running(broker)",
    "reachable": "reachable(broker, site)",
    "byzantine": "byzantine(broker)",
}

_COUNTS = {"reachable": (2, 2), "heard": (1, 2)}  # of arguments; of the others one


def counted(low: int, high: int) -> str:
    return f"{low} or more arguments" if high > low else f"{low} argument{'s' if low > 1 else ''}"


class Typing(Operators):
    """The whole language."""

    # Functions

    def _call(self, tree: ast.Call, scope: Scope, expected: Type | None) -> x.Expression:
        if isinstance(tree.func, ast.Name) and tree.func.id in scope.definitions:
            if tree.keywords:
                return self.error("named_argument", tree)
            return self.defined(scope.definitions[tree.func.id], tree, tree.args, scope, expected)
        if not isinstance(tree.func, ast.Name) or tree.func.id not in FUNCTIONS:
            name, known = self.words(tree.func), (*FUNCTIONS, *scope.definitions)
            near, remedy = foreign.function(name) or (near_miss(name, known), f"functions: {listed(known, 30)}")
            return self.error("unknown_function", tree, near=near, name=name, remedy=remedy)
        name, args = tree.func.id, tree.args
        if name in EXTREMES and any(isinstance(a, ast.GeneratorExp) for a in args):
            return self._extreme(name, tree, scope, expected)  # type: ignore[arg-type]
        if tree.keywords:
            return self.error("named_argument", tree)
        if name in QUANTIFIERS:
            if len(args) != 1 or not isinstance(args[0], ast.GeneratorExp):
                return self.error("no_clause", tree, name=name)
            return self._quantified(name, args[0], scope)  # type: ignore[arg-type]
        pure = OPERATORS.get(name)
        low, high = pure.arguments if pure else _COUNTS.get(name, (1, 1))
        if not low <= len(args) <= high:
            if name in ("min", "max"):
                return self.error("numbers_of_arguments", tree, name=name, count=counted(low, high))
            usage = _USAGE.get(name, f"{name}(n)")
            return self.error("number_of_arguments", tree, name=name, count=counted(low, high), usage=usage)
        if pure:
            return self._applied(name, tree, args, scope, expected)
        match name:
            case "old":
                return self._old(tree, args, scope, expected)
            case "took" | "ignored":
                return self._took(name, tree, args, scope)
            case "accepts":
                return self._accepts(tree, args, scope)
            case "pending":
                return self._pending(args[0], scope)
        return self._query(name, tree, args, scope)  # type: ignore[arg-type]

    def _applied(
        self, op: str, tree: ast.expr, args: Sequence[ast.expr], scope: Scope, expected: Type | None
    ) -> x.Expression:
        if op == "len":
            reader, arg, outer = self.given(args[0], scope)
            named = isinstance(arg, ast.Name) and self._is_channel(arg.id, outer)
            sent = isinstance(arg, ast.Call) and isinstance(arg.func, ast.Name) and arg.func.id == "pending"
            if named or sent:
                messages: x.Expression = reader._pending(arg, outer) if named else reader.infer(arg, outer)
                return x.pending_count(messages, self.place(tree)) if isinstance(messages, x.Pending) else messages
        return super()._applied(op, tree, args, scope, expected)

    def _is_channel(self, name: str, scope: Scope) -> bool:
        """Returns whether a bare name is that of a channel: what is nearer, above all a field, goes before."""
        own = scope.names.roles[scope.role].data if scope.role else {}
        return name in scope.names.channels and not (
            name in scope.variables or name in own or name in scope.definitions
        )

    def _old(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        if not (scope.step or scope.before):
            return self.error("old_outside_step", tree)
        operand = self.infer(args[0], scope, expected)
        return x.Old(type=operand.type, operand=operand, place=self.place(tree))

    def _took(self, name: str, tree: ast.Call, args: list[ast.expr], scope: Scope) -> x.Expression:
        if not scope.step:
            return self.error("took_outside_step", tree, name=name)
        named = self._event_of(name, tree, args[0], scope)
        if not isinstance(named, tuple):
            return named
        role, owner, event = named
        ignored = name == "ignored"
        if ignored and event not in role.received:
            word = event or self.words(args[0])
            return self.unknown("ignored_no_message", tree, word, sorted(role.received), role=a(role.name))
        return x.Took(role=role.name, owner=owner, event=event, ignored=ignored, place=self.place(tree))

    def _accepts(self, tree: ast.Call, args: list[ast.expr], scope: Scope) -> x.Expression:
        if not scope.claim:
            return self.error("accepts_outside_claim", tree)
        named = self._event_of("accepts", tree, args[0], scope)
        if not isinstance(named, tuple):
            return named
        role, owner, event = named
        if event is None:
            return self.error("accepts_no_event", tree, role=role.name, events=sorted(role.events))
        return x.Accepts(role=role.name, owner=owner, event=event, place=self.place(tree))

    def _event_of(
        self, name: str, tree: ast.Call, arg: ast.expr, scope: Scope
    ) -> tuple[RoleNames, x.Expression | None, str | None] | x.Expression:
        """The role, the machine and the event that `broker.granted`, `worker[0].dry` or `broker` names."""
        roles, event = scope.names.roles, None
        reader, argument, outer = self.given(arg, scope)
        if argument is not arg:
            named: tuple[RoleNames, x.Expression | None, str | None] | x.Expression
            named = reader._event_of(name, tree, argument, outer)
            return named
        if isinstance(arg, ast.Attribute):
            event, arg = arg.attr, arg.value
        if isinstance(arg, ast.Name) and arg.id in roles:
            role, owner = roles[arg.id], None
        else:
            machine = self._machine(arg, scope)
            if machine is None or machine[0] is None:
                return self.unknown("took_no_role", arg, self.words(arg), roles, name=name)
            role, owner = machine[0], machine[1]
        if event is not None and event not in role.events:
            return self.unknown("unknown_event", tree, event, sorted(role.events), role=a(role.name))
        return role, owner, event

    def _query(self, name: x.QueryName, tree: ast.Call, args: list[ast.expr], scope: Scope) -> x.Expression:
        """A query of the whole state; only properties and the environment may have one."""
        if not scope.outside:
            return self.error(f"{name}_inside", tree)
        subjects, owners = [], []
        for n, arg in enumerate(args):
            reader, named, _ = self.given(arg, scope)
            word = reader.words(named)
            if n == 0 and name in ("heard", "byzantine"):
                known = scope.names.channels if name == "heard" else scope.names.roles
                if word not in known:
                    return self.unknown(f"{name}_of_unknown", arg, word, known)
                subjects.append(word)
                continue
            machine = self._machine(arg, scope)
            if machine is None:
                self.unknown("not_a_machine", arg, word, scope.names.roles)
            elif machine[0] is not None:
                if name == "heard" and machine[0].name not in (ends := self._ends(subjects[0], scope)):
                    return self.error("heard_by_no_end", arg, word=word, channel=subjects[0], ends=listed(ends))
                subjects.append(machine[0].name)
                owners.append(machine[1])
        if len(subjects) < len(args):
            return wrong(self.place(tree))  # reported
        return x.GlobalQuery(name=name, subjects=tuple(subjects), owners=tuple(owners), place=self.place(tree))

    def _ends(self, channel: str, scope: Scope) -> list[str]:
        """The roles that a channel joins, as far as it carries anything."""
        names = scope.names
        return [*dict.fromkeys(end for message in names.channels[channel] for end in names.ends[message])]

    def _pending(self, tree: ast.expr, scope: Scope) -> x.Expression:
        reader, argument, outer = self.given(tree, scope)
        if argument is not tree:
            messages: x.Expression = reader._pending(argument, outer)
            return messages
        names = scope.names
        name = tree.id if isinstance(tree, ast.Name) else self.words(tree)
        known = [*names.messages, *names.channels]
        if name not in known:
            return self.unknown("unknown_pending", tree, name, known)
        kinds = (name,) if name in names.messages else names.channels[name]
        return x.Pending(type=MessageType(kinds), name=name, place=self.place(tree))

    def _setcomp(self, tree: ast.SetComp, scope: Scope, expected: Type | None) -> x.Expression:
        return self._quantified("set", tree, scope)

    def _extreme(self, kind: x.QuantifierKind, tree: ast.Call, scope: Scope, expected: Type | None) -> x.Expression:
        """`max(size(r) for r in room)`: of all members of a type; of any other, `default` is what nothing has."""
        clause, *more = tree.args
        if more or not isinstance(clause, ast.GeneratorExp) or any(k.arg != "default" for k in tree.keywords):
            return self.error("extreme_arguments", tree, name=kind)
        if len(clause.generators) > 1:
            return self.error("one_for", tree, kind=kind)
        quantified = self._quantified(kind, clause, scope)
        if not isinstance(quantified, x.Quantifier):
            return quantified
        default = self.of(tree.keywords[0].value, scope, quantified.type) if tree.keywords else None
        if default is None and (quantified.condition is not None or not x.holds_all_members(quantified.domain)):
            return self.error("extreme_of_nothing", tree, name=kind, source=self.words(clause))
        return replace(quantified, default=default, place=self.place(tree))

    def _quantified(self, kind: x.QuantifierKind, tree: ast.GeneratorExp | ast.SetComp, scope: Scope) -> x.Expression:
        first, *more = tree.generators
        if more:
            inner_kind = kind if kind in ("all", "any", "union") else None
            if inner_kind is None:
                return self.error("one_for", tree, kind=kind)
            inner = ast.copy_location(ast.GeneratorExp(elt=tree.elt, generators=more), tree)
            return self._one_quantifier(kind, tree, first, inner, scope)
        return self._one_quantifier(kind, tree, first, tree.elt, scope)

    def _one_quantifier(
        self, kind: x.QuantifierKind, tree: ast.expr, clause: ast.comprehension, body_tree: ast.expr, scope: Scope
    ) -> x.Expression:
        if not isinstance(clause.target, ast.Name) or clause.is_async:
            return self.error("quantifier_variable", tree)
        variable = clause.target.id
        domain = self.infer(clause.iter, scope)
        if isinstance(domain.type, UnknownType):
            return domain
        if isinstance(domain.type, MessageType):
            if not isinstance(domain, x.Pending):
                return self.error("messages_by_way_of", clause.iter, source=self.words(clause.iter))
            bound: Type = domain.type
        elif isinstance(domain.type, Set | Seq) and domain.type.of is not None:
            bound = domain.type.of
        else:
            return self.error("quantifier_domain", clause.iter, source=self.words(clause.iter), domain_type=domain.type)
        inner = scope.bind(**{variable: bound})
        name = inner.renamed[variable]
        condition: x.Expression | None = None
        if clause.ifs:
            parts = tuple(self.of(i, inner, BOOL) for i in clause.ifs)
            condition = parts[0] if len(parts) == 1 else x.conjunction(parts, self.place(tree))
        if isinstance(body_tree, ast.GeneratorExp):
            body: x.Expression = self._quantified(kind, body_tree, inner)
        else:
            body = self.infer(body_tree, inner, BOOL if kind in ("all", "any", "count") else None)
        if isinstance(domain.type, Seq):
            if kind not in ("all", "any", "count", "sum"):
                return self.error("quantifier_of_sequence", tree, kind=kind)
            body = self.want(body, INT if kind == "sum" else BOOL, body_tree)
            return self._over_places(kind, name, domain, condition, body)
        result: Type
        if kind in ("all", "any", "count"):
            self.want(body, BOOL, body_tree)
            result = INT if kind == "count" else BOOL
        elif kind == "sum":
            self.want(body, INT, body_tree)
            result = INT
        elif kind in EXTREMES:
            result = TIME if isinstance(body.type, Time) else INT
            self.want(body, result, body_tree)
        elif kind == "union":
            self.want(body, Set(None), body_tree)
            result = body.type
        else:
            if not isinstance(body, x.BoundVariable) or body.name != name or isinstance(bound, MessageType):
                return self.error("set_clause", tree)
            result = Set(bound)  # type: ignore[arg-type]
        return x.Quantifier(
            type=result,
            kind=kind,
            variable=name,
            domain=domain,
            condition=condition,
            body=body,
            place=self.place(tree),
        )

    def _over_places(
        self,
        kind: x.QuantifierKind,
        variable: str,
        domain: x.Expression,
        condition: x.Expression | None,
        body: x.Expression,
    ) -> x.Expression:
        """A quantifier over a sequence, written out for each place that a value of it may have."""
        assert isinstance(domain.type, Seq) and domain.type.of is not None
        of, place = domain.type.of, body.place
        instead = x.Literal_(type=of, value=default(of), stand_in=True, place=place)
        zero = x.Literal_(type=INT, value=0, place=place)
        length = x.Apply(type=INT, op="len", operands=(domain,), place=place)
        parts: list[x.Expression] = []
        for number in range(x.longest(domain)):
            at = x.Literal_(type=INT, value=number, place=place)
            item = x.Apply(type=Option(of), op="item", operands=(domain, at), place=place)
            value = x.Apply(type=of, op="get", operands=(item, instead), place=place)

            def there(e: x.BoundVariable, value: x.Expression = value) -> x.Expression:
                return value

            tests: list[x.Expression] = [x.Apply(type=BOOL, op="<", operands=(at, length), place=place)]
            tests += [x.with_variables(condition, {variable: there})] if condition is not None else []
            said = x.with_variables(body, {variable: there})
            self.work.steps += sum(1 for e in (*tests, said) for _ in x.walk(e))
            if kind == "count":  # the sum of 1 for each
                tests, said = [*tests, said], x.Literal_(type=INT, value=1, place=place)
            holds = tests[0] if len(tests) == 1 else x.conjunction(tests, place)
            match kind:
                case "all":
                    absent = x.Apply(type=BOOL, op="not", operands=(holds,), place=place)
                    parts.append(x.disjunction([absent, said], place))
                case "any":
                    parts.append(x.conjunction([*tests, said], place))
                case _:
                    parts.append(x.Apply(type=INT, op="if", operands=(holds, said, zero), place=place))
        if len(parts) < 2:
            nothing = x.Literal_(type=BOOL, value=kind == "all", place=place) if kind in ("all", "any") else zero
            return parts[0] if parts else nothing
        if kind in ("all", "any"):
            return (x.conjunction if kind == "all" else x.disjunction)(parts, place)
        return reduce(lambda a, b: x.Apply(type=INT, op="+", operands=(a, b), place=place), parts)
