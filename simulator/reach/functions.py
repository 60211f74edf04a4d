"""The functions of a module that a run can come to, by name:
`storage/commit_log/writer.py:LogWriter.append`.

Functions without a body do not count: methods of a Protocol, overloads, `...` or `pass` alone.
Lambdas do not count either.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOMS = (
    "replication", "raft", "storage", "controller", "coordinator", "groups", "assignors",
    "transactions", "shares", "broker", "kafka", "frames", "replica", "runtime",
    "access", "remoting", "grpc",
)  # fmt: skip
"""Whose reach is told."""
MARKED = (*ROOMS, "base", "configs", "record", "net", "node", "http2", "protobuf")
"""Whose calls are known: whoever plants a bug asks whether a run comes to it."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def of_tree(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Yield the qualified name and the node of every function with a body."""
    yield from _within(tree, "")


def _within(parent: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.ClassDef):
            if not _is_protocol(node):
                yield from _within(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if body_of(node):
                yield f"{prefix}{node.name}", node
            yield from _within(node, f"{prefix}{node.name}.")
        else:
            yield from _within(node, prefix)


def _is_protocol(node: ast.ClassDef) -> bool:
    bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in bases)


def body_of(node: Function) -> list[ast.stmt]:
    """Return what stands behind the docstring, unless that does nothing."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return [] if all(_is_nothing(one) for one in body) else body


def _is_nothing(stmt: ast.stmt) -> bool:
    if isinstance(stmt, ast.Raise) and stmt.exc is not None:
        return "NotImplementedError" in ast.dump(stmt.exc)
    is_dots = isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant)
    return is_dots or isinstance(stmt, ast.Pass)


def all_of(package: Path, rooms: tuple[str, ...] = ROOMS) -> list[str]:
    """Return the names of all functions of these rooms, imported or not."""
    return [
        f"{path.relative_to(package).as_posix()}:{name}"
        for room in rooms
        for path in sorted((package / room).rglob("*.py"))
        for name, _ in of_tree(ast.parse(path.read_text()))
    ]
