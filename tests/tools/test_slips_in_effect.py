"""A slip is in effect in whatever lives of its module, or it is refused."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tools.mutants.in_effect import Living, NotReplaceable, living_functions, put_in_effect
from tools.mutants.slips import entering

SOURCE = '''
import functools
from dataclasses import dataclass

LIMIT = 1


def twice(function):
    @functools.wraps(function)
    def inner(*arguments):
        return [function(*arguments), len(arguments) < 3]

    return inner


class Base:
    def told(self, a):
        return a


@dataclass(frozen=True, slots=True)
class Box(Base):
    a: int
    kind = 2 < 3

    @property
    def of_property(self):
        return self.a < 4

    @staticmethod
    def of_static(a):
        return a < 5

    @classmethod
    def of_class(cls, a):
        return a < 6

    def of_super(self, a):
        return super(Box, self).told(a < 7)


@twice
def decorated(a):
    """What it says."""
    return a < 8


def generated(a):
    for one in range(2):
        yield one, a < 9


def made(a):
    def inner(b):
        return b < 10 and a

    return inner


TABLE = {"made": made(True), "lambda": [lambda a: a < 11]}


def by_default(a=3 < 12):
    return a


def closing(a):
    def inner(b):
        return a < 13

    return inner


CLOSING = closing(1)


def of_one_line(a): return a < 14


def later(a):
    """What it says."""
    # größer
    return a < 15


def of_loop(a):
    for _ in range(2):
        if a < 16:
            return True
    return False
'''


class Loaded:
    """A module in a file, and what lives of it."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "box.py"
        self.file.write_text(SOURCE)
        spec = importlib.util.spec_from_file_location("box", self.file)
        assert spec is not None
        assert spec.loader is not None
        self.module: ModuleType = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.living: Living = living_functions(directory)

    def put(self, was: str, now: str) -> None:
        assert SOURCE.count(was) == 1
        put_in_effect(str(self.file), SOURCE, SOURCE.replace(was, now), self.living)


@pytest.fixture
def loaded(tmp_path: Path) -> Loaded:
    return Loaded(tmp_path)


@pytest.mark.parametrize(
    ("bound", "told"),
    [
        (4, lambda m: m.Box(4).of_property),
        (5, lambda m: m.Box.of_static(5)),
        (6, lambda m: m.Box.of_class(6)),
        (7, lambda m: m.Box(1).of_super(7)),
        (8, lambda m: m.decorated(8)[0]),
        (3, lambda m: m.TWICE(1, 2, 3)[1]),
        (9, lambda m: list(m.generated(9))[1][1]),
        (10, lambda m: m.TABLE["made"](10)),
        (11, lambda m: m.TABLE["lambda"][0](11)),
        (14, lambda m: m.of_one_line(14)),
        (15, lambda m: m.later(15)),
        (16, lambda m: m.of_loop(16)),
    ],
)
def test_a_slip_is_in_effect_wherever_the_function_is_held(
    loaded: Loaded, bound: int, told: Callable[[ModuleType], bool]
) -> None:
    vars(loaded.module)["TWICE"] = loaded.module.twice(lambda *_: 0)
    held = {**loaded.living, **living_functions(loaded.file.parent)}
    assert told(loaded.module) is False
    was = "len(arguments) < 3" if bound == 3 else f" < {bound}"
    put_in_effect(str(loaded.file), SOURCE, SOURCE.replace(was, was.replace("<", "<="), 1), held)
    assert told(loaded.module) is True


@pytest.mark.parametrize(
    ("was", "now", "why"),
    [
        ("LIMIT = 1", "LIMIT = 2", "runs when it is imported"),
        ("kind = 2 < 3", "kind = 2 <= 3", "runs when it is imported"),
        ("a=3 < 12", "a=3 <= 12", "runs when it is imported"),
        ("return a < 13", "return True", "closes over other names"),
        ("    return inner\n\n\nCLOSING", "    return lambda b: a\n\n\nCLOSING", "closes over"),
    ],
)
def test_what_the_old_text_has_made_already_is_refused(
    loaded: Loaded, was: str, now: str, why: str
) -> None:
    with pytest.raises(NotReplaceable, match=why):
        loaded.put(was, now)


def test_a_function_that_nobody_holds_is_refused(loaded: Loaded) -> None:
    loaded.living = {place: one for place, one in loaded.living.items() if place.name != "later"}
    with pytest.raises(NotReplaceable, match="no function holds later"):
        loaded.put("a < 15", "a <= 15")


def test_functions_that_stand_on_other_lines_with_it_stay_as_they_are(loaded: Loaded) -> None:
    before = loaded.module.later.__code__
    loaded.put("for one in range(2):\n        yield", "for one in range(2): yield")
    assert loaded.module.later.__code__ is before


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("later", lambda m: m.later(1)),
        ("of_loop", lambda m: m.of_loop(1)),
        ("of_one_line", lambda m: m.of_one_line(1)),
        ("made", lambda m: m.made(1)),
    ],
)
def test_a_function_that_is_made_to_end_does_so_when_it_is_entered(
    loaded: Loaded, name: str, step: Callable[[ModuleType], object]
) -> None:
    first_line = getattr(loaded.module, name).__code__.co_firstlineno
    text = entering(SOURCE, first_line, "int(str())")
    put_in_effect(str(loaded.file), SOURCE, text, loaded.living)
    with pytest.raises(ValueError, match="invalid literal"):
        step(loaded.module)
