"""The written side is held to the code: paths hop by hop, files, tests and links that are named."""

import re
from pathlib import Path

import pytest

from tools.tidy import CORE_ROOMS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/penstock"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
HOPS = re.findall(r"^\| \d+ \| `([a-z_/]+\.py)` `([\w.]+)`", PAGE, re.MULTILINE)
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
PATHS = [text for title, text in SECTIONS.items() if "hop by hop" in title]
BUGS = (ROOT / "docs/replication-bugs.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
DECISIONS = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
REPLACED = [one for one in DECISIONS if "\nStatus: replaced by " in one.read_text()]
"""Decisions that no longer hold: what they name may be gone."""


def test_every_path_is_a_table_with_numbered_hops() -> None:
    assert len(PATHS) == 5
    for text in PATHS:
        numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= 8


def test_every_hop_names_a_function_that_stands_in_its_file() -> None:
    assert len(HOPS) > 40
    for file, name in HOPS:
        code = (SOURCE / file).read_text()
        owner, _, defined = name.rpartition(".")
        assert re.search(rf"(def|class) {defined}\b|self\.{defined} = ", code), (file, name)
        assert not owner or re.search(rf"class {owner}\b", code), (file, name)


def test_the_half_hour_names_functions_and_a_test_that_are_there() -> None:
    (text,) = (text for title, text in SECTIONS.items() if title.startswith("Half an hour"))
    rows = re.findall(r"^\| `([a-z_/]+\.py)`(.*?) \|", text, re.MULTILINE)
    assert len(rows) >= 5
    for file, names in rows:
        code = ((ROOT if file.startswith("tests/") else SOURCE) / file).read_text()
        for name in re.findall(r"`([\w.]+)`", names):
            assert f"def {name.rpartition('.')[2]}(" in code, (file, name)
    (file, wanted) = re.findall(r"pytest (\S+) -q -k (\w+)", text)[0]
    assert f"def {wanted}" in (ROOT / file).read_text()


def test_every_file_and_package_the_page_names_exists() -> None:
    for file in re.findall(r"`((?:[a-z]+/)+[a-z_]+\.py)`", PAGE):
        base = ROOT if file.startswith("tests/") else SOURCE
        assert (base / file).exists(), file
    for package in re.findall(r"`((?:[a-z]+/)+)`", PAGE):
        assert (SOURCE / package / "__init__.py").exists(), package
    for pattern in re.findall(r"`((?:[a-z]+/)+[a-z_]*\*[a-z_]*\.py)`", PAGE):
        assert list(SOURCE.glob(pattern)), pattern


@pytest.mark.parametrize(
    "document", [one for one in DOCUMENTS if one not in REPLACED], ids=lambda path: path.name
)
def test_every_module_that_a_document_names_exists(document: Path) -> None:
    made_by_the_reader = {"adding.md"}
    moved = {"runtime/session_client.py"}  # ADR 0049 tells of the move
    for file in re.findall(r"`((?:[a-z]+/)+[a-z_0-9]+\.py)`", document.read_text()):
        exists = any((base / file).exists() for base in (ROOT, SOURCE, ROOT / "tests"))
        assert exists or file in moved or document.name in made_by_the_reader, file


def test_every_package_beside_the_source_is_on_the_page() -> None:
    rows = re.findall(r"^\| (`.+?) \|", SECTIONS["Beside the source"], re.MULTILINE)
    told = [name for row in rows for name in re.findall(r"`([a-z]+)`", row)]
    there = {path.relative_to(ROOT).parts[0] for path in ROOT.glob("[a-z]*/*.py")}
    assert sorted(told) == sorted(there - {"build", "dist"})


def test_every_room_is_on_the_page_and_every_one_on_the_page_exists() -> None:
    told = re.findall(r"^\| `([a-z0-9]+)` \|", SECTIONS["The rooms"], re.MULTILINE)
    there = [path.parent.name for path in SOURCE.glob("*/__init__.py")]
    assert sorted(told) == sorted(there)


def test_the_rules_name_the_rooms_of_the_core() -> None:
    (told,) = re.findall(r"^- \*\*The core does no I/O\.\*\* (.+?) get ", PAGE, re.MULTILINE)
    assert sorted(re.findall(r"[a-z0-9]+(?=,| and|$)", told)) == sorted(CORE_ROOMS)


def test_what_a_package_says_of_its_modules_stands_there() -> None:
    for package in SOURCE.rglob("__init__.py"):
        docstring = package.read_text().split('"""')[1]
        named = re.findall(r"(?<![\w./])((?:[a-z_]+/)*[a-z_]+\.py)\b", docstring)
        named += [f"{one}.py" for one in re.findall(r"`([a-z_/]+)\.[A-Z]\w+`", docstring)]
        for name in named:
            assert (package.parent / name).exists(), (str(package.relative_to(ROOT)), name)


def test_the_picture_names_every_room_of_a_broker() -> None:
    drawn = re.findall(r"│   ([a-z]+) ", SECTIONS["Bird's eye"])
    rooms = re.findall(r"^\| `([a-z0-9]+)` \|", SECTIONS["The rooms"], re.MULTILINE)
    beside = {
        "access",
        "archive",
        "audit",
        "cli",
        "spark",
        "client",
        "compaction",
        "finding",
        "tier",
        "remoting",
        "grpc",
        "http",
        "http2",
        "configs",
        "frames",
        "extents",
        "inspection",
        "housekeeper",
        "node",
        "runtime",
        "telemetry",
        "protobuf",
        "protocol",
        "quotas",
        "record",
        "base",
    }
    assert sorted(drawn) == sorted(set(rooms) - beside)


def test_every_row_of_a_published_bug_names_tests_that_exist() -> None:
    rows = re.findall(r"^\| (?!issue|source|---)(.+?) \| .+? \| (.+?) \|$", BUGS, re.MULTILINE)
    assert len(rows) > 20
    for bug, cell in rows:
        named = re.findall(r"`([a-z_/]+\.py)(?:::(test_\w+))?`", cell)
        assert named, bug
        for file, test in named:
            code = (ROOT / "tests" / file).read_text()
            assert not test or f"def {test}(" in code, (bug, file, test)


def test_every_link_leads_to_a_file_that_is_there() -> None:
    for document in DOCUMENTS:
        text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
            if not re.match(r"[a-z]+:", target):
                assert (document.parent / target).exists(), (document, target)


def test_every_module_that_is_named_in_the_source_exists() -> None:
    files = [one for one in (ROOT / "src").rglob("*") if one.suffix in {".py", ".pyx"}]
    names = {file.name for file in files} | {one.name for one in (ROOT / "tests").rglob("*.py")}
    lost = {
        (file.name, named)
        for file in files
        for named in re.findall(r"(?<![\w/.])([a-z_]+\.py)\b", file.read_text())
        if named not in names
    }
    assert not lost


def test_every_test_that_a_decision_names_exists() -> None:
    for page in DECISIONS:
        if page in REPLACED:
            continue
        for file in re.findall(r"`(tests/[a-z_/]+\.py)", page.read_text()):
            assert (ROOT / file).exists(), (page.name, file)


def test_every_decision_stands_in_the_index_under_its_number() -> None:
    index = (ROOT / "docs/adr/README.md").read_text()
    for page in DECISIONS:
        assert f"| [{page.name[:4]}]({page.name}) | " in index, page.name


def test_every_requirement_that_is_cited_has_its_row_and_every_row_is_cited() -> None:
    rows = re.findall(
        r"^\| ([A-Z]-\d+) \|", (ROOT / "docs/requirements.md").read_text(), re.MULTILINE
    )
    sources = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.pyx"), *DECISIONS]
    cited = {
        row
        for file in sources
        for row in re.findall(r"(?<![\w-])[GKMPST]-\d{1,2}(?!\d)", file.read_text())
    }
    assert cited == set(rows)
    assert len(rows) == len(set(rows))


def test_no_module_cites_what_is_not_in_the_repository() -> None:
    elsewhere = re.compile(r"rows? [A-Z]-\d+ of|spec of the|specification [A-Z]-\d")
    assert [str(one) for one in SOURCE.rglob("*.py") if elsewhere.search(one.read_text())] == []
