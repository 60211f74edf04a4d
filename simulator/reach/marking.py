"""Imports modules with a mark at the beginning of each function, and returns which were set.

It imports nothing of Penstock, so that it can be imported before all other modules. Marked code is
compiled in each process and not cached.
"""

import ast
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from simulator.reach.functions import MARKED, of_tree

PACKAGE = "penstock"
FUNCTIONS_MAX = 20_000
_TABLE = "__reached__"

_names: list[str] = []
_marks = bytearray(FUNCTIONS_MAX)


def install() -> None:
    """Mark every module of the rooms that is imported from now on.

    Raises RuntimeError when one is there already: its functions would pass for never called.
    """
    if not any(isinstance(one, _Finder) for one in sys.meta_path):
        if early := [name for name in sys.modules if _is_of_a_room(name)]:
            raise RuntimeError(f"imported before it could be marked: {', '.join(early[:5])}")
        sys.meta_path.insert(0, _Finder())


def reached() -> list[str]:
    """Return the functions called since the last call of this, in source order."""
    found = [name for name, mark in zip(_names, _marks, strict=False) if mark]
    _marks[:] = bytes(FUNCTIONS_MAX)
    return found


def marked(source: str | bytes, place: str, file: str) -> CodeType:
    """Return the code of a module whose functions set their mark; `place` begins their names."""
    tree = ast.parse(source, file)
    for name, node in of_tree(tree):
        number = len(_names)
        _names.append(f"{place}:{name}")
        at = int(ast.get_docstring(node, clean=False) is not None)
        (mark,) = ast.parse(f"{_TABLE}[{number}] = 1").body
        for part in ast.walk(mark):
            ast.copy_location(part, node.body[at])
        node.body.insert(at, mark)
    if len(_names) > FUNCTIONS_MAX:
        raise ImportError(f"more than {FUNCTIONS_MAX} functions", path=file)
    code: CodeType = compile(tree, file, "exec", dont_inherit=True)
    return code


def _is_of_a_room(module: str) -> bool:
    parts = module.split(".")
    return len(parts) > 1 and parts[0] == PACKAGE and parts[1] in MARKED


class _Loader(SourceFileLoader):
    """Loads one module, marked."""

    def get_code(self, fullname: str) -> CodeType:
        parts = fullname.split(".")[1:]
        end = "/__init__.py" if self.is_package(fullname) else ".py"
        file = self.get_filename(fullname)
        return marked(self.get_data(file), "/".join(parts) + end, file)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__[_TABLE] = _marks
        super().exec_module(module)


class _Finder(MetaPathFinder):
    """Finds the modules of the rooms where everybody finds them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _is_of_a_room(fullname):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return spec
        spec.loader = _Loader(fullname, spec.loader.path)
        return spec
