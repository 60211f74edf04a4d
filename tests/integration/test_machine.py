"""`penstock serve`: nodes of one machine die, are restarted in turn, and end together."""

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from harness import served_machine
from harness.served_machine import PENSTOCK
from harness.waiting import UNTIL_SECONDS, signal_until_it_ends, wait_until
from harness.workload import Load, Workload, create_topic
from penstock.cli.machine.plan import PORT_STEP
from tests.integration.clients import acked, send
from tests.integration.layouts import FAST

pytestmark = pytest.mark.process

WAIT_SECONDS = UNTIL_SECONDS
ROLLS_MAX = 20
UNWELL = (
    "stopped: not begun, since these nodes are not healthy",
    "stopped: not begun, since nodes are still starting",
)
SETTINGS: Mapping[str, Mapping[str, object]] = {**FAST, "log": {"segment_bytes": 1 << 20}}


class Machine(served_machine.Machine):
    """A machine that gives brokers up soon, and takes little space."""

    def __init__(self, directory: Path, *, nodes: int = 2, voters: int = 1) -> None:
        super().__init__(directory, nodes=nodes, voters=voters, more=SETTINGS)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with Machine(tmp_path_factory.mktemp("machine")) as machine:
        yield machine.start()
        assert machine.stop() == 0, machine.errors


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def until(condition: object) -> None:
    assert wait_until(condition, WAIT_SECONDS)  # type: ignore[arg-type]


def rolled(machine: Machine) -> str:
    """Ask for a rolling restart and wait for its end; return how it ended.

    None is begun while a node does not answer soon that it is well: it is asked for again then.
    """
    ends: list[str] = []

    def is_over() -> bool:
        nonlocal ends
        ends = re.findall(r"penstock: rolling restart: ((?:done|stopped).*)\n", machine.errors)
        return len(ends) > seen

    for _ in range(ROLLS_MAX):
        seen = len(re.findall(r"penstock: rolling restart: (?:done|stopped)", machine.errors))
        machine.signal(signal.SIGHUP)
        assert wait_until(is_over, 4 * WAIT_SECONDS), machine.errors
        if not ends[-1].startswith(UNWELL):
            break
    return ends[-1]


def test_one_page_has_the_metrics_of_all_nodes(machine: Machine) -> None:
    own = machine.page("/metrics", broker_id=2)[1]
    families = {line.split()[2] for line in own.splitlines() if line.startswith("# TYPE")}
    text = ""

    def is_complete() -> bool:
        """A node that does not answer soon is left out, and so is all that it says."""
        nonlocal text
        status, text = machine.page("/metrics")
        return status == 200 and all(
            f'penstock_node_up{{node="{node}"}} 1.0' in text for node in ("1", "2")
        )

    until(is_complete)
    for family in families:
        assert text.count(f"# TYPE {family} ") == 1, family
    for node in ("1", "2"):
        assert f'penstock_brokers{{node="{node}"}} 2.0' in text
    until(lambda: machine.page("/ready")[0] == 200)


def test_a_killed_node_comes_back_while_the_others_go_on(machine: Machine) -> None:
    create_topic(machine.bootstrap, "kept", 2)
    killed, other = machine.pid(2), machine.pid(1)
    os.kill(killed, signal.SIGKILL)
    until(lambda: machine.health()["wrong"] == [2] or machine.pid(2) not in {0, killed})
    until(lambda: machine.pid(2) not in {0, killed})
    until(lambda: machine.page("/ready")[0] == 200)
    assert machine.pid(1) == other
    assert "node 2 was ended by SIGKILL; the others go on, it is started again in 1 s" in (
        machine.errors
    )
    assert 'penstock_node_starts_total{node="2"} 2.0' in machine.page("/metrics")[1]
    until(lambda: len(acked(send(machine.bootstrap, "kept", [b"one"]))) == 1)


def test_a_rolling_restart_with_settings_that_are_wrong_is_not_begun(machine: Machine) -> None:
    until(lambda: machine.page("/ready")[0] == 200)
    pids = [machine.pid(1), machine.pid(2)]
    good = machine.config.read_text()
    for bad, message in (
        (good + "\n[broker]\nno_such = 1\n", "unknown setting broker.no_such"),
        (
            good.replace("broker_id = 1\n", "broker_id = 2\n"),
            "not begun, since ids of nodes and data directories would change",
        ),
    ):
        machine.config.write_text(bad)
        state = rolled(machine)
        assert message in state, (state, machine.health())
        assert machine.health()["rolling"] == state
    machine.config.write_text(good)
    assert [machine.pid(1), machine.pid(2)] == pids


def test_a_rolling_restart_brings_new_settings_to_all_and_loses_nothing(tmp_path: Path) -> None:
    with Machine(tmp_path, nodes=3, voters=3) as machine:
        machine.start()
        pids = [machine.pid(one) for one in (1, 2, 3)]
        work = Workload(machine.bootstrap, Load(records_per_second=100, socket_timeout_ms=3000))
        work.start()
        assert work.wait_for(100)
        machine.settings["node"]["rack"] = "new"
        machine.write()
        assert rolled(machine) == "done", machine.errors
        assert work.wait_for(work.acked + 100)
        report = work.finish()
        assert report.is_clean(), report
        assert work.fatal_errors == []
        assert not set(pids) & {machine.pid(one) for one in (1, 2, 3)}
        cluster = json.loads(machine.page("/cluster", broker_id=3)[1])
        assert [one["rack"] for one in cluster["brokers"]] == ["new"] * 3
        assert machine.stop() == 0, machine.errors


def test_nodes_end_cleanly_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine:
        machine.start()
        pids = [machine.pid(1), machine.pid(2)]
        told = len(machine.errors)
        machine.signal(signal.SIGKILL)
        until(lambda: not any(map(is_alive, pids)))
        for node in (1, 2):
            farewell = rf" node={node} .*: stopped id={node}"
            assert re.search(farewell, machine.errors[told:]), "it was killed as well"
        assert machine.process is not None
        machine.process.wait(WAIT_SECONDS)
        told = len(machine.errors)
        machine.start()
        recovered = [line for line in machine.errors[told:].splitlines() if "recovery set" in line]
        assert recovered
        assert all("cut=0" in line for line in recovered)
        assert machine.stop() == 0, machine.errors


def test_a_node_that_can_not_start_is_tried_again_and_named(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine:
        stranger = machine.data / "node-2" / "somebody's file"
        stranger.parent.mkdir()
        stranger.write_text("")
        machine.start(is_ready=False)
        until(lambda: "node 2 ended with exit code 2 (2 times in a row)" in machine.errors)
        until(lambda: machine.health()["wrong"] == [2])  # the other one answers now and then late
        assert 'penstock_node_up{node="2"} 0.0' in machine.page("/metrics")[1]
        stranger.unlink()
        machine.wait_ready()
        assert machine.page("/health")[0] == 200
        assert machine.stop() == 0, machine.errors


def test_nodes_that_can_all_never_start_end_the_supervisor(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine:
        for one in (1, 2):
            (machine.data / f"node-{one}").mkdir()
            (machine.data / f"node-{one}" / "somebody's file").write_text("")
        machine.start(is_ready=False)
        assert machine.process is not None
        assert machine.process.wait(WAIT_SECONDS) == 2
        assert "holds files that are not Penstock's" in machine.errors


def test_what_is_wrong_is_told_before_anything_is_started(tmp_path: Path) -> None:
    import socket

    machine = Machine(tmp_path)
    with socket.create_server(("127.0.0.1", machine.port + PORT_STEP + 2)):
        line = machine.refused()
        assert line.startswith(f"penstock: node 2: 127.0.0.1:{machine.port + PORT_STEP + 2} can")
    many = len(os.sched_getaffinity(0)) + 1
    line = machine.refused("--pin", "--nodes", str(many))
    assert line == f"penstock: --pin: {many} nodes need a core each, and there are {many - 1}"
    assert "choose auto, or 1 to 64" in machine.refused("--nodes", "none")
    assert list(machine.data.iterdir()) == []


def test_each_node_has_a_core_and_ends_when_told_twice_at_once(tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one core")
    with Machine(tmp_path) as machine:
        machine.start("--pin")
        for node, core in zip((1, 2), cores, strict=False):
            for task in Path(f"/proc/{machine.pid(node)}/task").iterdir():
                with contextlib.suppress(ProcessLookupError):  # a thread that has ended
                    assert os.sched_getaffinity(int(task.name)) == {core}
        machine.signal(signal.SIGTERM)
        time.sleep(0.1)
        assert machine.stop() == 0, machine.errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_supervisor_that_ends_is_not_ended_by_one_more_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Its last moments count as well: a loop that closes gives signals their default back."""
    with Machine(tmp_path, nodes=1) as machine:
        machine.start()
        assert machine.process is not None
        machine.signal(signal.SIGTERM)
        assert signal_until_it_ends(machine.process, number, WAIT_SECONDS) == 0, machine.errors


def has_begun(machine: Machine) -> bool:
    """Whether SIGHUP does not end the process any more: that takes Python a moment."""
    assert machine.process is not None
    status = Path(f"/proc/{machine.process.pid}/status").read_text()
    masks = re.findall(r"Sig(?:Ign|Cgt):\t([0-9a-f]+)", status)
    return any(int(mask, 16) >> (signal.SIGHUP - 1) & 1 for mask in masks)


MOMENTS: Mapping[str, Callable[[Machine], object]] = {
    "it has begun": has_begun,
    "a node is there": lambda machine: machine.pid(1) or machine.pid(2),
    "all nodes are there": lambda machine: machine.pid(1) and machine.pid(2),
    "a node says something": lambda machine: "recovery" in machine.errors,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_sigterm_while_nodes_start_ends_all_of_them(tmp_path: Path, moment: str) -> None:
    with Machine(tmp_path) as machine:
        machine.start(is_ready=False)
        until(lambda: MOMENTS[moment](machine))
        assert machine.stop() in {0, -signal.SIGTERM}, machine.errors
        assert [machine.pid(one) for one in (1, 2)] == [0, 0]
        assert "Traceback" not in machine.errors
        machine.start()
        assert machine.stop() == 0, machine.errors


def test_sighup_all_the_time_while_nodes_start_ends_none_of_them(tmp_path: Path) -> None:
    """A service manager may ask for a reload when it likes."""
    with Machine(tmp_path) as machine:
        machine.start(is_ready=False)
        until(lambda: has_begun(machine))

        def is_ready() -> bool:
            machine.signal(signal.SIGHUP)
            return "rolling restart: node 1" in machine.errors

        until(is_ready)
        machine.wait_ready()
        assert machine.stop() == 0, machine.errors
        assert "Traceback" not in machine.errors


def test_a_node_whose_supervisor_died_before_it_began_ends(tmp_path: Path) -> None:
    import subprocess

    machine = Machine(tmp_path, nodes=1)
    machine.write()
    command = [*PENSTOCK, "node", "--config", str(machine.config), "--supervised-by", "1"]
    done = subprocess.run(command, capture_output=True, timeout=WAIT_SECONDS, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
