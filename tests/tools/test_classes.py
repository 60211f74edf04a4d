"""The count of public methods finds a class that is too large, however it is written."""

import importlib.util
import sys
from pathlib import Path

TOOLS = Path(__file__).parents[2] / "tools"


def load(name):
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


tidy = load("tidy")
classes = load("classes")
EXCEPTIONS, PUBLIC_METHODS_MAX = classes.EXCEPTIONS, classes.PUBLIC_METHODS_MAX

PLACE = "penstock.raft.thing"


def methods(first, count, decorator="", body="return 1"):
    line = f"    {decorator}\n" if decorator else ""
    return "".join(
        f"{line}    def m{number}(self):\n        {body}\n"
        for number in range(first, first + count)
    )


def found(*texts, exceptions=None):
    sources = [
        tidy.read_source(f"src/penstock/raft/{name}.py", text)
        for name, text in zip(("thing", "base"), texts, strict=False)
    ]
    return [
        finding.text.split(":")[0] for finding in classes.check_classes(sources, exceptions or {})
    ]


def test_a_class_of_13_public_methods_is_found_and_one_of_12_is_not():
    assert PUBLIC_METHODS_MAX == 12
    assert found("class A:\n" + methods(0, 12)) == []
    assert found("class A:\n" + methods(0, 13)) == [f"{PLACE}.A has 13 public methods, at most 12"]


def test_each_of_two_classes_of_one_name_is_looked_at():
    inner = "    class Inner:\n" + methods(0, 13).replace("    def", "        def")
    inner = inner.replace("        return", "            return")
    text = "class A:\n" + inner + "class B:\n    class Inner:\n        a = 1\n"
    assert len(found(text)) == 1


def test_class_methods_and_coroutines_count():
    coroutine = "    async def wait(self): ...\n"
    for last in (methods(12, 1, "@classmethod"), methods(12, 1, "@staticmethod"), coroutine):
        assert len(found("class A:\n" + methods(0, 12) + last)) == 1


def test_private_methods_do_not_count():
    private = "    def _a(self): ...\n    def __len__(self): ...\n"
    assert found("class A:\n" + methods(0, 12) + private) == []


def test_a_property_counts_if_it_does_more_than_return_an_expression():
    plain = methods(12, 5, "@property", '"""What."""\n        return self._a')
    assert found("class A:\n" + methods(0, 12) + plain) == []
    working = methods(12, 1, "@property", "a = self._look()\n        return a")
    assert len(found("class A:\n" + methods(0, 12) + working)) == 1


def test_overloads_and_setters_count_once():
    again = methods(0, 5, "@overload", "...") + methods(0, 1, "@m0.setter", "self.a = 1")
    assert found("class A:\n" + again + methods(0, 12)) == []


def test_what_is_inherited_within_the_project_counts():
    base = "class Base:\n" + methods(0, 7)
    one_file = base + "class A(Base):\n" + methods(7, 6)
    assert len(found(one_file)) == 1
    imported = "from penstock.raft.base import Base\nclass A(Base[int]):\n" + methods(7, 6)
    assert len(found(imported, base)) == 1
    renamed = "import penstock.raft.base as b\nclass A(b.Base):\n" + methods(7, 6)
    assert len(found(renamed, base)) == 1
    assert found(imported.replace("m12", "m0"), base) == []


def test_what_a_class_of_the_library_asks_for_does_not_count():
    asked_for = "    def connection_made(self, t): ...\n    def data_received(self, d): ...\n"
    text = "class A(asyncio.Protocol):\n" + methods(0, 12) + asked_for
    assert found("import asyncio\n" + text) == []
    assert len(found(text.replace("asyncio.Protocol", "Other"))) == 1
    below = "from penstock.raft.base import Base\nclass A(Base):\n" + methods(0, 12) + asked_for
    assert found(below, "import asyncio\nclass Base(asyncio.Protocol): ...\n") == []


def test_an_exception_permits_its_number_and_no_more():
    text = "class A:\n" + methods(0, 14)
    assert found(text, exceptions={f"{PLACE}.A": 14}) == []
    assert len(found(text, exceptions={f"{PLACE}.A": 13})) == 1
    assert len(found(text, exceptions={f"{PLACE}.B": 14})) == 2


def test_an_exception_goes_down_with_its_class():
    text = "class A:\n" + methods(0, 13)
    assert found(text, exceptions={f"{PLACE}.A": 14}) == [f"{PLACE}.A has 13 public methods"]
    assert len(found("class A:\n" + methods(0, 12), exceptions={f"{PLACE}.A": 13})) == 1


def test_exceptions_are_above_the_limit():
    assert all(count > PUBLIC_METHODS_MAX for count in EXCEPTIONS.values())
