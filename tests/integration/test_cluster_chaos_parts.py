"""The parts of a chaos run that need no cluster: the switch, shapes of cuts, silences, sums."""

import json
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reliability.chaos import main, rounds_of
from reliability.faults import chaos_network, chaos_totals
from reliability.faults.chaos import Outcome, Struck
from reliability.faults.chaos_recovery import Window, longest_silence
from reliability.faults.chaos_report import write_report
from reliability.faults.chaos_scenarios import SCENARIOS, Layout, Scenario
from reliability.faults.hosts import Hosts
from reliability.faults.switch import Switch
from simulator.history import Report

BODY = bytes(60)


def frame(source: int, target: int, text: bytes = b"") -> bytes:
    head = bytes([2, 0, 0, 0, 0, target, 2, 0, 0, 0, 0, source, 8, 0])
    return head + text + BODY


class Ports:
    """Three ports of a switch; what a host sends goes in, what it got comes out."""

    def __init__(self, seed: int) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(3)]
        self.hosts = [host for host, _ in pairs]
        self.inner = [inner for _, inner in pairs]
        for one in (*self.hosts, *self.inner):
            one.setblocking(False)
        handles = [inner.fileno() for inner in self.inner]
        self.switch = Switch(handles, random.Random(seed))

    def send(self, source: int, target: int, text: bytes = b"") -> None:
        self.hosts[source].send(frame(source, target, text))
        self.switch.take(source)

    def got(self, port: int) -> list[bytes]:
        found = []
        while True:
            try:
                found.append(os.read(self.hosts[port].fileno(), 9000))
            except BlockingIOError:
                return found

    def close(self) -> None:
        for one in (*self.hosts, *self.inner):
            one.close()


@pytest.fixture
def ports() -> Iterator[Ports]:
    made = Ports(1)
    yield made
    made.close()


def test_a_frame_reaches_the_port_that_it_is_for(ports: Ports) -> None:
    ports.send(0, 2, b"x")
    assert ports.got(2) == [frame(0, 2, b"x")]
    assert ports.got(1) == []


def test_a_frame_to_everybody_reaches_nobody(ports: Ports) -> None:
    ports.hosts[0].send(b"\xff" * 6 + frame(0, 0)[6:])
    ports.switch.take(0)
    assert [ports.got(port) for port in range(3)] == [[], [], []]


def test_a_cut_of_one_direction_leaves_the_other(ports: Ports) -> None:
    ports.switch.obey([(0, 1, {"loss": 1.0})])
    ports.send(0, 1)
    ports.send(1, 0)
    assert ports.got(1) == []
    assert len(ports.got(0)) == 1
    assert ports.switch.obey([]) == 1
    ports.send(0, 1)
    assert len(ports.got(1)) == 1


def delivered(seed: int, loss: float) -> list[int]:
    ports = Ports(seed)
    ports.switch.obey([(0, 1, {"loss": loss})])
    found = []
    for number in range(1000):
        ports.send(0, 1)
        if ports.got(1):
            found.append(number)
    ports.close()
    return found


def test_the_loss_is_what_was_asked_for_and_a_seed_names_the_frames() -> None:
    first = delivered(3, 0.8)
    assert 150 < len(first) < 250
    assert delivered(3, 0.8) == first
    assert delivered(4, 0.8) != first


def test_a_frame_that_is_held_up_leaves_when_it_is_due(ports: Ports) -> None:
    ports.switch.obey([(0, 1, {"delay": 3600.0}), (0, 2, {"delay": -1.0})])
    ports.send(0, 1)
    ports.send(0, 2)
    assert 3590 < ports.switch.put_due() <= 3600
    assert ports.got(1) == []
    assert len(ports.got(2)) == 1
    assert ports.switch.obey(None) == 2


class FakeStage:
    """What a shape of cuts asks of a stage."""

    def __init__(self, seed: int, ids: range) -> None:
        self.chooser = random.Random(seed)
        self.hosts = Hosts([f"host{one}" for one in ids], seed=seed)

    def one(self, ids: Any) -> int:
        return self.chooser.choice(sorted(ids))


def heard(made: chaos_network.Broken, count: int) -> dict[int, set[int]]:
    """Return whom each host still hears, itself included; ids are port numbers here."""
    cut = set(made.links)
    hosts = range(1, count + 1)
    return {host: {other for other in hosts if (other, host) not in cut} for host in hosts}


@pytest.mark.parametrize("count", [3, 5, 6])
@pytest.mark.parametrize("seed", range(20))
def test_in_a_ring_every_host_hears_a_majority_and_no_two_the_same(seed: int, count: int) -> None:
    ids = range(1, count + 1)
    found = heard(chaos_network.ring(FakeStage(seed, ids), ids), count)  # type: ignore[arg-type]
    assert all(len(each) == count // 2 + 1 for each in found.values())
    assert len({frozenset(each) for each in found.values()}) == count


@pytest.mark.parametrize("count", [3, 6])
def test_at_a_bridge_one_host_hears_all_and_the_halves_only_it(count: int) -> None:
    ids = range(1, count + 1)
    found = heard(chaos_network.bridge(FakeStage(1, ids), ids), count)  # type: ignore[arg-type]
    bridges = [one for one, each in found.items() if len(each) == count]
    assert len(bridges) == 1
    for one, each in found.items():
        assert bridges[0] in each
        assert one in bridges or len(each) <= (count - 1) // 2 + 2


@pytest.mark.parametrize("seed", range(20))
def test_a_partition_leaves_two_groups_that_do_not_hear_each_other(seed: int) -> None:
    ids = range(1, 7)
    found = heard(chaos_network.partition(FakeStage(seed, ids), ids), 6)  # type: ignore[arg-type]
    groups = {frozenset(each) for each in found.values()}
    assert len(groups) == 2
    assert sum(map(len, groups)) == 6


def test_the_longest_silence_is_the_one_that_touches_the_window() -> None:
    second = 1_000_000_000
    acks = [at * second for at in (0, 5, 6, 10, 11, 20)]
    assert longest_silence(acks, Window(7 * second, 8 * second)) == 4.0
    assert longest_silence(acks, Window(7 * second, 8 * second, 9 * second)) == 1.0
    assert longest_silence(acks, Window(6 * second, 12 * second)) == 9.0
    assert longest_silence(acks, Window(25 * second, 27 * second)) == 7.0
    assert longest_silence([9 * second], Window(2 * second, 5 * second)) == 7.0
    assert longest_silence([], Window(2 * second, 5 * second)) == 3.0


def finished(name: str, seconds: float, problems: list[str]) -> Outcome:
    """Return a round with one fault."""
    fault = Struck(
        scenario=SCENARIOS[name],
        victims="<somebody>",
        begun_ns=1,
        healed_ns=2,
        whole_ns=3,
        recovery={"one": seconds, "other": seconds / 2},
    )
    outcome = Outcome(layout=Layout.APART, seed="5-0", faults=[fault], problems=problems)
    outcome.report, outcome.seconds = Report(10, 9, 9, ()), 2.0
    return outcome


def test_results_are_added_up_over_runs_and_broken_ones_stay_in_them(tmp_path: Path) -> None:
    file = tmp_path / "chaos.json"
    chaos_totals.add(file, finished("ring", 0.5, []), goal="all")
    chaos_totals.add(file, finished("ring", 1.5, ["something"]), goal="all")
    chaos_totals.add(file, finished("bridge", 0.1, []), goal="all")
    found = json.loads(file.read_text())
    assert found["totals"]["faults"] == 3
    assert found["totals"]["acknowledged"] == 27
    assert found["totals"]["broken rounds"] == 1
    counts = {row["scenario"]: (row["row"], row["faults"], row["max"]) for row in found["rows"]}
    assert counts == {"ring": ("C-13", 2, 1.5), "bridge": ("C-14", 1, 0.1)}
    assert len(found["faults"]) == 3


def test_the_page_shows_faults_and_broken_promises_as_text(tmp_path: Path) -> None:
    outcome = finished("ring", 0.5, ["lost <this>"])
    write_report(tmp_path, [outcome], head={"seed": "5"}, goal="all")
    page = (tmp_path / "report.html").read_text()
    assert "lost &lt;this&gt;" in page
    assert "C-13 ring: &lt;somebody&gt;" in page
    assert json.loads((tmp_path / "report.json").read_text())["rounds"][0]["verdict"] == "broken"


@pytest.mark.parametrize("faults", [1, 7, 60, 720])
def test_rounds_have_as_many_faults_as_asked_for_and_all_scenarios_alike(faults: int) -> None:
    drawn = list(rounds_of(list(SCENARIOS.values()), faults, seed="1", layout=None))
    assert sum(len(kinds) for _, kinds in drawn) == faults
    assert all(layout in kind.layouts for layout, kinds in drawn for kind in kinds)
    for layout in Layout:
        kinds: list[Scenario] = [one for at, some in drawn for one in some if at is layout]
        counts = [kinds.count(one) for one in SCENARIOS.values() if layout in one.layouts]
        assert max(counts) - min(counts) <= 1


def test_every_published_row_has_a_scenario() -> None:
    rows = {one.row for one in SCENARIOS.values()}
    assert {f"C-{number}" for number in range(1, 15)} <= rows


def test_a_kind_that_is_not_there_is_refused_with_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--kinds", "rings"])
    said = capsys.readouterr().err
    assert "no such kind: rings" in said
    assert "bridge" in said
