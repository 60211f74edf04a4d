"""Each rule of tools/tidy.py finds a planted example and leaves the corrected one alone."""

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "tools" / "tidy.py"
spec = importlib.util.spec_from_file_location("tidy", PATH)
assert spec
assert spec.loader
tidy = importlib.util.module_from_spec(spec)
sys.modules["tidy"] = tidy
spec.loader.exec_module(tidy)

DOCSTRING = '"""What it is.\n\nSource: a paper.\n"""\n'
STORAGE = "src/penstock/storage/segment.py"


def rules_broken(path, text, *, imported=True):
    sources = [tidy.read_source(path, text)]
    if imported and sources[0].module:
        user = f'"""Uses it."""\nimport {sources[0].module}\n'
        sources.append(tidy.read_source("src/penstock/cli/main.py", user))
    return [finding.rule for finding in tidy.findings(sources)]


def test_a_tidy_module_has_no_findings():
    assert rules_broken(STORAGE, DOCSTRING + "def read() -> None:\n    return None\n") == []


def test_a_function_of_61_lines_is_found_and_one_of_60_is_not():
    body = "def long() -> None:\n" + "    pass\n" * 59
    assert rules_broken(STORAGE, DOCSTRING + body) == []
    assert rules_broken(STORAGE, DOCSTRING + body + "    pass\n") == ["length"]


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        (STORAGE, 450),
        ("src/penstock/kafka/handlers/records/fetch.py", 250),
        ("tests/test_a.py", 500),
    ],
)
def test_a_long_file_is_found(path, limit):
    head = DOCSTRING + "KEY = VERSIONS = handle = 1\n"
    filler = "A = 1\n" * (limit - head.count("\n"))
    assert rules_broken(path, head + filler) == []
    assert rules_broken(path, head + filler + "A = 1\n") == ["length"]


def test_a_module_without_docstring_is_found():
    assert rules_broken("src/penstock/net/frames.py", "A = 1\n") == ["docstring"]


@pytest.mark.parametrize("room", sorted(tidy.SOURCED_ROOMS))
def test_a_core_module_without_a_source_is_found(room):
    assert rules_broken(f"src/penstock/{room}/thing.py", '"""What it is."""\n') == ["docstring"]


@pytest.mark.parametrize("name", sorted(tidy.BANNED_IMPORTS))
def test_a_banned_import_is_found_in_a_core_room_and_allowed_outside(name):
    for line in (f"import {name}\n", f"from {name} import thing\n"):
        broken = rules_broken(STORAGE, DOCSTRING + line)
        assert set(broken) == {"core"}
        assert rules_broken("src/penstock/runtime/io/disk.py", DOCSTRING + line) == []


@pytest.mark.parametrize("name", sorted(tidy.BANNED_CALLS))
def test_a_banned_call_is_found_in_a_core_room(name):
    assert rules_broken(STORAGE, DOCSTRING + f"A = {name}()\n") == ["core"]


def test_a_banned_call_through_its_module_is_found():
    assert rules_broken(STORAGE, DOCSTRING + "A = datetime.datetime.now()\n") == ["core"]


def test_a_method_called_open_is_no_banned_call():
    assert rules_broken(STORAGE, DOCSTRING + "def f(disk):\n    disk.open()\n") == []


@pytest.mark.parametrize("values", ["{1, 2}", "set(a)", "frozenset(a)", "{b for b in a}"])
def test_iteration_over_a_set_is_found_in_a_core_room(values):
    assert "order" in rules_broken(STORAGE, DOCSTRING + f"for x in {values}:\n    pass\n")
    assert rules_broken(STORAGE, DOCSTRING + f"for x in sorted({values}):\n    pass\n") == []


@pytest.mark.parametrize("missing", ["KEY", "VERSIONS", "handle"])
def test_a_handler_without_its_three_names_is_found(missing):
    parts = {
        "KEY": "KEY = 1\n",
        "VERSIONS": "VERSIONS: range = range(3)\n",
        "handle": "async def handle(broker, request):\n    return {}\n",
    }
    path = "src/penstock/kafka/handlers/records/fetch.py"
    assert rules_broken(path, DOCSTRING + "".join(parts.values())) == []
    del parts[missing]
    assert rules_broken(path, DOCSTRING + "".join(parts.values())) == ["handler"]


def test_a_helper_beside_the_handlers_is_no_handler():
    assert rules_broken("src/penstock/kafka/handlers/_shared.py", DOCSTRING) == []


@pytest.mark.parametrize(
    "line",
    [
        "a = broker.metadata.topics_by_name.get(name)",
        "a = image.topics_by_id",
        "a = context.broker.partitions.find(name, 0)",
        "a = broker.partitions",
        "a = registry.by_id",
        "from penstock.broker.coordinators.lease import knows_group",
    ],
)
def test_tables_of_topics_are_for_the_gate(line):
    text = DOCSTRING + line + "\n"
    assert rules_broken("src/penstock/kafka/fetch/parts.py", text) == ["gate"]
    assert rules_broken("src/penstock/kafka/gate.py", text) == []
    assert rules_broken("src/penstock/broker/broker.py", text) == []
    assert rules_broken("src/penstock/kafka/a.py", DOCSTRING + "a = topic.partitions\n") == []


@pytest.mark.parametrize(
    "line",
    [
        "end = run.segment_end",
        "from penstock.storage.commit_log.segments import Segment",
        "def a(segment_bytes): ...",
        "a(segment=1)",
        "class Segments: ...",
    ],
)
def test_segments_are_for_the_storage_room(line):
    text = DOCSTRING + line + "\n"
    assert set(rules_broken("src/penstock/broker/fetch/parts.py", text)) == {"segment"}
    assert rules_broken("src/penstock/cli/log.py", text) == []
    assert "segment" not in rules_broken(STORAGE, text)


@pytest.mark.parametrize("word", ["TO" + "DO", "FIX" + "ME", "X" * 3])
def test_a_leftover_marker_is_found(word):
    assert rules_broken(STORAGE, DOCSTRING + f"# {word}: later\n") == ["marker"]
    assert rules_broken("README.md", f"{word}\n") == ["marker"]


@pytest.mark.parametrize(
    "text", ["/wo" + "rk/main", "/ro" + "ot/x", "/home/somebody", "https://py" + "pi.org/simple"]
)
def test_a_place_on_one_machine_is_found(text):
    assert rules_broken("docs/guide.md", f"see {text}\n") == ["place"]


@pytest.mark.parametrize(
    ("package", "other"),
    [
        (package, other)
        for package, others in tidy.NOT_IMPORTED_BY.items()
        for other in sorted(others)
    ],
)
def test_an_import_against_the_direction_is_found_also_within_a_function(package, other):
    path = "src/penstock/net/a.py" if package == "src" else f"{package}/a.py"
    for line in (f"import {other}", f"from {other}.part import thing", f"from {other} import part"):
        assert rules_broken(path, f'"""What it is."""\n{line}\n') == ["aside"]
        text = f'"""What it is."""\n\n\ndef work():\n    {line}\n'
        assert rules_broken(path, text) == ["aside"]


@pytest.mark.parametrize("package", ["tests", "benchmarks", "reliability", "tools", "demo"])
def test_everything_beside_the_source_may_import_the_harness(package):
    assert rules_broken(f"{package}/a.py", '"""What it is."""\nimport harness.node\n') == []


@pytest.mark.parametrize("other", ["benchmarks", "reliability", "tools", "demo", "tests"])
def test_tests_may_import_all_of_it(other):
    assert rules_broken("tests/test_a.py", f"import {other}.a\n") == []


def test_a_relative_path_is_no_place_on_one_machine():
    assert rules_broken("docs/guide.md", "see src/work/x and the/root/y\n") == []


def test_a_module_nothing_imports_is_found():
    assert rules_broken(STORAGE, DOCSTRING, imported=False) == ["dead"]


def test_a_module_that_only_tests_import_is_found_unless_it_is_simulation():
    test = tidy.read_source("tests/test_a.py", "import penstock.storage.a\nimport simulator.b\n")
    storage = tidy.read_source("src/penstock/storage/a.py", DOCSTRING)
    sim = tidy.read_source("simulator/b.py", DOCSTRING)
    found = tidy.findings([test, storage, sim])
    assert [(finding.path, finding.rule) for finding in found] == [(storage.path, "dead")]


def test_a_module_named_in_text_counts_as_used():
    user = tidy.read_source("src/penstock/cli/main.py", '"""U."""\nA = "penstock.storage.a"\n')
    storage = tidy.read_source("src/penstock/storage/a.py", DOCSTRING)
    assert tidy.findings([user, storage]) == []


def test_the_program_prints_findings_and_exits_with_one(tmp_path, capsys):
    path = tmp_path / "src" / "penstock" / "storage" / "a.py"
    path.parent.mkdir(parents=True)
    path.write_text("import os\n")
    assert tidy.main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "src/penstock/storage/a.py:1: core: import of os: take a Disk port" in out
    assert out.endswith("tidy: 3 findings\n")


def test_a_file_that_is_not_python_is_found(tmp_path):
    assert rules_broken(STORAGE, "def (:\n", imported=False) == ["syntax"]


def test_a_file_at_the_top_that_is_not_known_is_found():
    assert rules_broken("NOTES.md", "Something.\n") == ["top"]
    assert rules_broken("docs/notes.md", "Something.\n") == []
    assert rules_broken("README.md", "Something.\n") == []


@pytest.mark.parametrize("count", [25, 26])
def test_a_package_of_26_modules_is_found_and_one_of_25_is_not(count):
    sources = [
        tidy.read_source(f"src/penstock/net/m{number}.py", '"""What it is."""\n')
        for number in range(count)
    ]
    found = [finding.rule for finding in tidy.findings(sources)]
    assert ("crowd" in found) is (count > 25)


@pytest.mark.parametrize(
    ("median", "p95", "is_short"), [(6, 25, True), (7, 25, False), (6, 26, False)]
)
@pytest.mark.parametrize("docstring", ["", '    """What it does,\n    at some length."""\n'])
def test_functions_that_are_mostly_long_are_found(median, p95, is_short, docstring):
    lengths = [2] * 10 + [median] * 9 + [p95]
    body = "".join(
        f"def f{number}() -> None:\n{docstring}" + "    pass\n" * (length - 1)
        for number, length in enumerate(lengths)
    )
    assert rules_broken(STORAGE, DOCSTRING + body) == ([] if is_short else ["short"])


def test_of_few_functions_it_is_not_said_that_they_are_mostly_long():
    body = "".join(f"def f{number}() -> None:\n" + "    pass\n" * 40 for number in range(9))
    assert rules_broken(STORAGE, DOCSTRING + body) == []
