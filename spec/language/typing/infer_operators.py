"""Typing an expression: operators, comparisons, conditionals and sets."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import Place
from leasehold.spec.language.operators import OPERATORS, WORDS, Bound, Operator, Signature, fits, instantiated
from leasehold.spec.language.types import (
    BOOL,
    INT,
    Enum,
    Instance,
    Int,
    Map,
    MessageType,
    Opaque,
    Option,
    Seq,
    Set,
    Time,
    Type,
    UnknownType,
    agrees,
)
from leasehold.spec.language.typing.covering import compared, named_alone, written_out, written_state
from leasehold.spec.language.typing.infer import Inference, wrong
from leasehold.spec.language.typing.names import Scope

# By the class that Python's parser gives to it.
_BINARY = {
    type(cast(ast.BinOp, ast.parse(f"a {row.symbol or name} b", mode="eval").body).op): name
    for name, row in OPERATORS.items()
    if row.form == "chain"
}
_COMPARE = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
}


@dataclass(frozen=True)
class _Cells:
    """`variable: body for variable in domain if condition`, some cells of a map of this type."""

    variable: str
    domain: x.Expression
    condition: x.Expression | None
    body: x.Expression
    type: Map
    place: Place

    @property
    def whole(self) -> x.Expression:
        """The map, where the clause has all its cells."""
        return _map(self.variable, self.body, self.type, self.place)

    def over(self, cells: x.Expression, fresh: str) -> x.Expression:
        """Another map with these cells in the place of its own.

        Args:
            cells: the map. It and the domain stand beside the variable here, so one of theirs must not be hidden by it.
            fresh: a name that no variable has.
        """
        if any(x.mentions(e, self._is_named_alike) for e in (cells, self.domain)):
            renamed = {self.variable: lambda e: replace(e, name=fresh)}
            condition = None if self.condition is None else x.with_variables(self.condition, renamed)
            body = x.with_variables(self.body, renamed)
            return replace(self, variable=fresh, condition=condition, body=body).over(cells, fresh)
        key = x.BoundVariable(type=self.type.key, name=self.variable, place=self.place)
        tests: list[x.Expression] = []
        if not x.holds_all_members(self.domain):
            tests.append(x.Apply(type=BOOL, op="in", operands=(key, self.domain), place=self.place))
        tests += [] if self.condition is None else [self.condition]
        old = x.Apply(type=self.type.of, op="[]", operands=(cells, key), place=self.place)
        test = tests[0] if len(tests) == 1 else x.conjunction(tests, self.place)
        body = (
            x.Apply(type=self.type.of, op="if", operands=(test, self.body, old), place=self.place)
            if tests
            else self.body
        )
        return _map(self.variable, body, self.type, self.place)

    def _is_named_alike(self, e: x.Expression) -> bool:
        return isinstance(e, x.BoundVariable) and e.name == self.variable


def _map(variable: str, body: x.Expression, type_: Map, place: Place) -> x.Expression:
    return x.Quantifier(
        type=type_,
        kind="map",
        variable=variable,
        domain=x.all_members(type_.key, place),
        condition=None,
        body=body,
        place=place,
    )


class Operators(Inference):
    """Unary, binary and n-ary operators."""

    def _unaryop(self, tree: ast.UnaryOp, scope: Scope, expected: Type | None) -> x.Expression:
        if isinstance(tree.op, ast.Not):
            return self._applied("not", tree, [tree.operand], scope, expected)
        if isinstance(tree.op, ast.USub):
            result = self._applied("negative", tree, [tree.operand], scope, expected)
            if isinstance(result, x.Apply) and isinstance(operand := result.operands[0], x.Literal_):
                return x.Literal_(type=INT, value=-(operand.value or 0), place=result.place)
            return result
        return self.not_in_the_language(tree, tree.op)

    def _applied(
        self, op: str, tree: ast.expr, args: Sequence[ast.expr], scope: Scope, expected: Type | None
    ) -> x.Expression:
        """An operator of the table whose operands explain themselves, typed by its signature."""
        row, place = OPERATORS[op], self.place(tree)
        if any("[" in signature.operand(0) for signature in row.signatures[1:]):
            operand = self.infer(args[0], scope)
            result = row.result([operand.type])
            if result is None:
                details = {"op": op, "takes": row.takes, "remedy": row.remedy}
                return self.error("function_operand", args[0], type=operand.type, **details)
            return x.Apply(type=result, op=op, operands=(operand,), place=place)
        if len(row.signatures) > 1:
            operands = tuple(self.infer(a, scope, expected) for a in args)
            result = self._alternative(row, operands, args)
            return x.Apply(type=result, op=op, operands=operands, place=place)
        (signature,) = row.signatures
        bound: Bound = {}
        typed: list[x.Expression] = []
        for n, arg in enumerate(args):
            pattern = signature.operand(n)
            wanted = None if "[" in pattern else instantiated(pattern, bound)
            hint = instantiated(pattern, bound) if n else expected if pattern == signature.result else None
            operand = self.infer(arg, scope, hint) if wanted is None else self.of(arg, scope, wanted)
            if wanted is None and not fits(pattern, operand.type, bound):
                details = {"op": op, "takes": row.takes, "remedy": row.remedy}
                return self.error("function_operand", arg, type=operand.type, **details)
            if instantiated(signature.result, bound) is None and isinstance(operand.type, UnknownType):
                return operand  # reported; it would have said what the result is
            typed.append(operand)
        result_type = instantiated(signature.result, bound)
        assert result_type is not None
        return x.Apply(type=result_type, op=op, operands=tuple(typed), place=place)

    def _alternative(self, row: Operator, operands: Sequence[x.Expression], args: Sequence[ast.expr]) -> Type:
        """The result's type by the signature that suits most operands; the others are reported."""

        def suited(signature: Signature) -> int:
            return sum(agrees(WORDS[signature.operand(n)], o.type) for n, o in enumerate(operands))

        best = max(row.signatures, key=suited)
        for n, (operand, arg) in enumerate(zip(operands, args, strict=True)):
            self.want(operand, WORDS[best.operand(n)], arg)
        return WORDS[best.result]

    def _binop(self, tree: ast.BinOp, scope: Scope, expected: Type | None) -> x.Expression:
        op = _BINARY.get(type(tree.op))
        if op is None:
            return self.not_in_the_language(tree, tree.op)
        if op == "|" and (
            isinstance(tree.right, ast.DictComp) or (isinstance(tree.right, ast.Dict) and tree.right.keys)
        ):
            return self._changed_map(tree, tree.right, scope, expected)
        left, right = self._pair(tree.left, tree.right, scope, expected if isinstance(expected, Set | Seq) else None)
        if isinstance(left.type, UnknownType) or isinstance(right.type, UnknownType):
            return wrong(self.place(tree))
        result = OPERATORS[op].result((left.type, right.type))
        if result is None:
            return self.error("operand_types", tree, op=op, left_type=left.type, right_type=right.type)
        return x.Apply(type=result, op=op, operands=(left, right), place=self.place(tree))

    def _pair(
        self, left: ast.expr, right: ast.expr, scope: Scope, expected: Type | None
    ) -> tuple[x.Expression, x.Expression]:
        """Types two operands of which one may be a bare name that only the other explains."""
        if isinstance(left, ast.Name) and not self._explains_itself(left, scope) and expected is None:
            second = self.infer(right, scope)
            return self.infer(left, scope, second.type), second
        first = self.infer(left, scope, expected)
        return first, self.infer(right, scope, first.type)

    def _explains_itself(self, tree: ast.Name, scope: Scope) -> bool:
        reader, argument, outer = self.given(tree, scope)
        if argument is not tree:
            explains: bool = not isinstance(argument, ast.Name) or reader._explains_itself(argument, outer)
            return explains
        names, own = scope.names, scope.names.roles.get(scope.role or "")
        return (
            tree.id in scope.variables
            or tree.id in names.constants
            or tree.id in names.types
            or tree.id in names.roles
            or tree.id in scope.definitions
            or tree.id in ("now", "true", "false", "none", "self")
            or (own is not None and (tree.id in own.data or tree.id == "state"))
        )

    def _compare(self, tree: ast.Compare, scope: Scope, expected: Type | None) -> x.Expression:
        parts: list[x.Expression] = []
        left = tree.left
        for op_tree, right in zip(tree.ops, tree.comparators, strict=True):
            parts.append(self._one_compare(tree, left, op_tree, right, scope))
            left = right
        if len(parts) == 1:
            return parts[0]
        return x.conjunction(parts, self.place(tree))

    def _one_compare(
        self, tree: ast.Compare, left_tree: ast.expr, op_tree: ast.cmpop, right_tree: ast.expr, scope: Scope
    ) -> x.Expression:
        op = _COMPARE.get(type(op_tree))
        if op is None:
            same = isinstance(op_tree, ast.Is)
            return self.error("identity", tree, near="`==`" if same else "`!=`")
        if op in ("in", "not in"):
            left = self.infer(left_tree, scope)
            of = left.type if isinstance(left.type, (Enum, Instance)) else None
            right = self.infer(right_tree, scope, Set(of))
            if isinstance(right.type, Seq):
                return self._in_sequence(tree, op, left_tree, left, right, scope)
            if not isinstance(left.type, (Enum, Instance, UnknownType)):
                wording = "number_in_set" if isinstance(left.type, (Int, Time)) else "no_member_of_sets"
                return self.error(wording, left_tree, source=self.words(left_tree), type=left.type)
            self.want(right, Set(of), right_tree)
        else:
            left, right = self._pair(left_tree, right_tree, scope, None)
            refused = self._incomparable(tree, op, left, right, scope)
            if refused is not None:
                return refused
        whole = x.Apply(type=BOOL, op=op, operands=(left, right), place=self.place(tree))
        return self._covering(whole, tree, scope)

    def _in_sequence(
        self, tree: ast.Compare, op: str, left_tree: ast.expr, left: x.Expression, right: x.Expression, scope: Scope
    ) -> x.Expression:
        """A value that is in a sequence; its type says what a bare name stands for."""
        assert isinstance(right.type, Seq)
        if right.type.of is not None and left.type != right.type.of:
            left = self.of(left_tree, scope, right.type.of)
        return x.Apply(type=BOOL, op=op, operands=(left, right), place=self.place(tree))

    def _covering(self, e: x.Apply, tree: ast.Compare, scope: Scope) -> x.Expression:
        """A comparison of states, as it is meant where some of them remember tasks."""
        member = e.op in ("in", "not in")
        left, right = e.operands
        for side in e.operands:
            remembering = scope.names.remembering(side.type.of) if isinstance(side.type, Set) else {}
            alone = named_alone(side, remembering) if remembering and not (member and written_out(side)) else None
            if alone is not None:
                return self.error("computed_set", tree, text=x.text(alone))
        of = left.type
        remembering = scope.names.remembering(of)
        if not remembering or not isinstance(of, Enum) or right.type != (Set(of) if member else of):
            return e
        result = compared(e, remembering)
        self.work.steps += sum(1 for _ in x.walk(result))  # bounds what nested comparisons grow to
        return result

    def _incomparable(
        self, tree: ast.Compare, op: str, left: x.Expression, right: x.Expression, scope: Scope
    ) -> x.Expression | None:
        """Reports a comparison of values that cannot be compared, and returns the expression that stands for it."""
        a, b = left.type, right.type
        if isinstance(a, UnknownType) or isinstance(b, UnknownType):
            return None
        if (isinstance(a, Opaque) or isinstance(b, Opaque)) and not scope.opaque:
            return self.error("opaque_read", tree, source=self.words(tree))
        for one, every in ((left, right), (right, left)):
            if isinstance(one.type, Instance) and every.type == Set(one.type) and x.holds_all_members(every):
                name = one.type.name
                details = {"near": f"`{name}[0]`", "type": name, "one": x.text(one)}
                return self.error("compared_with_all", tree, source=self.words(tree), **details)
        if not (agrees(a, b) or agrees(b, a)):
            near = "`{...}`" if {type(a), type(b)} == {Seq, Set} else None
            return self.error("compared_types", tree, near=near, source=self.words(tree), left=a, right=b)
        if isinstance(a, MessageType) and not all(isinstance(side, x.BoundVariable) for side in (left, right)):
            return self.error("compared_messages", tree, source=self.words(tree))
        for side in (a, b):
            if op not in ("==", "!=") and not isinstance(side, (Int, Time, Set)):
                return self.error("unordered_type", tree, near="`==`", op=op, side=side)
        return None

    def _boolop(self, tree: ast.BoolOp, scope: Scope, expected: Type | None) -> x.Expression:
        op = "and" if isinstance(tree.op, ast.And) else "or"
        return self._applied(op, tree, tree.values, scope, expected)

    def _ifexp(self, tree: ast.IfExp, scope: Scope, expected: Type | None) -> x.Expression:
        test = self.of(tree.test, scope, BOOL)
        then, otherwise = self._pair(tree.body, tree.orelse, scope, expected)
        type_ = _joined(then.type, otherwise.type)
        if type_ is None:
            return self.error("branch_types", tree, then_type=then.type, otherwise_type=otherwise.type)
        return x.Apply(type=type_, op="if", operands=(test, then, otherwise), place=self.place(tree))

    def _set(self, tree: ast.Set, scope: Scope, expected: Type | None) -> x.Expression:
        of: Type | None = expected.of if isinstance(expected, Set) else None
        items = []
        for item_tree in tree.elts:
            item = self.infer(item_tree, scope, of)
            if of is None and isinstance(item.type, (Enum, Instance)):
                of = item.type
            if of is not None:
                self.want(item, of, item_tree)
            items.append(item)
        if any(isinstance(i.type, UnknownType) for i in items):
            return wrong(self.place(tree))
        if not isinstance(of, (Enum, Instance)):
            return self.error("set_member_type", tree, items_type=items[0].type)
        if remembering := scope.names.remembering(of):
            items = [written_state(i, remembering) for i in items]
            self.work.steps += sum(1 for i in items for _ in x.walk(i))
        return x.Apply(type=Set(of), op="{}", operands=tuple(items), place=self.place(tree))

    def _list(self, tree: ast.List, scope: Scope, expected: Type | None) -> x.Expression:
        """`[a, b]`, a sequence; what comes first says of which type its values are, where nothing else does."""
        of: Type | None = expected.of if isinstance(expected, Seq) else None
        items = []
        for item_tree in tree.elts:
            item = self.infer(item_tree, scope, of)
            items.append(item if of is None else self.want(item, of, item_tree))
            of = item.type if of is None else of
        if any(isinstance(i.type, UnknownType) for i in items):
            return wrong(self.place(tree))
        if isinstance(of, Option | Opaque | MessageType):
            return self.error("sequence_value_type", tree, items_type=of)
        return x.Apply(type=Seq(of), op="[,]", operands=tuple(items), place=self.place(tree))

    # Maps

    def _dictcomp(self, tree: ast.DictComp, scope: Scope, expected: Type | None) -> x.Expression:
        """`{w: 0 for w in worker}`: a cell for every member of a type."""
        clause = self._cells(tree, scope, expected.of if isinstance(expected, Map) else None)
        if clause is None:
            return wrong(self.place(tree))
        if clause.condition is not None or not x.holds_all_members(clause.domain):
            return self.error("partial_map", tree, source=self.words(tree), key=clause.type.key)
        return clause.whole

    def _cells(self, tree: ast.DictComp, scope: Scope, of: Type | None) -> _Cells | None:
        """A clause of a map, whose key is its variable; None if it was reported."""
        head, *more = tree.generators
        if more or not isinstance(head.target, ast.Name):
            self.error("map_clause", tree)
            return None
        domain = self.infer(head.iter, scope)
        if isinstance(domain.type, UnknownType):
            return None
        if not isinstance(domain.type, Set) or domain.type.of is None:
            self.error("quantifier_domain", head.iter, source=self.words(head.iter), domain_type=domain.type)
            return None
        if not isinstance(tree.key, ast.Name) or tree.key.id != head.target.id:
            self.error("map_clause", tree)
            return None
        inner = scope.bind(**{head.target.id: domain.type.of})
        tests = tuple(self.of(test, inner, BOOL) for test in head.ifs)
        body = self.infer(tree.value, inner, of)
        if of is not None:
            self.want(body, of, tree.value)
        if isinstance(body.type, UnknownType):
            return None
        condition = x.conjunction(tests, self.place(tree)) if tests else None
        of = body.type if of is None else of
        return _Cells(inner.renamed[head.target.id], domain, condition, body, Map(domain.type.of, of), self.place(tree))

    def _changed_map(
        self, tree: ast.BinOp, right: ast.Dict | ast.DictComp, scope: Scope, expected: Type | None
    ) -> x.Expression:
        """`votes | {w: true}`, `votes | {w: true for w in s}`: a map with other values in some cells."""
        cells, place = self.infer(tree.left, scope, expected), self.place(tree)
        if isinstance(cells.type, UnknownType):
            return cells
        if not isinstance(cells.type, Map):
            return self.error("changed_no_map", tree.left, source=self.words(tree.left), type=cells.type)
        if isinstance(right, ast.DictComp):
            clause = self._cells(right, scope, cells.type.of)
            if clause is None:
                return wrong(place)
            self.want(clause.whole, cells.type, right)
            self.work.maps += 1
            return clause.over(cells, f"Key__{self.work.maps}")
        self.work.maps += 1
        key = x.BoundVariable(type=cells.type.key, name=f"Key__{self.work.maps}", place=place)
        value: x.Expression = x.Apply(type=cells.type.of, op="[]", operands=(cells, key), place=place)
        for member, cell in zip(right.keys, right.values, strict=True):
            if member is None:
                return self.not_in_the_language(right, right)
            same = x.Apply(type=BOOL, op="==", operands=(key, self.of(member, scope, cells.type.key)), place=place)
            new = self.of(cell, scope, cells.type.of)
            value = x.Apply(type=cells.type.of, op="if", operands=(same, new, value), place=place)
        return _map(key.name, value, cells.type, place)

    def _written_map(self, tree: ast.Dict, scope: Scope, expected: Type | None) -> x.Expression:
        """`{red: 1, green: 2}`, which names every member of an enumeration once."""
        key, of = (expected.key, expected.of) if isinstance(expected, Map) else (None, None)
        cells: dict[str, x.Expression] = {}
        for member, cell in zip(tree.keys, tree.values, strict=True):
            named = wrong(self.place(tree)) if member is None else self.infer(member, scope, key)
            if isinstance(named.type, UnknownType):
                return named
            key = key or named.type if isinstance(named.type, Enum | Instance) else None
            if not isinstance(key, Enum) or not isinstance(named, x.Literal_) or named.type != key:
                return self.error("written_map", tree, source=self.words(tree))
            value = self.infer(cell, scope, of)
            if of is not None:
                self.want(value, of, cell)
            if named.value in cells:
                return self.error("cell_twice", tree, member=named.value)
            of, cells[named.value] = of or value.type, value
        assert isinstance(key, Enum)
        if missing := [m for m in key.members if m not in cells]:
            return self.error("missing_cells", tree, source=self.words(tree), missing=missing)
        self.work.maps += 1
        place, assert_of = self.place(tree), of or BOOL
        variable = x.BoundVariable(type=key, name=f"Key__{self.work.maps}", place=place)
        *others, last = key.members
        whole = cells[last]
        for m in reversed(others):
            same = x.Apply(type=BOOL, op="==", operands=(variable, x.Literal_(type=key, value=m)), place=place)
            whole = x.Apply(type=assert_of, op="if", operands=(same, cells[m], whole), place=place)
        return _map(variable.name, whole, Map(key, assert_of), place)

    def _dict(self, tree: ast.Dict, scope: Scope, expected: Type | None) -> x.Expression:
        if tree.keys:
            return self._written_map(tree, scope, expected)
        type_ = expected if isinstance(expected, Set) else Set(None)
        return x.Apply(type=type_, op="{}", operands=(), place=self.place(tree))


def _joined(a: Type, b: Type) -> Type | None:
    """The type of what is either: `none` and `{}` take theirs from the other branch."""
    for one, other in ((a, b), (b, a)):
        match one, other:
            case (UnknownType(), _):
                return one
            case (Option(of=None), Option()) | (Set(of=None), Set()) | (Seq(of=None), Seq()) | (Int(), Time()):
                return other
            case (Option(of=None), _):
                return Option(other)
    if isinstance(a, Int) and isinstance(b, Int):
        return INT
    return a if agrees(a, b) else b if agrees(b, a) else None
