"""No decision of src/penstock is made by an error's text; `make check` runs it.

    python tools/by_text.py [ROOT]

prints one line per finding and exits with 1 if there is any.

Found is a comparison one side of which is `str(error)`, `repr(error)` or `error.args[...]`, with
`error` the name of an `except` clause: a text is for people, and may be changed at any time. A type
or a field of the error decides instead. Two texts may be compared, to log the same one once.
`EXCEPTIONS` names the modules of which a foreign library
leaves no choice.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidy import Finding, Source, read_sources

RULE = "an error's type or field decides, not its text"
EXCEPTIONS = frozenset({"src/penstock/record/compression.py"})
"""The codecs tell a full buffer from damage by text alone."""


def check_by_text(source: Source) -> Iterator[Finding]:
    """Yield the comparisons with an error's text."""
    if source.path in EXCEPTIONS or not source.path.startswith("src/") or source.tree is None:
        return
    for handler in ast.walk(source.tree):
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None:
            continue
        for node in ast.walk(handler):
            if isinstance(node, ast.Compare) and _decides(node, handler.name):
                yield Finding(source.path, node.lineno, "text", RULE)


def _decides(node: ast.Compare, name: str) -> bool:
    sides = (node.left, *node.comparators)
    is_repeated = all(isinstance(side, ast.Call) for side in sides)
    return not is_repeated and any(_is_text(side, name) for side in sides)


def _is_text(node: ast.expr, name: str) -> bool:
    match node:
        case ast.Call(func=ast.Name("str" | "repr"), args=[ast.Name(of)]):
            return of == name
        case ast.Subscript(value=ast.Attribute(ast.Name(of), "args")):
            return of == name
        case _:
            return False


def main(arguments: Sequence[str]) -> int:
    """Print the findings; return the exit status."""
    root = Path(arguments[0]) if arguments else Path(__file__).parents[1]
    findings = [one for source in read_sources(root) for one in check_by_text(source)]
    for one in findings:
        print(one)
    print(f"by_text: {len(findings)} findings" if findings else "by_text: all in order")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
