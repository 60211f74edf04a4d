"""No class of src/penstock has more than 12 public methods (ADR 0081); `make check` runs it.

    python tools/classes.py [ROOT]

prints one line per finding and exits with 1 if there is any.

Counted are methods, class methods, and properties that work something out; with them what a class
inherits from another class of the project, so that a split into base classes gains nothing. Not
counted are names with a leading underscore; a property that only returns an expression: it is an
attribute that callers may not assign; and what a class of the standard library asks for, such as
`connection_made`. Overloads and a property's setter count once, with their name.

`EXCEPTIONS` names the classes that are above, each with its number. A class that is above its
number is found, and so is an entry whose class has become smaller: the number goes down with it.
"""

import ast
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tidy import Finding, Source, read_sources

from penstock.cli.exit_codes import end_with

PUBLIC_METHODS_MAX = 12

EXCEPTIONS: Mapping[str, int] = {
    # Roles and their drivers: what a link says, what the image says and what operators ask come in
    # by one object, which alone decides their order.
    "penstock.replica.replica_set.ReplicaSetMember": 16,
    "penstock.replica.master_set.MasterSet": 20,
    "penstock.runtime.replica_manager.ReplicaManager": 19,
    # Each small request passes its frames, the order of its answers and what they pin: one object
    # keeps calls between them off that path.
    "penstock.net.connection.Connection": 18,
    # What groups of every kind have, inherited, and the classic protocol's own state.
    "penstock.groups.classic.group.Group": 14,
    # The log's indexes and the one array of entries under them; the member around it, as its
    # driver's duties name it.
    "penstock.raft.log.RaftLog": 16,
    "penstock.raft.raft.Raft": 15,
    # A store for readers, retention, the housekeeper and repair: each change of its files waits for
    # the one before.
    "penstock.storage.second_level.store.SecondLevel": 14,
    # One log with three kinds of callers (readers, replicas, operators), built by inheritance;
    # every append and every roll goes through the writer.
    "penstock.storage.commit_log.set_log.SetLog": 32,
    "penstock.storage.replicate.replicable.ReplicableLog": 18,
    "penstock.storage.commit_log.writer.LogWriter": 16,
}
"""Classes above the limit, by module and name, with the number of their public methods."""


class _Class(NamedTuple):
    """One class statement. `bases` are dotted names; those of other modules as they are there."""

    path: str
    line: int
    bases: tuple[str, ...]
    own: frozenset[str]


def check_classes(
    sources: Sequence[Source], exceptions: Mapping[str, int] = EXCEPTIONS
) -> Iterator[Finding]:
    """Find classes that offer too much to be understood as one thing."""
    every = list(_classes(sources))
    classes = dict(every)
    for name, found in every:
        count = len(_public_methods(found, classes))
        limit = exceptions.get(name, PUBLIC_METHODS_MAX)
        if count > limit:
            text = f"{name} has {count} public methods, at most {limit}: split it"
            yield Finding(found.path, found.line, "class", text)
        elif count < limit and name in exceptions:
            left = str(count) if count > PUBLIC_METHODS_MAX else "no entry"
            text = f"{name} has {count} public methods: EXCEPTIONS needs {left} for it"
            yield Finding(found.path, found.line, "class", text)
    for name in exceptions.keys() - classes.keys():
        yield Finding("tools/classes.py", 1, "class", f"{name} of EXCEPTIONS does not exist")


def _classes(sources: Sequence[Source]) -> Iterator[tuple[str, _Class]]:
    for source in sources:
        if source.tree is None or not source.module.startswith("penstock"):
            continue
        names = _names_of(source.tree, source.module)
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                bases = tuple(_resolved(base, names) for base in node.bases)
                found = _Class(source.path, node.lineno, bases, frozenset(_own(node)))
                yield f"{source.module}.{node.name}", found


def _names_of(tree: ast.Module, module: str) -> dict[str, str]:
    """Return what names of a module stand for, of classes and imports."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name):
                names[name] = f"{module}.{name}"
            case ast.ImportFrom(module=str(origin), names=aliases):
                names |= {alias.asname or alias.name: f"{origin}.{alias.name}" for alias in aliases}
            case ast.Import(names=aliases):
                names |= {alias.asname: alias.name for alias in aliases if alias.asname}
            case _:
                pass
    return names


def _resolved(base: ast.expr, names: Mapping[str, str]) -> str:
    if isinstance(base, ast.Subscript):  # of a generic class
        base = base.value
    first, _, rest = ast.unparse(base).partition(".")
    return f"{names.get(first, first)}.{rest}".rstrip(".")


def _own(node: ast.ClassDef) -> Iterator[str]:
    for method in node.body:
        if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not method.name.startswith("_") and not _is_attribute(method):
            yield method.name


def _is_attribute(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether this is a property that only returns an expression."""
    if not any(ast.unparse(one) == "property" for one in method.decorator_list):
        return False
    body = method.body[1:] if ast.get_docstring(method) is not None else method.body
    return not body or (len(body) == 1 and isinstance(body[0], ast.Return))


def _public_methods(found: _Class, classes: Mapping[str, _Class]) -> frozenset[str]:
    """Return the methods of a class and of its bases, without what the library asks for."""
    bases = [classes[base] for base in found.bases if base in classes]
    inherited = frozenset().union(*(_public_methods(base, classes) for base in bases))
    asked_for = frozenset().union(*(_asked_for(base, classes) for base in found.bases))
    return (found.own | inherited) - asked_for


def _asked_for(base: str, classes: Mapping[str, _Class]) -> frozenset[str]:
    """Return the names that a class of the standard library brings along."""
    if base in classes:
        bases = classes[base].bases
        return frozenset().union(*(_asked_for(one, classes) for one in bases))
    module, _, name = base.rpartition(".")
    if module.partition(".")[0] not in sys.stdlib_module_names:
        return frozenset()
    return frozenset(dir(getattr(importlib.import_module(module), name)))


def main(arguments: Sequence[str]) -> int:
    """Print what is wrong below the given directory; return the exit code."""
    root = Path(arguments[0]) if arguments else Path(__file__).parent.parent
    found = sorted(check_classes(read_sources(root)))
    for finding in found:
        print(finding)
    print(f"classes: {len(found)} findings" if found else "classes: all in order")
    return 1 if found else 0


if __name__ == "__main__":
    end_with(lambda: main(sys.argv[1:]))
