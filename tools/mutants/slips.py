"""Which slips can be made in a module: each is one small change of its text.

Left out is what no behaviour hangs on: assertions, what is logged, constants of a module, and
constructors, where a missing assignment is an AttributeError at once.
"""

import ast
import copy
import itertools
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef
Statement = ast.Expr | ast.Assign | ast.AugAssign

_OTHER_SIDE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_CLEARING = frozenset(
    {"clear", "discard", "pop", "popleft", "remove", "cancel", "close", "release"}
)
_TOLD = frozenset({"debug", "info", "warning", "error", "exception", "log", "invariant"})
_LEFT_OUT = frozenset({"__init__", "__repr__", "__str__", "__post_init__"})


class Kind(StrEnum):
    """What sort of slip it is."""

    BOUND = "bound"
    """`<` for `<=`, or the other way round."""
    ONE_OFF = "one-off"
    """`+ 1` or `- 1` is missing."""
    COUNT = "count"
    """`x += y` is missing."""
    KEPT = "kept"
    """`self.x = y` is missing: what was there stays."""
    CLEARED = "cleared"
    """`x.clear()`, `x.discard(y)` and their like are missing."""
    HALF = "half"
    """One side of an `and` or an `or` is missing."""
    ORDER = "order"
    """Two steps that follow one another, the wrong way round."""


class Slip(NamedTuple):
    """One change; `text` is the whole module with it."""

    kind: Kind
    line: int
    """Where, from 1."""
    function: int
    """The first line of the outermost function around it, decorators included."""
    last: int
    """The last line of that."""
    was: str
    now: str
    text: str
    source: str
    """The whole module without it."""


def slips_in(source: str) -> Iterator[Slip]:
    """Yield every slip that can be made in the text of a module."""
    lines = source.encode().splitlines(keepends=True)
    for function in _outermost(ast.parse(source)):
        if function.name in _LEFT_OUT:
            continue
        first, last = _first_line(function), function.end_lineno or function.lineno
        for kind, start, end, now in _changes(function):
            text, was = _replaced(lines, start, end, now)
            try:
                ast.parse(text)
            except SyntaxError:  # a step of several lines in the place of one
                continue
            yield Slip(kind, start.lineno, first, last, was, now, text, source)


def entering(source: str, first_line: int, step: str) -> str:
    """Return the text with a step put in front of what the outermost function there does."""
    lines = source.encode().splitlines(keepends=True)
    (function,) = (one for one in _outermost(ast.parse(source)) if _first_line(one) == first_line)
    first = function.body[0]
    at = _first_line(first) - 1
    before, after = lines[at][: first.col_offset], lines[at][first.col_offset :]
    between = b"; " if before.strip() else b"\n" + before
    lines[at] = before + step.encode() + between + after
    return b"".join(lines).decode()


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, Function | ast.ClassDef) else []
    return min([node.lineno, *(one.lineno for one in decorators)])


def _outermost(parent: ast.AST) -> Iterator[Function]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, Function):
            yield node
        elif isinstance(node, ast.ClassDef | ast.If):
            yield from _outermost(node)


_Place = ast.expr | ast.stmt


def _changes(function: Function) -> Iterator[tuple[Kind, _Place, _Place, str]]:
    """Yield (kind, first node, last node, text in the place of both and what is between)."""
    for node in _walk(function):
        if isinstance(node, ast.Compare):
            yield from _bounds(node)
        elif isinstance(node, ast.BinOp):
            yield from _ones(node)
        elif isinstance(node, ast.BoolOp):
            yield from _halves(node)
        elif isinstance(node, Statement):
            yield from _left_out(node)
        for name in ("body", "orelse", "finalbody"):
            steps = getattr(node, name, None)
            if isinstance(steps, list):
                yield from _swapped(steps)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.Assert) or _is_told(child)):
            yield from _walk(child)


def _is_told(node: ast.AST) -> bool:
    """Whether it only tells somebody something: a line of the log, an assumption, a docstring."""
    if not isinstance(node, ast.Expr):
        return False
    if isinstance(node.value, ast.Constant):
        return True
    return _called(node) in _TOLD


def _called(node: ast.Expr) -> str:
    """Return the last name of what is called, or nothing."""
    if not isinstance(node.value, ast.Call):
        return ""
    function = node.value.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _bounds(node: ast.Compare) -> Iterator[tuple[Kind, ast.expr, ast.expr, str]]:
    for at, operator in enumerate(node.ops):
        other = _OTHER_SIDE.get(type(operator))
        if other is not None:
            changed = copy.deepcopy(node)
            changed.ops[at] = other()
            yield Kind.BOUND, node, node, f"({ast.unparse(changed)})"


def _ones(node: ast.BinOp) -> Iterator[tuple[Kind, ast.expr, ast.expr, str]]:
    is_one = isinstance(node.right, ast.Constant) and node.right.value == 1
    if is_one and isinstance(node.op, ast.Add | ast.Sub):
        yield Kind.ONE_OFF, node, node, f"({ast.unparse(node.left)})"


def _halves(node: ast.BoolOp) -> Iterator[tuple[Kind, ast.expr, ast.expr, str]]:
    for left_out in range(len(node.values)):
        changed = copy.deepcopy(node)
        del changed.values[left_out]
        rest = changed.values[0] if len(changed.values) == 1 else changed
        yield Kind.HALF, node, node, f"({ast.unparse(rest)})"


def _left_out(node: Statement) -> Iterator[tuple[Kind, ast.stmt, ast.stmt, str]]:
    if isinstance(node, ast.AugAssign):
        yield Kind.COUNT, node, node, "pass"
    elif isinstance(node, ast.Assign):
        if all(isinstance(target, ast.Attribute) for target in node.targets):
            yield Kind.KEPT, node, node, "pass"
    elif _called(node) in _CLEARING:
        yield Kind.CLEARED, node, node, "pass"


def _swapped(steps: list[ast.stmt]) -> Iterator[tuple[Kind, ast.stmt, ast.stmt, str]]:
    for one, next_one in itertools.pairwise(steps):
        if _is_step(one) and _is_step(next_one) and _has_call(one, next_one):
            now = f"{ast.unparse(next_one)}; {ast.unparse(one)}"
            yield Kind.ORDER, one, next_one, now


def _has_call(*steps: ast.stmt) -> bool:
    """Whether one of them may fail or change what the other sees; two assignments do not."""
    return any(isinstance(step, ast.Expr) for step in steps)


def _is_step(node: ast.stmt) -> bool:
    """Whether it has an effect beyond the function, and needs no name that a step before makes."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and not _is_told(node)
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    is_assigned = isinstance(node, ast.Assign | ast.AugAssign)
    return is_assigned and all(isinstance(one, ast.Attribute | ast.Subscript) for one in targets)


def _replaced(lines: list[bytes], first: _Place, last: _Place, now: str) -> tuple[str, str]:
    """Return the text with `now` in the place of the nodes, and what stood there."""
    assert last.end_lineno is not None
    assert last.end_col_offset is not None
    before = b"".join(lines[: first.lineno - 1]) + lines[first.lineno - 1][: first.col_offset]
    after = lines[last.end_lineno - 1][last.end_col_offset :] + b"".join(lines[last.end_lineno :])
    whole = b"".join(lines)
    was = whole[len(before) : len(whole) - len(after)].decode()
    return (before + now.encode() + after).decode(), was
