"""The metadata of the tier: what it refuses, what it repeats, what it deletes and when."""

import pytest

from penstock.base.errors import ConfigError
from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.extents.layout import Entry
from penstock.tier.metadata.commands import (
    Adopt,
    Answer,
    Commit,
    Committed,
    Done,
    Expected,
    Fence,
    Fenced,
    Manifests,
    Read,
    Reason,
    Refused,
    Reserve,
    Reserved,
    Swept,
    Tenure,
    Tick,
    Written,
)
from penstock.tier.metadata.manifest import EventGroup, Kind, Run
from penstock.tier.metadata.objects import Due, State
from penstock.tier.metadata.state import RESERVED_MAX, TierMetadata
from penstock.tier.metadata.times import TierTimes
from penstock.tier.names import ObjectName
from tests.extents.files import CLUSTER, SET, key

TIMES = TierTimes(upload_ms=100, skew_ms=50, lease_ms=200, grace_ms=300)
ONE, TWO = key(1, 0), key(1, 1)


class Service:
    """The metadata, its time, and one set's master."""

    def __init__(self) -> None:
        self.metadata = TierMetadata(CLUSTER, TIMES)
        self.now_ms = 1000
        self.tenure = self.fence(1)
        self.request_id = 0

    def fence(self, leader_epoch: int, nonce: bytes = b"n") -> Tenure:
        answer = self.apply(Fence(SET, LeaderEpoch(leader_epoch), nonce))
        assert isinstance(answer, Fenced)
        self.request_id = 0
        return answer.tenure

    def apply(self, command: object) -> Answer:
        return self.metadata.apply(command, self.now_ms)  # type: ignore[arg-type]

    def pass_ms(self, ms: int) -> None:
        self.now_ms += ms
        self.apply(Tick())

    def request(self) -> int:
        self.request_id += 1
        return self.request_id

    def reserve(self, count: int = 1) -> tuple[int, ...]:
        answer = self.apply(Reserve(self.tenure, self.request(), count))
        assert isinstance(answer, Reserved)
        return answer.object_ids

    def name(self, object_id: int) -> ObjectName:
        return ObjectName(CLUSTER, SET, self.tenure.leader_epoch, object_id)

    def run(
        self,
        object_id: int,
        first: int,
        end: int,
        *,
        of: TopicPartition = ONE,
        generation: int = 0,
    ) -> Run:
        entry = Entry(*of, generation, first, end, *[0] * 11)
        return Run(self.name(object_id), entry, ((1, first),), end)

    def event(self, kind: Kind, *runs: Run, offset: int = -1, of: TopicPartition = ONE) -> Expected:
        last = self.metadata.manifest(of).last_event_id
        return Expected(last, EventGroup(kind, of, runs, offset))

    def commit(self, *events: Expected, tenure: Tenure | None = None) -> Answer:
        ids = dict.fromkeys(run.name.object_id for _, group in events for run in group.runs)
        written = tuple(Written(one, 10) for one in ids)
        return self.apply(Commit(tenure or self.tenure, self.request(), written, events))

    def copy(self, first: int, end: int, *, of: TopicPartition = ONE) -> int:
        (object_id,) = self.reserve()
        run = self.run(object_id, first, end, of=of)
        assert self.commit(self.event(Kind.COPY, run, of=of)) == Committed()
        return object_id

    def state(self, object_id: int) -> State | None:
        row = self.metadata.objects.rows.get(object_id)
        return None if row is None else row.state

    def sweep(self) -> list[Due]:
        """Delete all that is due; return what that was."""
        due = self.metadata.due()
        for name, due_ms in due:
            self.apply(Swept(name.object_id, due_ms))
        return due

    def ranges(self, of: TopicPartition = ONE) -> list[tuple[int, int]]:
        runs = self.metadata.manifest(of).runs
        return [(run.first_offset, run.end_offset) for run in runs]


@pytest.fixture
def service() -> Service:
    return Service()


def test_one_commit_has_objects_of_many_partitions(service: Service) -> None:
    first, second = service.reserve(2)
    events = [
        service.event(Kind.COPY, service.run(first, 0, 5), service.run(second, 5, 9)),
        service.event(Kind.COPY, service.run(second, 3, 4, of=TWO), of=TWO),
    ]
    assert service.commit(*events) == Committed()
    assert service.ranges() == [(0, 5), (5, 9)]
    assert service.ranges(TWO) == [(3, 4)]
    assert service.metadata.objects.rows[second].live_runs == 2


def test_a_commit_is_done_whole_or_not_at_all(service: Service) -> None:
    first, second = service.reserve(2)
    good = service.event(Kind.COPY, service.run(first, 0, 5))
    bad = service.event(Kind.COPY, service.run(second, 8, 6, of=TWO), of=TWO)
    assert service.commit(good, bad) == Refused(Reason.DOES_NOT_FOLLOW)
    assert service.ranges() == []
    assert service.state(first) is State.RESERVED


def test_a_partition_has_one_event_in_a_commit(service: Service) -> None:
    first, second = service.reserve(2)
    events = [service.event(Kind.COPY, service.run(one, 0, 5)) for one in (first, second)]
    assert service.commit(*events) == Refused(Reason.DOES_NOT_FOLLOW)


def test_an_older_tenure_is_refused_whatever_it_wants(service: Service) -> None:
    old = service.tenure
    (object_id,) = service.reserve()
    run = service.run(object_id, 0, 5)
    service.tenure = service.fence(2)
    assert service.commit(service.event(Kind.COPY, run), tenure=old) == Refused(Reason.FENCED)
    assert service.apply(Reserve(old, 9, 1)) == Refused(Reason.FENCED)
    assert service.apply(Fence(SET, LeaderEpoch(1), b"again")) == Refused(Reason.FENCED)


def test_a_set_without_a_fence_writes_nothing(service: Service) -> None:
    assert service.apply(Reserve(Tenure(SET + 1, LeaderEpoch(1), 1), 1, 1)) == Refused(
        Reason.FENCED
    )


def test_a_fence_that_is_sent_again_gives_the_same_tenure(service: Service) -> None:
    assert service.fence(1) == service.tenure
    (object_id,) = service.reserve()
    assert service.fence(1) == service.tenure
    assert service.state(object_id) is State.RESERVED


def test_a_master_that_resumes_under_its_epoch_has_a_tenure_of_its_own(service: Service) -> None:
    old = service.tenure
    service.tenure = service.fence(1, b"another process")
    assert service.tenure != old
    assert service.apply(Reserve(old, 1, 1)) == Refused(Reason.FENCED)


def test_a_fence_ends_what_its_set_has_reserved_and_no_other(service: Service) -> None:
    other = service.apply(Fence(SET + 1, LeaderEpoch(1), b"n"))
    assert isinstance(other, Fenced)
    answer = service.apply(Reserve(other.tenure, 1, 1))
    assert isinstance(answer, Reserved)
    (own,) = service.reserve()
    service.fence(2)
    assert service.state(own) is State.ABORTED
    assert service.state(answer.object_ids[0]) is State.RESERVED


def test_a_request_that_is_sent_again_is_answered_as_before(service: Service) -> None:
    first = service.apply(Reserve(service.tenure, 1, 2))
    assert service.apply(Reserve(service.tenure, 1, 2)) == first
    assert service.apply(Reserve(service.tenure, 2, 1)) == Reserved((3,))
    assert service.apply(Reserve(service.tenure, 1, 2)) == Refused(Reason.REPEATED)


def test_a_commit_that_is_sent_again_is_not_done_twice(service: Service) -> None:
    (object_id,) = service.reserve()
    event = service.event(Kind.COPY, service.run(object_id, 0, 5))
    commit = Commit(service.tenure, 7, (Written(object_id, 10),), (event,))
    assert service.apply(commit) == service.apply(commit) == Committed()
    assert service.ranges() == [(0, 5)]
    assert service.metadata.manifest(ONE).last_event_id == 1


def test_an_event_on_a_stale_manifest_is_refused(service: Service) -> None:
    """Also one that would follow: its writer does not know what it follows."""
    stale = service.event(Kind.DELETE, offset=2)
    service.copy(0, 5)
    assert service.commit(stale) == Refused(Reason.STALE)


@pytest.mark.parametrize("count", [0, 1, RESERVED_MAX + 7])
def test_ids_are_given_out_once(service: Service, count: int) -> None:
    ids = service.reserve(count) + service.reserve(2)
    assert len(ids) == min(count, RESERVED_MAX) + 2
    assert len(set(ids)) == len(ids)


def test_an_object_that_is_not_reserved_is_not_committed(service: Service) -> None:
    event = service.event(Kind.COPY, service.run(77, 0, 5))
    assert service.commit(event) == Refused(Reason.UNKNOWN_OBJECT)
    other = service.copy(0, 5)
    event = service.event(Kind.COPY, service.run(other, 5, 6))
    assert service.commit(event) == Refused(Reason.UNKNOWN_OBJECT)


def test_runs_are_in_the_objects_of_their_commit(service: Service) -> None:
    first, second = service.reserve(2)
    event = service.event(Kind.COPY, service.run(first, 0, 5))
    for written in ((), (Written(first, 1), Written(second, 1)), (Written(second, 1),)):
        answer = service.apply(Commit(service.tenure, service.request(), written, (event,)))
        assert answer == Refused(Reason.UNKNOWN_OBJECT)


def test_a_run_under_the_name_of_another_set_is_refused(service: Service) -> None:
    (object_id,) = service.reserve()
    run = service.run(object_id, 0, 5)
    stranger = run._replace(name=run.name._replace(replica_set_id=SET + 1))
    assert service.commit(service.event(Kind.COPY, stranger)) == Refused(Reason.UNKNOWN_OBJECT)


def test_what_is_not_committed_by_its_deadline_is_refused_and_deleted_twice(
    service: Service,
) -> None:
    (object_id,) = service.reserve()
    service.pass_ms(99)
    assert service.state(object_id) is State.RESERVED
    service.now_ms += 1
    event = service.event(Kind.COPY, service.run(object_id, 0, 5))
    assert service.commit(event) == Refused(Reason.UNKNOWN_OBJECT)
    assert service.sweep() == [Due(service.name(object_id), 1100)]
    assert service.sweep() == []
    service.pass_ms(49)
    assert service.sweep() == []
    service.pass_ms(1)
    assert service.sweep() == [Due(service.name(object_id), 1150)]
    assert service.state(object_id) is None
    service.pass_ms(10_000)
    assert service.sweep() == []


def test_a_sweep_counts_for_what_was_due_when_it_began(service: Service) -> None:
    """The word that it was done comes late: the second delete is still to be done."""
    (object_id,) = service.reserve()
    service.pass_ms(100)
    ((name, due_ms),) = service.metadata.due()
    service.pass_ms(500)
    service.apply(Swept(object_id, due_ms))
    service.apply(Swept(object_id, due_ms))
    assert service.sweep() == [Due(name, 1150)]


def test_what_is_due_is_told_until_it_was_swept(service: Service) -> None:
    ids = service.reserve(3)
    service.fence(2)
    told = service.metadata.due()
    assert [one.name.object_id for one in told] == list(ids)
    assert service.metadata.due() == told


def test_an_object_goes_with_its_last_run_and_after_the_grace(service: Service) -> None:
    object_id = service.copy(0, 5)
    service.copy(5, 9)
    service.pass_ms(400)
    assert service.commit(service.event(Kind.DELETE, offset=4)) == Committed()
    assert service.ranges() == [(0, 5), (5, 9)]
    assert service.metadata.manifest(ONE).run_at(3) is None
    assert service.commit(service.event(Kind.DELETE, offset=5)) == Committed()
    assert service.state(object_id) is State.DOOMED
    service.pass_ms(299)
    assert service.sweep() == []
    service.pass_ms(1)
    assert [one.name.object_id for one in service.sweep()] == [object_id]
    assert service.state(object_id) is None


def test_a_doomed_object_stays_until_no_put_of_it_is_under_way() -> None:
    """A put that the client sent twice may land behind the delete."""
    service = Service()
    service.metadata = TierMetadata(
        CLUSTER, TierTimes(upload_ms=1000, skew_ms=50, lease_ms=1, grace_ms=2)
    )
    service.tenure = service.fence(1)
    service.copy(0, 5)
    assert service.commit(service.event(Kind.DELETE, offset=5)) == Committed()
    service.pass_ms(1049)
    assert service.sweep() == []
    service.pass_ms(1)
    assert len(service.sweep()) == 1


def test_a_shared_object_stays_for_its_other_runs(service: Service) -> None:
    (object_id,) = service.reserve()
    events = [
        service.event(Kind.COPY, service.run(object_id, 0, 5)),
        service.event(Kind.COPY, service.run(object_id, 0, 7, of=TWO), of=TWO),
    ]
    assert service.commit(*events) == Committed()
    assert service.commit(service.event(Kind.DELETE, offset=5)) == Committed()
    assert service.state(object_id) is State.LIVE
    assert service.commit(service.event(Kind.CUT, offset=0, of=TWO)) == Committed()
    assert service.state(object_id) is State.DOOMED


def test_a_cut_shortens_the_run_that_goes_on_beyond_it(service: Service) -> None:
    service.copy(0, 5)
    gone = service.copy(5, 9)
    assert service.commit(service.event(Kind.CUT, offset=3)) == Committed()
    assert service.ranges() == [(0, 3)]
    assert service.state(gone) is State.DOOMED
    service.copy(3, 6)
    assert service.ranges() == [(0, 3), (3, 6)]


def test_a_copy_follows_the_tier_s_end(service: Service) -> None:
    service.copy(0, 5)
    (object_id,) = service.reserve()
    for first in (4, 6):
        event = service.event(Kind.COPY, service.run(object_id, first, 9))
        assert service.commit(event) == Refused(Reason.DOES_NOT_FOLLOW)


def test_an_empty_partition_may_begin_above_its_end(service: Service) -> None:
    service.copy(0, 5)
    assert service.commit(service.event(Kind.DELETE, offset=5)) == Committed()
    service.copy(8, 9)
    assert service.metadata.manifest(ONE).start_offset == 8


def test_an_empty_partition_may_begin_within_a_batch_and_copies_all_of_it(service: Service) -> None:
    service.copy(0, 5)
    assert service.commit(service.event(Kind.DELETE, offset=7)) == Committed()
    (object_id,) = service.reserve()
    event = service.event(Kind.COPY, service.run(object_id, 5, 7))
    assert service.commit(event) == Refused(Reason.DOES_NOT_FOLLOW)
    service.copy(6, 9)
    manifest = service.metadata.manifest(ONE)
    assert (manifest.start_offset, manifest.end_offset) == (7, 9)


def test_a_delete_above_the_end_takes_everything(service: Service) -> None:
    service.copy(0, 5)
    assert service.commit(service.event(Kind.DELETE, offset=50)) == Committed()
    manifest = service.metadata.manifest(ONE)
    assert (manifest.start_offset, manifest.end_offset, list(manifest.runs)) == (50, 50, [])


def test_a_rewritten_range_stands_in_the_place_of_its_runs(service: Service) -> None:
    old = [service.copy(0, 5), service.copy(5, 9)]
    newest = service.copy(9, 12)
    first, second = service.reserve(2)
    runs = [service.run(first, 0, 7, generation=1), service.run(second, 7, 9, generation=1)]
    assert service.commit(service.event(Kind.REPLACE, *runs)) == Committed()
    assert service.ranges() == [(0, 7), (7, 9), (9, 12)]
    assert [service.state(one) for one in (*old, newest)] == [*[State.DOOMED] * 2, State.LIVE]


@pytest.mark.parametrize(
    ("first", "end", "generation"), [(0, 4, 1), (1, 5, 1), (0, 6, 1), (0, 5, 0), (20, 25, 1)]
)
def test_a_range_that_is_not_that_of_runs_or_no_newer_replaces_nothing(
    service: Service, first: int, end: int, generation: int
) -> None:
    service.copy(0, 5)
    (object_id,) = service.reserve()
    run = service.run(object_id, first, end, generation=generation)
    assert service.commit(service.event(Kind.REPLACE, run)) == Refused(Reason.DOES_NOT_FOLLOW)


@pytest.mark.parametrize(
    "epochs", [(), ((1, 1),), ((1, 0), (1, 2)), ((2, 0), (1, 2)), ((1, 0), (2, 5))]
)
def test_a_run_whose_epochs_can_not_be_is_refused(
    service: Service, epochs: tuple[tuple[int, int], ...]
) -> None:
    (object_id,) = service.reserve()
    run = service.run(object_id, 0, 5)._replace(epochs=epochs)
    assert service.commit(service.event(Kind.COPY, run)) == Refused(Reason.DOES_NOT_FOLLOW)


def test_events_that_contradict_themselves_are_refused(service: Service) -> None:
    first, second = service.reserve(2)
    wrong = [
        service.event(Kind.COPY, service.run(first, 0, 5, of=TWO)),
        service.event(Kind.COPY, service.run(first, 0, 5), service.run(second, 6, 9)),
        service.event(Kind.COPY),
        service.event(Kind.CUT),
        service.event(Kind.DELETE, service.run(first, 0, 5), offset=3),
    ]
    for event in wrong:
        assert service.commit(event) == Refused(Reason.DOES_NOT_FOLLOW)


def test_an_orphan_is_adopted_and_deleted_twice(service: Service) -> None:
    name = service.name(40)
    assert service.apply(Adopt(name)) == Done()
    assert service.sweep() == [Due(name, 1000)]
    service.pass_ms(50)
    assert service.sweep() == [Due(name, 1050)]
    assert service.reserve() == (41,)


def test_adopting_what_is_known_changes_nothing(service: Service) -> None:
    object_id = service.copy(0, 5)
    name = service.name(object_id)
    assert service.apply(Adopt(name)) == Done()
    other = name._replace(leader_epoch=LeaderEpoch(9))
    assert service.apply(Adopt(other)) == Refused(Reason.TAKEN)
    assert service.state(object_id) is State.LIVE
    assert service.sweep() == []


def test_reading_gives_what_was_so_at_that_time(service: Service) -> None:
    service.copy(0, 5)
    answer = service.apply(Read((ONE, TWO)))
    assert isinstance(answer, Manifests)
    service.copy(5, 9)
    assert [run.end_offset for run in answer.snapshots[ONE].runs] == [5]
    assert answer.snapshots[TWO].runs == ()
    assert answer.snapshots[ONE].last_event_id == 1


def test_time_does_not_go_back(service: Service) -> None:
    (object_id,) = service.reserve()
    service.pass_ms(100)
    service.now_ms -= 90
    service.apply(Tick())
    assert service.state(object_id) is State.ABORTED
    assert len(service.metadata.due()) == 1


@pytest.mark.parametrize("times", [{"grace_ms": 200, "lease_ms": 200}, {"upload_ms": 0}])
def test_times_that_protect_nothing_are_refused(times: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        TierTimes(**times)
