"""Puts a slip into a process that has imported its module already.

Every function that lives gets the code that the changed text gives it, wherever it is held: in a
class, a decorator, a table or another module. That is the slip as a new process would have it, but
for what was made with the old code before: the body of a module or a class, the default of an
argument, the answer of a function that was called meanwhile. Where that may matter, `put_in_effect`
refuses with NotReplaceable, so that a slip which is not in effect is never taken for one that no
test sees.
"""

import gc
import inspect
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple


class NotReplaceable(Exception):
    """The slip is in effect only in a process that imports the changed text."""


class Place(NamedTuple):
    """Where the code of a function stands."""

    file: str
    first_line: int
    name: str


Living = Mapping[Place, list[FunctionType]]


def living_functions(below: Path) -> Living:
    """Return every function that lives now and whose text stands below a directory."""
    found: dict[Place, list[FunctionType]] = {}
    for one in gc.get_objects():
        if type(one) is FunctionType and Path(one.__code__.co_filename).is_relative_to(below):
            found.setdefault(_place(one.__code__), []).append(one)
    return found


def put_in_effect(file: str, was: str, now: str, living: Living) -> None:
    """Give what lives of a loaded file the code of its changed text. Raises NotReplaceable."""
    old, new = (compile(text, file, "exec", dont_inherit=True) for text in (was, now))
    outermost = True
    for one, other in _changed(old, new):
        functions = living.get(_place(one), [])
        if outermost and not functions:
            raise NotReplaceable(f"no function holds {one.co_qualname}")
        outermost = outermost and not functions
        for function in functions:
            if other is None or one.co_freevars != other.co_freevars:
                raise NotReplaceable(f"{one.co_qualname} closes over other names")
            function.__code__ = other


def _place(code: CodeType) -> Place:
    return Place(code.co_filename, code.co_firstlineno, code.co_qualname)


def _changed(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType | None]]:
    """Yield the functions that differ, outer before inner; None where one is not there any more."""
    if old.co_flags & inspect.CO_OPTIMIZED:
        if _is_same(old, new):
            return
        yield old, new
    elif _own(old) != _own(new):
        raise NotReplaceable(f"{old.co_qualname} runs when it is imported")
    inner, other = _inner(old), _inner(new)
    are_paired = [one.co_name for one in inner] == [one.co_name for one in other]
    for at, code in enumerate(inner):
        if are_paired:
            yield from _changed(code, other[at])
        else:
            yield from ((one, None) for one in _whole(code))


def _is_same(old: CodeType, new: CodeType) -> bool:
    """Whether two functions do the same, on whichever lines they stand."""
    inner, other = _inner(old), _inner(new)
    return (
        _own(old) == _own(new)
        and len(inner) == len(other)
        and all(itertools.starmap(_is_same, zip(inner, other, strict=True)))
    )


def _own(code: CodeType) -> tuple[object, ...]:
    """Return what a function does itself, without its lines and what is defined in it."""
    constants = [repr(one) for one in code.co_consts if not isinstance(one, CodeType)]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    return code.co_name, code.co_code, code.co_exceptiontable, constants, names, counts


def _inner(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _whole(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in _inner(code):
        yield from _whole(one)
