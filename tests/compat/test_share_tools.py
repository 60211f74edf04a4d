"""Kafka's own tools for share groups, and with them the Java client: of a preview, and of today.

The older ones speak the first versions of ShareFetch and ShareAcknowledge, the newer ones the
second. All of it is asked of Kafka as well.
"""

import json

import pytest

from tests.compat.conftest import SHARES_PROJECT
from tests.compat.java_tools import tool
from tests.compat.test_share_groups import Member, write

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]
PROJECTS = pytest.mark.parametrize("project", ["kafka-tools", SHARES_PROJECT])
RECORDS = 40


def values(prefix: str = "v") -> list[str]:
    return [f"{prefix}{number}" for number in range(RECORDS)]


def read(at: str, group: str, count: int, *options: str, project: str) -> list[str]:
    """Return what the console consumer of a share group prints, sorted."""
    printed = tool(
        "kafka-console-share-consumer", "--bootstrap-server", at, "--topic", group,
        "--group", group, "--max-messages", str(count), "--timeout-ms", "20000", *options,
        project=project,
    )  # fmt: skip
    return sorted(line for line in printed.splitlines() if line in {*values(), *values("w")})


@PROJECTS
def test_the_console_consumer_of_a_share_group_reads_and_accepts(
    at: str, shared: str, project: str
) -> None:
    write(at, shared, *values())
    assert read(at, shared, RECORDS, project=project) == sorted(values())
    write(at, shared, *values("w"))
    assert read(at, shared, RECORDS, project=project) == sorted(values("w"))


@PROJECTS
def test_what_the_console_consumer_releases_comes_again_and_what_it_rejects_does_not(
    at: str, shared: str, project: str
) -> None:
    write(at, shared, *values())
    assert read(at, shared, RECORDS, "--release", project=project) == sorted(values())
    assert read(at, shared, RECORDS, "--reject", project=project) == sorted(values())
    write(at, shared, *values("w"))
    assert read(at, shared, RECORDS, project=project) == sorted(values("w"))


@PROJECTS
@pytest.mark.parametrize("mode", ["auto", "sync", "async"])
def test_the_verifiable_share_consumer_accepts_each_record_once(
    at: str, shared: str, project: str, mode: str
) -> None:
    write(at, shared, *values())
    printed = tool(
        "kafka-verifiable-share-consumer", "--bootstrap-server", at, "--topic", shared,
        "--group-id", shared, "--max-messages", str(RECORDS), "--acknowledgement-mode", mode,
        project=project,
    )  # fmt: skip
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    taken = [one["count"] for one in events if one["name"] == "records_consumed"]
    assert sum(taken) == RECORDS, events
    told = [one for one in events if one["name"] == "offsets_acknowledged"]
    assert all(one["success"] for one in told), told
    write(at, shared, "last")
    with Member(at, shared) as member:
        member.accept_until("last")
        assert member.counts == {"last": 1}


def test_a_share_group_is_listed_described_reset_and_deleted(at: str, shared: str) -> None:
    """The older tool knows no reset."""
    project = SHARES_PROJECT

    def groups(*arguments: str) -> str:
        return tool("kafka-share-groups", "--bootstrap-server", at, *arguments, project=project)

    write(at, shared, *values())
    with Member(at, shared) as member:
        member.accept_until(*values())
        members = groups("--describe", "--group", shared, "--members")
        assert member.counts.total() == RECORDS
        assert shared in members
        assert "Stable" in groups("--describe", "--group", shared, "--state")
    assert shared in groups("--list").split()
    described = groups("--describe", "--group", shared, "--offsets")
    rows = [line.split() for line in described.splitlines() if line.startswith(shared)]
    # Kafka tells the start that was written last, which is behind what was accepted just now.
    assert {row[2] for row in rows} == {"0", "1"}, described
    groups("--reset-offsets", "--to-earliest", "--execute", "--topic", shared, "--group", shared)
    assert read(at, shared, RECORDS, project=project) == sorted(values())
    groups("--delete-offsets", "--group", shared, "--topic", shared)
    groups("--delete", "--group", shared)
    assert shared not in groups("--list").split()


@PROJECTS
def test_the_performance_tool_reads_a_share_group(at: str, shared: str, project: str) -> None:
    write(at, shared, *values())
    printed = tool(
        "kafka-share-consumer-perf-test", "--bootstrap-server", at, "--topic", shared,
        "--group", shared, "--messages", str(RECORDS), "--timeout", "30000",
        project=project,
    )  # fmt: skip
    assert f" {RECORDS}," in printed, printed
