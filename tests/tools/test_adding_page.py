"""What docs/adding.md tells to type in is typed into a copy of the repository, and works.

Each block of code of the first three examples has its place here, in the order of the page.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adding.md").read_text()
NEEDED = ("src", "simulator", "tests", "harness", "tools", "docs")
FILES = ("pyproject.toml", "ARCHITECTURE.md")


class Place(NamedTuple):
    """Where a block goes: a file of its own, in front of a line, or in place of one."""

    file: str
    before: str = ""
    instead_of: str = ""


SRC = "src/penstock"
CONTROLLER = f"{SRC}/controller"
METADATA = f"{CONTROLLER}/metadata"
COORDINATORS = f"{SRC}/node/coordinators"
KAFKA_API = [
    Place(f"{SRC}/protocol/api_keys.py", before="    STREAMS_GROUP_HEARTBEAT = "),
    Place(f"{SRC}/protocol/api_keys.py", before="    ApiKey.STREAMS_GROUP_HEARTBEAT: "),
    Place(f"{SRC}/kafka/handlers/cluster/remove_raft_voter.py"),
    Place("harness/advertised.py", before="    ApiKey.PUSH_TELEMETRY: "),
    Place(f"{SRC}/kafka/needs.py", before="    ApiKey.PUSH_TELEMETRY: "),
    Place("tests/kafka/gate_cases.py", before="]  # fmt: skip\n\n\n"),
    Place("tests/kafka/test_remove_raft_voter.py"),
]
METADATA_RECORD = [
    Place(f"{METADATA}/kinds.py", before="    REASSIGNMENT_CHANGED = "),
    Place(f"{METADATA}/levels.py", before="_BITS = "),
    Place(f"{METADATA}/levels.py", instead_of="METADATA_LEVELS = "),
    Place(f"{METADATA}/note_records.py"),
    Place(f"{METADATA}/config_records.py", before="    | CarriedRecord"),
    Place(f"{METADATA}/configuration.py", before="    carried: "),
    Place(f"{METADATA}/configuration.py", before="            (CONFIGURATION_LEVEL, self.carried"),
    Place(f"{METADATA}/replay_config.py", before="def _carried("),
    Place(f"{METADATA}/replay_config.py", before="    r.CarriedRecord: "),
    Place(f"{METADATA}/snapshot_config.py", before="    return [*found, *kept.carried"),
    Place(f"{CONTROLLER}/commands/notes.py"),
    Place(f"{CONTROLLER}/controller.py", before="    c.AllocateProducerIds: "),
    Place(f"{CONTROLLER}/commands/codec.py", before="        c.AllocateProducerIds,"),
    Place("tests/controller/test_record_codec.py", before="]\n_FIRST_OF_LEVEL_2"),
    Place("tests/controller/test_features.py", before="    of_give_ups,"),
    Place("tests/controller/test_notes.py"),
]
COORDINATOR_SHARD = [
    Place(f"{SRC}/counts/__init__.py"),
    Place(f"{SRC}/counts/shard.py", instead_of='"""A small kind of coordinator'),
    Place("pyproject.toml", instead_of='  "client | controller | '),
    Place("tools/tidy.py", instead_of='_CORE += " replication'),
    Place("ARCHITECTURE.md", before="| `transactions` | "),
    Place("ARCHITECTURE.md", before=" │   shares      "),
    Place("ARCHITECTURE.md", instead_of="- **The core does no I/O.** "),
    Place("tests/coordinator/test_counts.py"),
    Place(f"{COORDINATORS}/counts.py"),
    Place(f"{COORDINATORS}/starting.py", before="    tier = TierParts("),
    Place(f"{CONTROLLER}/commands/topic_names.py", before="        TIER_STATE_TOPIC,"),
]
EXAMPLES = {
    "A Kafka API": KAFKA_API,
    "A metadata record": METADATA_RECORD,
    "A coordinator shard": COORDINATOR_SHARD,
}
TESTS = [
    "tests/kafka/test_remove_raft_voter.py",
    "tests/kafka/test_registry.py",
    "tests/kafka/test_gate.py",
    "tests/controller/test_notes.py",
    "tests/controller/test_record_codec.py",
    "tests/controller/test_features.py",
    "tests/coordinator/test_counts.py",
    "tests/tools/test_architecture_page.py::test_every_room_is_on_the_page_and_every_one_on_the_page_exists",
    "tests/tools/test_architecture_page.py::test_the_picture_names_every_room_of_a_broker",
    "tests/tools/test_architecture_page.py::test_the_rules_name_the_rooms_of_the_core",
]


def blocks_of(section: str) -> list[tuple[str, str]]:
    """Each block of a section: its language, and its lines as they stand in a file."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = re.findall(r"^( *)```(\w+)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [
        (language, re.sub(f"^{margin}", "", lines, flags=re.MULTILINE))
        for margin, language, lines in found
    ]


def put(path: Path, place: Place, block: str) -> None:
    """Put a block where it belongs; `import` lines at its top go to the others of the file."""
    if not (place.before or place.instead_of):
        assert not path.exists()
        path.parent.mkdir(exist_ok=True)
        path.write_text(block)
        return
    imports = "".join(re.findall(r"^from penstock.*\n", block, re.MULTILINE))
    new, text = block.removeprefix(imports), path.read_text()
    at = text.find(f"\n{place.before or place.instead_of}") + 1
    assert at or text.startswith(place.instead_of), f"{place} is not in the file"
    end = text.index("\n", at) + 1 if place.instead_of else at
    gap = "\n\n" if new.startswith("def ") else ""
    text = text[:at] + new + gap + text[end:]
    path.write_text(text.replace("from penstock", f"{imports}from penstock", 1))


@pytest.fixture(scope="module")
def typed_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with all that the page tells to type in."""
    root = tmp_path_factory.mktemp("adding")
    for name in NEEDED:
        shutil.copytree(ROOT / name, root / name)
    for name in FILES:
        shutil.copy2(ROOT / name, root / name)
    for section, places in EXAMPLES.items():
        left = list(places)
        for language, block in blocks_of(section):
            if language == "sh" and block.startswith("cp "):
                subprocess.run(["sh", "-ec", block], cwd=root, check=True)
            elif language != "sh":
                place = left.pop(0)
                put(root / place.file, place, block)
        assert not left, f"{section} has fewer blocks than places"
    return root


def run(root: Path, *command: str) -> None:
    """Run a command of Python's in the copy, which has to succeed."""
    env = {**os.environ, "PYTHONPATH": str(root / "src")}
    done = subprocess.run(
        [sys.executable, *command], cwd=root, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.process
@pytest.mark.timeout(300)
def test_the_tests_of_what_was_typed_in_pass(typed_in: Path) -> None:
    run(typed_in, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS)


@pytest.mark.process
@pytest.mark.timeout(300)
def test_the_house_rules_are_kept_by_what_was_typed_in(typed_in: Path) -> None:
    files = {place.file for places in EXAMPLES.values() for place in places}
    modules = sorted(file for file in files if file.endswith(".py"))
    run(typed_in, "-m", "ruff", "check", "-q", "--fix", "--select", "I", *modules)
    run(typed_in, "-m", "ruff", "check", "-q", *modules)
    run(typed_in, "tools/tidy.py", ".")
    run(typed_in, "-c", "from importlinter.cli import lint_imports_command as go; go()")
