"""Checks of the house rules that ruff, mypy and import-linter can not express.

    python tools/tidy.py [ROOT]

prints one line per finding, `path:line: rule: what to do`, and exits with 1 if there is any. A rule
is a function from a parsed file to findings; `tests/tools/test_tidy.py` plants an example for each.

Rules
    length        functions up to 60 lines, files up to 500, below src 450, handler modules 250
    short         of the functions below src half have up to 6 lines, and 95 % up to 25, without
                  their docstrings
    docstring     every module says what it is; in core rooms it also has a `Source:` line
    core          core rooms reach time, randomness, disk and threads through ports only
    order         no iteration over a set literal or `set(...)` in core rooms: its order varies
    handler       a handler module of kafka has KEY, VERSIONS and handle (or handle_frame, if it
                  parses the request itself)
    gate          in kafka only gate.py looks up topics, since it checks permissions
    segment       rooms that read or copy logs do not use the word segment
    marker        no leftover markers in text files
    place         no path of a particular machine, no host of a package registry
    dead          every module is imported by another or is an entry point
    crowd         no package has more than 25 modules of its own
    top           at the top stand the files that this page names
    aside         packages outside src import in one direction: tests > benchmarks, reliability >
                  demo, tools > harness; nothing imports tests, only tests import tools
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from penstock.cli.exit_codes import end_with

FUNCTION_LINES_MAX = 60
FUNCTION_LINES_USUAL = {50: 6, 95: 25}
"""Lines that a function has at most, by percentile: from `def` on, without its docstring."""
FUNCTIONS_MIN = 20
"""Of fewer functions percentiles say nothing."""
FILE_LINES_MAX = 500
SOURCE_LINES_MAX = 450
HANDLER_LINES_MAX = 250
PACKAGE_MODULES_MAX = 25

_CORE = "access assignors audit base compaction configs controller coordinator extents frames"
_CORE += " finding groups housekeeper inspection protobuf protocol quotas raft record replica"
_CORE += " replication shares storage telemetry tier transactions"
CORE_ROOMS = frozenset(_CORE.split())
SOURCED_ROOMS = CORE_ROOMS - {"base"}

BANNED_IMPORTS = {
    "asyncio": "take a Scheduler or Offload port",
    "socket": "bytes come from net",
    "threading": "take an Offload port",
    "concurrent": "take an Offload port",
    "time": "take a Clock port",
    "random": "take random bytes as an argument",
    "secrets": "take random bytes as an argument",
    "os": "take a Disk port",
    "pathlib": "take a Disk port",
    "shutil": "take a Disk port",
    "tempfile": "take a Disk port",
    "subprocess": "processes are node's and cli's",
}
BANNED_CALLS = {
    "open": "take a Disk port",
    "print": "return it; cli prints",
    "input": "take it as an argument",
    **dict.fromkeys(
        (f"datetime.{name}" for name in ("now", "utcnow", "today")), "take a Clock port"
    ),
    "date.today": "take a Clock port",
    **dict.fromkeys(
        ("uuid.uuid1", "uuid.uuid4", "uuid1", "uuid4"), "take random bytes as an argument"
    ),
}

READING_ROOMS = frozenset(
    {"broker", "coordinator", "groups", "kafka", "node", "remoting", "replica", "replication"}
    | {"runtime", "shares", "transactions"}
)
"""A log's files are storage's own business: a partition may have its bytes elsewhere (ADR 0068)."""

SIMULATOR = "simulator"
"""It stands beside src, and is held to what holds there."""

GATE = "penstock.kafka.gate"
GATED_TABLES = frozenset({"topics_by_name", "topics_by_id", "partitions", "by_name", "by_id"})
GATED_NAMES = frozenset({"knows_group"})

# Spelt in two parts so that this file passes its own rules.
MARKERS = re.compile(
    "|".join(rf"\b{a}{b}\b" for a, b in [("TO", "DO"), ("FIX", "ME"), ("X", "XX")])
)
PLACES = re.compile(
    r"(?<![\w.])/(?:" + "|".join(["wo" + "rk", "fa" + "rm", "ro" + "ot"]) + r")/"
    r"|/home/\w|pypi\.(?:org|python)|pythonhosted|repo1?\.maven\.|registry\.npmjs|"
    r"index-url|proxy\.golang"
)
TEXT_SUFFIXES = frozenset(
    {".py", ".pyx", ".pxd", ".md", ".toml", ".sh", ".txt", ".lock", ".cfg", ".ini", ".yml", ".yaml"}
)
TEXT_NAMES = frozenset({"Makefile", "run", ".importlinter", ".gitignore"})
SKIPPED_DIRECTORIES = frozenset({"build", "dist", "node_modules", "__pycache__"})
OWN_FILES = frozenset({"tools/tidy.py", "tests/tools/test_tidy.py"})
"""They name what they look for."""

NOT_IMPORTED_BY = {
    "src": frozenset({"tests", "tools", "demo", "benchmarks", "reliability", "harness"}),
    "harness": frozenset({"tests", "tools", "demo", "benchmarks", "reliability"}),
    "benchmarks": frozenset({"tests", "tools", "reliability"}),
    "reliability": frozenset({"tests", "tools", "benchmarks"}),
    "demo": frozenset({"tests", "tools", "benchmarks", "reliability"}),
    "tools": frozenset({"tests", "benchmarks", "reliability"}),
}
"""What a package at the top may not import."""

TOP_FILES = frozenset({"Makefile", "pyproject.toml", "setup.py", "MANIFEST.in", ".gitignore"})
TOP_FILES |= {f"{name}.md" for name in ("ARCHITECTURE", "CHANGELOG", "GLOSSARY", "README")}

ENTRY_POINTS = frozenset({"penstock", "penstock.cli.main", "simulator.__main__"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One text file. `module` is its dotted name, `tree` its syntax; both only for our package."""

    path: str
    text: str
    module: str = ""
    tree: ast.Module | None = None
    syntax_error: str = ""

    @property
    def room(self) -> str:
        """Return the package below penstock, or `simulator`, or nothing for modules outside."""
        parts = self.module.split(".")
        if parts[0] == SIMULATOR:
            return SIMULATOR
        return parts[1] if len(parts) > 1 else ""

    @property
    def is_package(self) -> bool:
        """Return whether this is an `__init__.py`."""
        return self.path.endswith("__init__.py")

    @property
    def is_handler(self) -> bool:
        """Return whether this module handles one API key."""
        handlers = self.module.startswith("penstock.kafka.handlers.") and not self.is_package
        return handlers and not self.module.rpartition(".")[2].startswith("_")


class Finding(NamedTuple):
    """One broken rule."""

    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


Rule = Callable[[Source], Iterator[Finding]]


def check_length(source: Source) -> Iterator[Finding]:
    """Keep functions, files and handlers short enough to read."""
    if not source.path.endswith((".py", ".pyx")):
        return
    limit = SOURCE_LINES_MAX if source.path.startswith("src/") else FILE_LINES_MAX
    limit, lines = HANDLER_LINES_MAX if source.is_handler else limit, source.text.count("\n")
    if lines > limit:
        yield Finding(source.path, 1, "length", f"{lines} lines, at most {limit}: split it")
    for node in ast.walk(source.tree) if source.tree else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                text = f"{node.name} has {length} lines, at most {FUNCTION_LINES_MAX}: split it"
                yield Finding(source.path, node.lineno, "length", text)


def check_docstring(source: Source) -> Iterator[Finding]:
    """Every module says what it is, and a core module where its rules come from."""
    if source.tree is None:
        return
    docstring = ast.get_docstring(source.tree)
    if not docstring:
        yield Finding(source.path, 1, "docstring", "say in a module docstring what it is")
        return
    # "Source as in x.py" is a source as well; errors and the package itself only name things.
    named = source.is_package or source.module.endswith(".errors")
    if source.room in SOURCED_ROOMS and not named and "Source" not in docstring:
        yield Finding(source.path, 1, "docstring", "add a `Source:` line (KIP, RIP, class, paper)")


def check_core(source: Source) -> Iterator[Finding]:
    """Core rooms get the outside world through ports and arguments."""
    if source.room not in CORE_ROOMS or source.tree is None:
        return
    for node in ast.walk(source.tree):
        for name in imported(node):
            root = name.partition(".")[0]
            if root in BANNED_IMPORTS:
                text = f"import of {root}: {BANNED_IMPORTS[root]}"
                yield Finding(source.path, node.lineno, "core", text)  # type: ignore[attr-defined]
        if isinstance(node, ast.Call):
            called = _dotted(node.func)
            short = ".".join(called.split(".")[-2:])
            for name in dict.fromkeys((called, short)):
                if name in BANNED_CALLS:
                    text = f"call of {name}: {BANNED_CALLS[name]}"
                    yield Finding(source.path, node.lineno, "core", text)
                    break


def check_order(source: Source) -> Iterator[Finding]:
    """A loop over a set runs in another order in another process."""
    if source.room not in CORE_ROOMS or source.tree is None:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension) and _is_set(node.iter):
            text = "iteration over a set: use sorted(...) or dict.fromkeys(...)"
            yield Finding(source.path, node.iter.lineno, "order", text)


def check_handler(source: Source) -> Iterator[Finding]:
    """A handler module can be registered by its three names."""
    if not source.is_handler or source.is_package or source.tree is None:
        return
    names: set[str] = set()
    for node in source.tree.body:
        match node:
            case ast.Assign(targets=targets):
                names.update(_dotted(target) for target in targets)
            case ast.AnnAssign(target=target):
                names.add(_dotted(target))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ImportFrom(names=aliases):
                names.update(alias.asname or alias.name for alias in aliases)
            case _:
                pass
    if "handle_frame" in names:
        names.add("handle")
    for name in ("KEY", "VERSIONS", "handle"):
        if name not in names:
            yield Finding(source.path, 1, "handler", f"{name} is missing")


def check_gate(source: Source) -> Iterator[Finding]:
    """A handler gets topics and groups by way of the gate, which asks what the client may do."""
    if source.room != "kafka" or source.module == GATE or source.tree is None:
        return
    for node in ast.walk(source.tree):
        found = _tables_read(node) if isinstance(node, ast.Attribute) else ""
        if isinstance(node, ast.ImportFrom):
            found = next((name.name for name in node.names if name.name in GATED_NAMES), "")
        if found:
            text = f"{found} is for {GATE}: ask there"
            yield Finding(source.path, node.lineno, "gate", text)  # type: ignore[attr-defined]


def _tables_read(node: ast.Attribute) -> str:
    """Partitions are also what requests and images have: the broker's are meant."""
    is_own = node.attr == "partitions" and not _dotted(node).endswith("broker.partitions")
    return node.attr if node.attr in GATED_TABLES and not is_own else ""


def check_segment(source: Source) -> Iterator[Finding]:
    """Who reads a log asks for offsets and positions, and does not name its segments."""
    if source.room not in READING_ROOMS or source.tree is None:
        return
    for node in ast.walk(source.tree):
        for name in _names_in(node):
            if "segment" in name.lower():
                text = f"{name}: ask the log for what is wanted of its files"
                yield Finding(source.path, node.lineno, "segment", text)  # type: ignore[attr-defined]


def _names_in(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            yield name
        case ast.keyword(arg=str(name)):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ImportFrom(names=aliases, module=module):
            yield from (module or "", *(alias.name for alias in aliases))
        case _:
            return


def check_text(source: Source) -> Iterator[Finding]:
    """No leftovers, and nothing that is true on one machine only."""
    if source.path in OWN_FILES:
        return
    for number, line in enumerate(source.text.splitlines(), start=1):
        if found := MARKERS.search(line):
            yield Finding(source.path, number, "marker", f"{found[0]}: do it or open an issue")
        if found := PLACES.search(line):
            yield Finding(source.path, number, "place", f"{found[0]}: true on one machine only")


def check_aside(source: Source) -> Iterator[Finding]:
    """What stands beside src imports in one direction: no circle of packages."""
    package = source.path.partition("/")[0]
    if package not in NOT_IMPORTED_BY or not source.path.endswith(".py"):
        return
    for node in ast.walk(source.tree or ast.parse(source.text)):
        for top in sorted({name.partition(".")[0] for name in imported(node)}):
            if top in NOT_IMPORTED_BY[package]:
                text = f"{package} may not import {top}: what both need belongs into harness"
                yield Finding(source.path, node.lineno, "aside", text)  # type: ignore[attr-defined]


def check_top(source: Source) -> Iterator[Finding]:
    """What stands at the top is what a newcomer sees first."""
    if "/" not in source.path and source.path not in TOP_FILES:
        yield Finding(source.path, 1, "top", "it belongs into a folder, or not into the project")


RULES: Sequence[Rule] = (
    check_length,
    check_docstring,
    check_core,
    check_order,
    check_handler,
    check_gate,
    check_segment,
    check_text,
    check_aside,
    check_top,
)


def check_dead(sources: Sequence[Source], entry_points: frozenset[str]) -> Iterator[Finding]:
    """Find modules that nothing imports: they rot, since no caller shows when they break.

    Handlers are found by their place. Tests are no callers, except of the simulation room.
    """
    reached = set(entry_points)
    for source in sources:
        names = {
            name.rsplit(".", count)[0]
            for name in _modules_imported(source)
            for count in range(name.count(".") + 1)
        }
        inside = bool(source.module)
        reached |= {name for name in names if inside or name.startswith(SIMULATOR)} - {
            source.module
        }
    for source in sources:
        found_by_place = source.is_handler or source.is_package
        if source.room and not found_by_place and source.module not in reached:
            yield Finding(source.path, 1, "dead", "nothing imports it: use it or remove it")


def check_crowds(sources: Sequence[Source]) -> Iterator[Finding]:
    """Find packages that nobody can look over."""
    members = Counter[str]()
    for source in sources:
        if source.room and not source.is_package:
            members[source.path.rpartition("/")[0]] += 1
    for package, count in members.items():
        if count > PACKAGE_MODULES_MAX:
            text = f"{count} modules, at most {PACKAGE_MODULES_MAX}: make packages of them"
            yield Finding(package, 1, "crowd", text)


def check_short(sources: Sequence[Source]) -> Iterator[Finding]:
    """Find out whether functions are mostly as short as those of code that reads well."""
    trees = (source.tree for source in sources if source.tree and source.path.startswith("src/"))
    lengths = sorted(
        _lines_of_code(node)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    if len(lengths) < FUNCTIONS_MIN:
        return
    for percent, most in FUNCTION_LINES_USUAL.items():
        length = lengths[len(lengths) * percent // 100]
        if length > most:
            text = f"{percent} % of the functions have up to {length} lines, {most} are meant"
            yield Finding("src", 1, "short", f"{text}: split long ones")


def _lines_of_code(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is None:
        return lines
    docstring = function.body[0]
    return lines - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def _modules_imported(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree) if source.tree else ():
        yield from imported(node)
        # Entry points and data sources name modules as text.
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\bpenstock(?:\.\w+)+", node.value)


def imported(node: ast.AST) -> Iterator[str]:
    """Yield the modules that an import may name; what it takes of one may be a module, too."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return ""


def _is_set(node: ast.AST) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    return isinstance(node, ast.Call) and _dotted(node.func) in {"set", "frozenset"}


def read_sources(root: Path) -> list[Source]:
    """Return every text file of the project."""
    sources = []
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        hidden = any(part.startswith(".") and part != ".ci" for part in relative.parts[:-1])
        skipped = SKIPPED_DIRECTORIES & set(relative.parts)
        generated = any(part.endswith(".egg-info") for part in relative.parts)
        is_text = path.suffix in TEXT_SUFFIXES or path.name in TEXT_NAMES
        if hidden or skipped or generated or not is_text or not path.is_file():
            continue
        sources.append(read_source(relative.as_posix(), path.read_text(encoding="utf-8")))
    return sources


def read_source(path: str, text: str) -> Source:
    """Parse one file; `path` is relative to the project, with `/` between the parts."""
    tree, wrong = _parse(text) if path.endswith(".py") else (None, "")
    ours = path.startswith(("src/", f"{SIMULATOR}/")) and path.endswith(".py")
    module = name_of(path) if ours else ""
    return Source(path=path, text=text, module=module, tree=tree, syntax_error=wrong)


def name_of(path: str) -> str:
    """Return the dotted name of a module."""
    module = path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__")
    return module.replace("/", ".")


def _parse(text: str) -> tuple[ast.Module | None, str]:
    try:
        return ast.parse(text), ""
    except SyntaxError as error:
        return None, f"line {error.lineno}: {error.msg}"


def findings(sources: Sequence[Source]) -> list[Finding]:
    """Return everything that is wrong, in order of path and line."""
    wrong = [Finding(s.path, 1, "syntax", s.syntax_error) for s in sources if s.syntax_error]
    good = [source for source in sources if not source.syntax_error]
    own = [source if source.module else _outside(source) for source in good]
    found = [finding for source in own for rule in RULES for finding in rule(source)]
    found += check_dead(good, ENTRY_POINTS)
    return sorted([*wrong, *found, *check_crowds(good), *check_short(good)])


def _outside(source: Source) -> Source:
    """Beside src and tools only the rules about length, text and direction hold."""
    if source.path.startswith(("tests/", "benchmarks/", "reliability/", "harness/")):
        return Source(path=source.path, text=source.text)
    return source


def main(arguments: Sequence[str]) -> int:
    """Print what is wrong below the given directory; return the exit code."""
    root = Path(arguments[0]) if arguments else Path(__file__).parent.parent
    found = findings(read_sources(root))
    for finding in found:
        print(finding)
    print(f"tidy: {len(found)} findings" if found else "tidy: all in order")
    return 1 if found else 0


if __name__ == "__main__":
    end_with(lambda: main(sys.argv[1:]))
