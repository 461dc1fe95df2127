"""Typing an expression: functions and quantifiers."""

from __future__ import annotations

import ast

from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import a, listed, near_miss
from leasehold.spec.language.infer import FUNCTIONS, QUANTIFIERS, wrong
from leasehold.spec.language.infer_operators import Operators
from leasehold.spec.language.names import RoleNames, Scope
from leasehold.spec.language.types import (
    BOOL,
    INT,
    TIME,
    Instance,
    Message,
    Option,
    Set,
    Time,
    Type,
    Unknown,
)


class Typing(Operators):
    """The whole language."""

    # Functions

    def _call(self, tree: ast.Call, scope: Scope, expected: Type | None) -> x.Expression:
        if not isinstance(tree.func, ast.Name) or tree.func.id not in FUNCTIONS:
            name = self.words(tree.func)
            return self.error(
                "LH302", tree, f"`{name}` is not a function of the language", near=near_miss(name, FUNCTIONS),
                remedy=f"functions: {listed(FUNCTIONS, 30)}",
            )  # fmt: skip
        name, args = tree.func.id, tree.args
        if tree.keywords:
            return self.error("LH304", tree, "arguments have no names here", remedy="leave the name out")
        if name in QUANTIFIERS:
            if len(args) != 1 or not isinstance(args[0], ast.GeneratorExp):
                return self.error(
                    "LH303", tree, f"`{name}` takes one clause with `for`",
                    remedy=f"write `{name}(r.state == ... for r in role)`",
                )  # fmt: skip
            return self._quantified(name, args[0], scope)  # type: ignore[arg-type]
        counts = {"min": (2, 9), "max": (2, 9), "get": (2, 2), "reachable": (2, 2)}
        low, high = counts.get(name, (1, 1))
        if not low <= len(args) <= high:
            return self.error(
                "LH303",
                tree,
                f"`{name}` takes {low}{' or more' if high > low else ''} arguments",
                remedy="see docs/reference/language.md",
            )
        result: x.Expression = getattr(self, f"_call_{name}")(tree, args, scope, expected)
        return result

    def _call_min(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        operands = tuple(self.infer(a, scope, expected) for a in args)
        times = any(isinstance(o.type, Time) for o in operands)
        for operand, arg in zip(operands, args, strict=True):
            self.want(operand, TIME if times else INT, arg)
        op = tree.func.id  # type: ignore[attr-defined]
        return x.Extreme(type=TIME if times else INT, op=op, operands=operands, place=self.place(tree))

    _call_max = _call_min

    def _call_len(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        if isinstance(args[0], ast.Name) and args[0].id in scope.names.channels:
            operand: x.Expression = self._pending(args[0], scope)
        else:
            operand = self.infer(args[0], scope)
        if not isinstance(operand.type, (Set, Message, Unknown)):
            return self.error(
                "LH303",
                args[0],
                f"`len` takes a set, a channel or pending messages, not {operand.type}",
                remedy="write `len(granted)`, `len(pending(ticket))` or `len(CHANNEL)`",
            )
        return x.Length(operand=operand, place=self.place(tree))

    def _call_index(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        operand = self.infer(args[0], scope)
        if not isinstance(operand.type, (Instance, Unknown)):
            return self.error(
                "LH303", args[0], f"`index` takes an instance, not {operand.type}", remedy="write `index(self)`"
            )
        return x.Index(operand=operand, place=self.place(tree))

    def _call_get(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        option = self.infer(args[0], scope)
        if isinstance(option.type, Unknown):
            return option
        if not isinstance(option.type, Option) or option.type.of is None:
            return self.error(
                "LH303",
                args[0],
                f"`get` takes an option, not {option.type}",
                remedy="leave the `get` out: the value is always there",
            )
        fallback = self.of(args[1], scope, option.type.of)
        return x.Get(type=option.type.of, option=option, fallback=fallback, place=self.place(tree))

    def _call_old(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        if not scope.step:
            return self.error(
                "LH308", tree, "`old` has a meaning in `step` properties alone", remedy="claim it under `step:`"
            )
        operand = self.infer(args[0], scope, expected)
        return x.Old(type=operand.type, operand=operand, place=self.place(tree))

    def _call_took(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        if not scope.step:
            return self.error(
                "LH308", tree, "`took` has a meaning in `step` properties alone", remedy="claim it under `step:`"
            )
        roles = scope.names.roles
        arg, event = args[0], None
        if isinstance(arg, ast.Attribute):
            event, arg = arg.attr, arg.value
        if isinstance(arg, ast.Name) and arg.id in roles:
            role, owner = roles[arg.id], None
        else:
            found = self._machine(arg, scope)
            if found is None or found[0] is None:
                return self.error(
                    "LH503", arg, f"`{self.words(arg)}` is not a role", near=near_miss(self.words(arg), roles),
                    remedy="write `took(broker.granted)` or `took(broker)`",
                )  # fmt: skip
            role, owner = found[0], found[1]
        if event is not None and event not in role.events:
            return self.error(
                "LH406", tree, f"{a(role.name)} consumes no event `{event}`", near=near_miss(event, role.events),
                remedy=f"its events: {listed(sorted(role.events), 30)}",
            )  # fmt: skip
        return x.Took(role=role.name, owner=owner, event=event, place=self.place(tree))

    def _call_running(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        found = self._one_machine(tree, args[0], scope)
        if found is None:
            return wrong(self.place(tree))
        return x.Running(role=found[0].name, owner=found[1], place=self.place(tree))

    def _call_reachable(
        self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None
    ) -> x.Expression:
        one, two = (self._one_machine(tree, arg, scope) for arg in args)
        if one is None or two is None:
            return wrong(self.place(tree))
        return x.Reachable(role=one[0].name, owner=one[1], other_role=two[0].name, other=two[1], place=self.place(tree))

    def _call_byzantine(
        self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None
    ) -> x.Expression:
        if not scope.outside:
            return self.error(
                "LH308", tree, "`byzantine` has a meaning in properties and under `environment` alone",
                remedy="a machine cannot see whether another is honest",
            )  # fmt: skip
        name, roles = self.words(args[0]), scope.names.roles
        if name not in roles:
            return self.error(
                "LH503", args[0], f"`{name}` is not a role", near=near_miss(name, roles),
                remedy=f"roles: {listed(roles)}",
            )  # fmt: skip
        return x.Byzantine(role=name, place=self.place(tree))

    def _one_machine(self, tree: ast.Call, arg: ast.expr, scope: Scope) -> tuple[RoleNames, x.Expression] | None:
        """The machine that an argument names, where it may be asked whether its actor is up."""
        if not scope.outside:
            self.error(
                "LH308", tree, f"`{self.words(tree.func)}` has a meaning in properties and under `environment` alone",
                remedy="a machine cannot see whether another is up: it hears from it, or it does not",
            )  # fmt: skip
            return None
        found = self._machine(arg, scope)
        if found is None:
            roles = scope.names.roles
            self.error(
                "LH503", arg, f"`{self.words(arg)}` is not a machine", near=near_miss(self.words(arg), roles),
                remedy="write `running(broker)`, or `running(p)` with `for p in participant`",
            )  # fmt: skip
            return None
        return None if found[0] is None else (found[0], found[1])

    def _call_pending(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        return self._pending(args[0], scope)

    def _call_heard(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        if not scope.outside:
            return self.error(
                "LH308", tree, "`heard` has a meaning in properties and under `environment` alone",
                remedy="a machine cannot see whether it was heard, but by an answer",
            )  # fmt: skip
        name, channels = self.words(args[0]), scope.names.channels
        if name not in channels:
            return self.error(
                "LH302", args[0], f"`{name}` is not a channel", near=near_miss(name, channels),
                remedy=f"channels: {listed(channels)}",
            )  # fmt: skip
        return x.Heard(name=name, place=self.place(tree))

    def _pending(self, tree: ast.expr, scope: Scope) -> x.Expression:
        names = scope.names
        name = tree.id if isinstance(tree, ast.Name) else self.words(tree)
        known = [*names.messages, *names.channels]
        if name not in known:
            return self.error(
                "LH302", tree, f"`{name}` is neither a message nor a channel", near=near_miss(name, known),
                remedy=f"messages and channels: {listed(known, 30)}",
            )  # fmt: skip
        kinds = (name,) if name in names.messages else names.channels[name]
        return x.Pending(type=Message(kinds), name=name, place=self.place(tree))

    def _setcomp(self, tree: ast.SetComp, scope: Scope, expected: Type | None) -> x.Expression:
        return self._quantified("set", tree, scope)

    def _quantified(self, kind: x.QuantifierKind, tree: ast.GeneratorExp | ast.SetComp, scope: Scope) -> x.Expression:
        first, *more = tree.generators
        if more:
            inner_kind = kind if kind in ("all", "any", "union") else None
            if inner_kind is None:
                return self.error("LH304", tree, f"`{kind}` takes one `for`", remedy="nest another quantifier in it")
            inner = ast.copy_location(ast.GeneratorExp(elt=tree.elt, generators=more), tree)
            return self._one_quantifier(kind, tree, first, inner, scope)
        return self._one_quantifier(kind, tree, first, tree.elt, scope)

    def _one_quantifier(
        self, kind: x.QuantifierKind, tree: ast.expr, clause: ast.comprehension, body_tree: ast.expr, scope: Scope
    ) -> x.Expression:
        if not isinstance(clause.target, ast.Name) or clause.is_async:
            return self.error(
                "LH304", tree, "a quantifier has one plain variable", remedy="write `all(... for r in role)`"
            )
        variable = clause.target.id
        domain = self.infer(clause.iter, scope)
        if isinstance(domain.type, Unknown):
            return domain
        if isinstance(domain.type, Message):
            bound: Type = domain.type
        elif isinstance(domain.type, Set) and domain.type.of is not None:
            bound = domain.type.of
        else:
            return self.error(
                "LH303", clause.iter, f"`{self.words(clause.iter)}` is of type {domain.type}; a quantifier ranges over "
                "a role, a type, a set or pending messages",
            )  # fmt: skip
        inner = scope.bind(**{variable: bound})
        condition: x.Expression | None = None
        if clause.ifs:
            parts = tuple(self.of(i, inner, BOOL) for i in clause.ifs)
            condition = parts[0] if len(parts) == 1 else x.Logic(op="and", operands=parts, place=self.place(tree))
        if isinstance(body_tree, ast.GeneratorExp):
            body: x.Expression = self._quantified(kind, body_tree, inner)
        else:
            body = self.infer(body_tree, inner, BOOL if kind in ("all", "any", "count") else None)
        result: Type
        if kind in ("all", "any", "count"):
            self.want(body, BOOL, body_tree)
            result = INT if kind == "count" else BOOL
        elif kind == "sum":
            self.want(body, INT, body_tree)
            result = INT
        elif kind == "union":
            self.want(body, Set(None), body_tree)
            result = body.type
        else:
            if not isinstance(body, x.Variable) or body.name != variable or isinstance(bound, Message):
                return self.error(
                    "LH304",
                    tree,
                    "a set clause collects its own variable: `{r for r in role if ...}`",
                    remedy="use `union` for anything else",
                )
            result = Set(bound)  # type: ignore[arg-type]
        return x.Quantifier(
            type=result, kind=kind, variable=variable, domain=domain, condition=condition, body=body,
            place=self.place(tree),
        )  # fmt: skip
