"""Links that say what was so once, or contradict: it is refused, and who believes it is told."""

import asyncio

import pytest

from penstock.replica.followed_set import FollowedSet, State
from penstock.replica.master_set import MasterSet
from penstock.replication.messages import Hello, Reason
from penstock.runtime.ha.server import ServedLink
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Fault, FaultKind, Plan, Shape

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet", "only_what_happens"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def fault(kind: FaultKind, at_ms: int, lasting_ms: int, target: str) -> Fault:
    return Fault(kind=kind, at_ms=at_ms, lasting_ms=lasting_ms, targets=(target,))


STALE = fault(FaultKind.STALE_WORDS, 100, 6_000, "*")
FAILOVERS = (
    fault(FaultKind.KILL, 600, 300, "master:0"),
    fault(FaultKind.KILL, 1_800, 300, "slave:0"),
    fault(FaultKind.KILL, 3_000, 300, "active"),
    fault(FaultKind.KILL, 4_200, 300, "master:0"),
)


def findings(seed: int, said: list[int] | None = None, *, is_apart: bool = False) -> list[str]:
    """Return what is told where every link says such things, over several failovers."""
    shape = Shape(partitions=1, producers=1, is_apart=is_apart)
    plan = Plan(seed=seed, shape=shape, settle_ms=300).with_faults((STALE, *FAILOVERS))

    async def note(run: Run) -> None:
        for _ in range(2):
            (said if said is not None else []).append(run.cluster.stale.said)
            await asyncio.sleep(0.3)

    return run_plan(plan, note).findings


@pytest.mark.parametrize("is_apart", [False, True])
def test_late_and_contradicting_frames_are_refused_and_every_promise_is_kept(
    is_apart: bool,
) -> None:
    for seed in range(2):
        said: list[int] = []
        assert findings(seed, said, is_apart=is_apart) == []
        assert said[0] == said[1] > 100, "and it is over when the fault is"


def test_a_master_that_greets_a_log_which_is_not_the_registered_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def anybody(self: ServedLink, hello: Hello, leading: MasterSet | None, newest: int) -> object:
        del self
        if leading is None or leading.leader_epoch != newest or hello.leader_epoch != newest:
            return Reason.NOT_MASTER
        return None

    monkeypatch.setattr(ServedLink, "_why_not", anybody)
    assert any("with a log that is not the registered one" in finding for finding in findings(0))


def test_a_slave_that_takes_frames_of_an_earlier_mastership(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take = FollowedSet.on_message

    def take_all(self: FollowedSet, message: object) -> None:
        if self.state is not State.CLOSED:
            take(self, message._replace(leader_epoch=self.leader_epoch))  # type: ignore[attr-defined]

    monkeypatch.setattr(FollowedSet, "on_message", take_all)
    assert any(findings(seed) for seed in range(8, 16))


def test_a_master_for_whom_a_late_greeting_ends_the_newer_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    greet = ServedLink._greet

    def end_first(self: ServedLink, hello: Hello) -> None:
        earlier = self._sessions.get(hello.replica_set_id)
        if earlier is not None:
            self._end(earlier)
        greet(self, hello)

    monkeypatch.setattr(ServedLink, "_greet", end_first)
    signs = ("in step", "as connected: False")
    assert any(sign in finding for seed in range(8) for finding in findings(seed) for sign in signs)
