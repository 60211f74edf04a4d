"""Commits in transactions: who may make them, and what becomes of them in a group's life."""

import pytest

from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.coordinator.pending import Writer
from penstock.coordinator.records import UnreadRecord, as_copy, original_of
from penstock.coordinator.unwritten import Unwritten
from penstock.groups.config import GroupConfig
from penstock.groups.expiry import VACANT_MS
from penstock.groups.journal import encode_position
from penstock.groups.messages import CommitOffsets
from penstock.groups.offsets.commits import PENDING_MAX
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.protocol.error_codes import ErrorCode
from tests.groups.consumer.club import Club
from tests.groups.world import GROUP, World

P, Q = Writer(ProducerId(7), ProducerEpoch(0)), Writer(ProducerId(8), ProducerEpoch(0))
OK = ErrorCode.NONE
WEEK_MS = GroupConfig().offsets_retention_ms


def commit(
    world: World,
    offset: int = 5,
    *,
    writer: Writer = P,
    group: str = GROUP,
    generation: int = -1,
    member_id: str = "",
    instance: str | None = None,
    metadata: str = "",
    topic_id: bytes | None = None,
    keys: tuple[TopicKey, ...] = (TopicKey("t", 0),),
) -> ErrorCode | None:
    """Commit in a transaction; None while it is not answered."""
    told: list[ErrorCode] = []
    at_ms = world.clock.wall_ms()
    offsets = {
        key: CommittedOffset(
            offset, metadata=metadata, commit_timestamp_ms=at_ms, topic_id=topic_id
        )
        for key in keys
    }
    request = CommitOffsets(
        group_id=group,
        generation=generation,
        member_id=member_id,
        instance_id=instance,
        writer=writer,
        offsets=offsets,
    )
    world.coordinator.commit(request, lambda answer: told.append(answer[keys[-1]]))
    return told[0] if told else None


def end(world: World, writer: Writer = P, *, is_commit: bool = True, group: str = GROUP) -> None:
    """A marker is appended and confirmed."""
    runtime, partition = world.coordinator.runtime, world.coordinator.partition_of(group)
    runtime.end_transaction(partition, writer, is_commit=is_commit)(None)


def told(world: World, *, is_stable: bool = True) -> tuple[int | None, ErrorCode]:
    key = TopicKey("t", 0)
    reading = world.coordinator.reading
    found = reading.fetch_offsets(GROUP, [key], require_stable=is_stable).offsets[key]
    return None if found.committed is None else found.committed.offset, found.error


def stable_member(world: World, *, instance: str | None = None) -> str:
    """Let one member join and get its assignment in generation 1."""
    joined = world.join(instance=instance)
    world.pass_ms(10_000)
    member_id = joined[0].member_id
    world.sync(member_id, 1, {member_id: b"a"}, instance=instance)
    return member_id


def test_a_commit_is_unstable_until_its_transaction_ends() -> None:
    world = World()
    world.commit({("t", 0): 1})
    assert commit(world) is OK
    assert told(world) == (None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert told(world, is_stable=False) == (1, OK)
    counters = world.coordinator.counters
    assert (counters.offsets_committed, counters.transactional_offsets) == (1, 1)
    end(world)
    assert told(world) == (5, OK)


def test_a_marker_ends_the_transaction_in_all_groups_of_its_partition() -> None:
    world = World(partition_count=1)
    for group in ("a", "b", "c"):
        assert commit(world, group=group) is OK
    commit(world, 9, writer=Q, group="a")
    end(world, group="a")
    assert [world.committed(group=group) for group in ("a", "b", "c")] == [5, 5, 5]
    end(world, Q, is_commit=False, group="a")
    assert world.committed(group="a") == 5


def test_without_a_member_it_is_taken_in_any_state_of_the_group() -> None:
    world = World()
    stable_member(world)
    assert commit(world) is OK


@pytest.mark.parametrize(
    ("generation", "member_id", "instance", "told_code"),
    [
        (1, "{member}", "i", OK),
        (0, "{member}", "i", ErrorCode.ILLEGAL_GENERATION),
        (1, "unknown", None, ErrorCode.UNKNOWN_MEMBER_ID),
        (1, "unknown", "i", ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_a_member_of_a_classic_group_commits_in_its_generation(
    generation: int, member_id: str, instance: str | None, told_code: ErrorCode
) -> None:
    world = World()
    name = member_id.format(member=stable_member(world, instance="i"))
    assert commit(world, generation=generation, member_id=name, instance=instance) is told_code


def test_a_member_that_has_no_assignment_yet_may_commit() -> None:
    world = World()
    joined = world.join()
    world.pass_ms(10_000)
    assert commit(world, generation=1, member_id=joined[0].member_id) is OK


def test_a_member_of_no_group_is_refused() -> None:
    assert commit(World(), generation=0, member_id="m") is ErrorCode.ILLEGAL_GENERATION


def test_the_empty_group_id_has_no_transactions() -> None:
    assert commit(World(), group="") is ErrorCode.INVALID_GROUP_ID


def test_a_member_of_a_consumer_group_commits_in_its_epoch() -> None:
    world = Club()
    world.cluster.create("t", 1)
    epoch = world.entered("m", "t").member_epoch
    assert commit(world, generation=epoch, member_id="m") is OK
    assert commit(world, generation=epoch + 1, member_id="m") is ErrorCode.ILLEGAL_GENERATION
    unknown = commit(world, generation=epoch, member_id="unknown")
    assert unknown is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(world) is OK


@pytest.mark.parametrize(
    ("reason", "told_code"),
    [
        (Unwritten.FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (Unwritten.NOT_IN_TRANSACTION, ErrorCode.INVALID_TXN_STATE),
        (Unwritten.OVERTAKEN, ErrorCode.NOT_COORDINATOR),
        (Unwritten.TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (Unwritten.FAILED, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_what_the_log_refuses_is_not_pending(reason: Unwritten, told_code: ErrorCode) -> None:
    world = World()
    world.journal.refuses = reason
    assert commit(world) is told_code
    assert told(world) == (None, OK)


def test_long_metadata_is_refused() -> None:
    assert commit(World(), metadata="m" * 5_000) is ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_a_transaction_has_so_many_positions_in_a_partition_and_no_more() -> None:
    world = World(partition_count=1)
    most = tuple(TopicKey("t", number) for number in range(PENDING_MAX - 1))
    assert commit(world, keys=most) is OK
    more = (TopicKey("u", 0), TopicKey("u", 1))
    assert commit(world, group="other", keys=more) is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert commit(world, 6, keys=most) is OK
    assert commit(world, writer=Q, group="other", keys=more) is OK
    end(world)
    assert world.committed("u", 0, group="other") == 5


def test_memory_of_what_is_pending_is_counted_and_freed() -> None:
    world = World()
    coordinator = world.coordinator
    assert commit(world, metadata="m" * 1_000) is OK
    pinned = coordinator.pinned_bytes
    commit(world, metadata="m" * 1_000)
    assert coordinator.pinned_bytes == pinned
    end(world)
    assert coordinator.pinned_bytes == pinned
    commit(world)
    end(world, is_commit=False)
    assert coordinator.pinned_bytes == pinned


def test_a_group_with_something_pending_does_not_expire() -> None:
    world = World(expiry_check_interval_ms=60_000)
    world.commit({("t", 1): 1})
    commit(world)
    world.pass_ms(2 * WEEK_MS)
    assert world.committed("t", 1) == 1
    end(world)
    assert world.committed("t", 0) == 5
    world.pass_ms(60_000)
    assert world.coordinator.group_count == 0


def test_a_group_that_had_only_what_was_aborted_goes() -> None:
    world = World()
    commit(world)
    world.pass_ms(10 * VACANT_MS)
    assert world.coordinator.group_count == 1
    end(world, is_commit=False)
    world.pass_ms(2 * VACANT_MS)
    assert world.coordinator.group_count == 0


def test_deleting_a_group_deletes_what_is_pending_in_it() -> None:
    world = World()
    commit(world)
    results: list[object] = []
    world.coordinator.delete_groups([GROUP], results.append)
    assert results == [{GROUP: OK}]
    end(world)
    assert world.coordinator.group_count == 0
    partition = world.coordinator.partition_of(GROUP)
    assert any(record[1] is None for record in world.journal.logs[partition])


def test_deleting_an_offset_deletes_what_is_pending_on_it() -> None:
    world = World()
    commit(world, keys=(TopicKey("t", 0), TopicKey("u", 0)))
    world.coordinator.delete_offsets(GROUP, (TopicKey("t", 0),), lambda _: None)
    end(world)
    assert (world.committed("t"), world.committed("u")) == (None, 5)


def test_a_deleted_topic_takes_what_is_pending_on_it_along() -> None:
    world = World()
    old, new = b"o" * 16, b"n" * 16
    commit(world, topic_id=old)
    commit(world, topic_id=new, keys=(TopicKey("u", 0),))
    world.coordinator.on_topics_deleted({"t": old, "u": old})
    end(world)
    assert (world.committed("t"), world.committed("u")) == (None, 5)


def test_a_deleted_topic_leaves_what_is_pending_on_one_that_was_made_anew() -> None:
    world = World()
    old, new = b"o" * 16, b"n" * 16
    commit(world, 5, topic_id=old)
    end(world)
    commit(world, 7, writer=Q, topic_id=new)
    world.coordinator.on_topics_deleted({"t": old})
    end(world, Q)
    assert world.committed("t") == 7


@pytest.mark.parametrize("is_commit", [False, True])
def test_what_an_open_transaction_kept_of_a_deleted_topic_goes_with_its_end(
    *, is_commit: bool
) -> None:
    """The topic was made anew meanwhile; positions of others in the group stay."""
    world = World()
    old, new = b"o" * 16, b"n" * 16
    both = (TopicKey("t", 0), TopicKey("u", 0))
    commit(world, 5, topic_id=old, keys=both)
    end(world)
    commit(world, 7, writer=P, topic_id=new)
    world.coordinator.on_topics_deleted({"t": old})
    assert (world.committed("t"), world.committed("u")) == (5, 5)
    end(world, P, is_commit=is_commit)
    assert (world.committed("t"), world.committed("u")) == (7 if is_commit else None, 5)


def test_the_last_of_several_transactions_ends_what_was_kept_of_a_deleted_topic() -> None:
    world = World()
    old, new = b"o" * 16, b"n" * 16
    commit(world, 5, topic_id=old)
    end(world)
    commit(world, 7, writer=P, topic_id=new)
    commit(world, 8, writer=Q, topic_id=new)
    world.coordinator.on_topics_deleted({"t": old})
    end(world, P, is_commit=False)
    assert world.committed("t") == 5
    end(world, Q, is_commit=False)
    assert world.committed("t") is None


def test_records_that_were_encoded_ahead_are_those_that_are_written() -> None:
    world, ahead = World(), World()
    commit(world)
    key = TopicKey("t", 0)
    offset = CommittedOffset(5, metadata="", commit_timestamp_ms=ahead.clock.wall_ms())
    record = encode_position(GROUP, key, offset)
    asked = CommitOffsets(group_id=GROUP, writer=P, offsets={key: offset}, records={key: record})
    ahead.coordinator.commit(asked, lambda _: None)
    partition = world.coordinator.partition_of(GROUP)
    assert ahead.journal.logs[partition] == world.journal.logs[partition]
    end(ahead)
    assert ahead.committed("t") == 5


def test_a_group_of_the_other_kind_keeps_what_is_pending() -> None:
    world = Club()
    world.cluster.create("t", 1)
    assert commit(world) is OK
    world.entered("m", "t")
    assert told(world) == (None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    end(world)
    assert told(world) == (5, OK)


HISTORIES = ("P c p", "P Q q p", "P Q p q", "P Q P p q", "P Q P q p", "P c Q p q", "c P Q c q p")
"""P, Q: a transaction writes; p, q: it is committed; c: a commit outside of transactions."""


def in_log_order(history: str) -> int:
    """The dumb twin: of what counts the last one in the log. Offsets are places in the history."""
    steps = history.split()
    counts = [at for at, step in enumerate(steps) if step == "c" or step.lower() in steps]
    return max(at for at in counts if steps[at] not in {"p", "q"})


def act(world: World, offset: int, step: str) -> None:
    """Let a client, or a marker, do a step of a history."""
    if step == "c":
        world.commit({("t", 0): offset})
    elif step.isupper():
        commit(world, offset, writer={"P": P, "Q": Q}[step])
    else:
        end(world, {"p": P, "q": Q}[step])


@pytest.mark.parametrize("history", HISTORIES)
def test_the_last_position_in_the_log_counts_however_transactions_end(history: str) -> None:
    world = World()
    for offset, step in enumerate(history.split()):
        act(world, offset, step)
    assert world.committed() == in_log_order(history)


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("behind", [0, 1, 2])
def test_a_coordinator_that_loads_the_history_but_its_end_comes_to_the_same(
    history: str, behind: int
) -> None:
    world, steps = World(), history.split()
    runtime, partition = world.coordinator.runtime, world.coordinator.partition_of(GROUP)
    runtime.unload(partition)
    runtime.begin_loading(partition)
    loaded = len(steps) - behind
    for offset, step in enumerate(steps[:loaded]):
        writer = {"P": P, "Q": Q}.get(step.upper())
        if writer is not None and step.islower():
            runtime.load_end(partition, writer, is_commit=True)
        else:
            record = encode_position(GROUP, TopicKey("t", 0), CommittedOffset(offset))
            runtime.load(partition, record, writer)
    runtime.finish_loading(partition)
    for offset, step in [*enumerate(steps)][loaded:]:
        act(world, offset, step)
    assert world.committed() == in_log_order(history)


def test_in_which_groups_a_producer_wrote_is_forgotten_with_its_transaction() -> None:
    world = World()
    writers = world.coordinator._table.writers
    partition = world.coordinator.partition_of(GROUP)
    commit(world)
    assert writers.groups_of(partition, P.producer_id) == [GROUP]
    end(world)
    assert writers.groups_of(partition, P.producer_id) == []


def test_a_copy_of_a_position_leaves_what_is_pending_on_it() -> None:
    """A rewrite has put the copy behind what the transaction wrote."""
    key = TopicKey("t", 0)
    position = encode_position(GROUP, key, CommittedOffset(5))
    world = World(partition_count=1)
    runtime = world.coordinator.runtime
    runtime.unload(0)
    runtime.begin_loading(0)
    runtime.load(0, position)
    runtime.load(0, encode_position(GROUP, key, CommittedOffset(7)), P)
    runtime.load(0, as_copy(position))
    runtime.finish_loading(0)
    assert told(world, is_stable=False) == (5, OK)
    end(world)
    assert told(world) == (7, OK)


def test_a_rewrite_copies_a_position_behind_a_commit_of_a_transaction_on_its_way() -> None:
    world = World(partition_count=1)
    world.commit({("t", 0): 5})
    world.journal.is_prompt = False
    assert commit(world, 7) is None
    (records,) = [some for some in world.coordinator.runtime.snapshot(0) if some]
    (position,) = [one for one in records if (one[0] or b"") == POSITION_KEY]
    assert original_of(UnreadRecord(*position)) is not None, "plain it would have won over it"


POSITION_KEY = encode_position(GROUP, TopicKey("t", 0), CommittedOffset(0))[0]


def test_positions_that_a_transaction_has_already_take_no_further_place() -> None:
    world = World(partition_count=1)
    most = tuple(TopicKey("t", number) for number in range(PENDING_MAX - 1))
    assert commit(world, keys=most) is OK
    assert commit(world, 6, keys=(most[0], most[1], TopicKey("u", 0))) is OK
    assert commit(world, keys=(TopicKey("u", 1),)) is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
