"""No decision of src/penstock is made by an error's text; `make check` runs it.

    python tools/by_text.py [ROOT]

prints one line per finding and exits with 1 if there is any.

A text is for people, and may be changed at any time: a type or a field of the error decides. Found
is, for the name of an `except` clause and for a parameter called `error`, `failure` or `exception`:

    a comparison with str(error), repr(error) or error.args[...]; two calls may be compared, to log
    the same text once
    a comparison of such a text, of a field of TEXT_FIELDS or of format_message() with a string
    startswith(), search() and the like on one of them

The same holds for a variable that was made of such a text. `EXCEPTIONS` names the modules of which
a foreign library leaves no choice.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidy import Finding, Source, read_sources

from penstock.cli.exit_codes import end_with

RULE = "an error's type or field decides, not its text"
EXCEPTIONS = frozenset(
    {
        "src/penstock/record/compression.py",
        "src/penstock/runtime/io/hdfs_errors.py",
        "src/penstock/runtime/io/object_store.py",
    }
)
"""The codecs tell a full buffer from damage by text alone, obstore and hdfs-native what a store
answered."""

PARAMETERS = frozenset({"error", "exception", "failure"})
TEXT_FIELDS = frozenset({"args", "message", "msg", "reason", "strerror", "text"})
ASKING = frozenset({"count", "endswith", "find", "fullmatch", "index", "match", "search"}).union(
    {"startswith"}
)
"""Methods that tell something about a text."""


def check_by_text(source: Source) -> Iterator[Finding]:
    """Yield the comparisons with an error's text."""
    if source.path in EXCEPTIONS or not source.path.startswith("src/") or source.tree is None:
        return
    found: set[int] = set()
    for scope in ast.walk(source.tree):
        for name in _errors_of(scope):
            made = _made_of_text(scope, name)
            asked = (node for node in ast.walk(scope) if isinstance(node, ast.Call | ast.Compare))
            found |= {node.lineno for node in asked if _decides(node, name, made)}
    for line in sorted(found):
        yield Finding(source.path, line, "text", RULE)


def _errors_of(scope: ast.AST) -> Iterator[str]:
    """Yield the names that an `except` clause or a function gives to errors."""
    match scope:
        case ast.ExceptHandler(name=str(name)):
            yield name
        case ast.FunctionDef(args=arguments) | ast.AsyncFunctionDef(args=arguments):
            given = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            yield from (one.arg for one in given if one.arg in PARAMETERS)
        case _:
            pass


def _made_of_text(scope: ast.AST, name: str) -> frozenset[str]:
    """Return the variables that were made of an error's text."""
    return frozenset(
        node.targets[0].id
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and any(_is_whole_text(one, name) for one in ast.walk(node.value))
    )


def _decides(node: ast.AST, name: str, made: frozenset[str]) -> bool:
    match node:
        case ast.Compare(left=left, comparators=others):
            sides = (left, *others)
            if all(isinstance(side, ast.Call) for side in sides):
                return False
            is_with_string = any(_is_string(side) for side in sides)
            return any(_is_whole_text(side, name) for side in sides) or (
                is_with_string and any(_is_part(side, name, made) for side in sides)
            )
        case ast.Call(func=ast.Attribute(value, attr), args=arguments) if attr in ASKING:
            asked = (value, *arguments)
            return any(_is_part(one, name, made) or _is_whole_text(one, name) for one in asked)
        case _:
            return False


def _is_string(node: ast.expr) -> bool:
    """Whether it is a string that says something, or the name of a constant."""
    match node:
        case ast.Constant(str(text)):
            return bool(text)
        case ast.Name(name):
            return name.isupper()
        case _:
            return isinstance(node, ast.JoinedStr)


def _is_whole_text(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Call(func=ast.Name("str" | "repr"), args=[ast.Name(of)]):
            return of == name
        case ast.Call(func=ast.Attribute(ast.Name(of), "format_message")):
            return of == name
        case ast.Subscript(value=ast.Attribute(ast.Name(of), "args")):
            return of == name
        case _:
            return False


def _is_part(node: ast.AST, name: str, made: frozenset[str]) -> bool:
    match node:
        case ast.Attribute(ast.Name(of), field):
            return of == name and field in TEXT_FIELDS
        case ast.Name(of):
            return of in made
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
    end_with(lambda: main(sys.argv[1:]))
