"""A master copies its log to who is not in step at a rate, and confirms as if there were none."""

from dataclasses import replace
from typing import cast

import pytest

from harness.log_world import append, partition_number
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import Position, ReplicaId
from penstock.base.token_bucket import BURST_US
from penstock.net.peer import PeerHello
from penstock.net.peer_link import PeerLink
from penstock.replication.config import ReplicationConfig
from penstock.replication.messages import (
    Acknowledge,
    BaseBytes,
    BaseBytesWanted,
    Begin,
    Hello,
    LogRun,
    Manifest,
    ManifestWanted,
    Refused,
)
from penstock.runtime.ha.server import HaServer
from penstock.storage.replicate.base_export import SILENCE_MS
from penstock.storage.replicate.base_manifest import BaseManifest
from tests.replica.test_slave_session import EPOCH, REPLICA_ID, SET, Leading
from tests.runtime.test_ha_server import EMPTY, SlaveEnd

IN_STEP, BEHIND, ALSO_BEHIND = 2, 3, 4
RATE, RUN_BYTES = 4_096, 4_096
CONFIG = ReplicationConfig(copy_bytes_per_second=RATE, run_bytes=RUN_BYTES, in_flight_bytes=1 << 20)


class Copied:
    """A master with slaves of which one is in step, and their links."""

    def __init__(
        self,
        *,
        policy: AckPolicy | None = None,
        in_step: tuple[int, ...] = (IN_STEP,),
        is_resuming: bool = False,
    ) -> None:
        self.leading = Leading(
            slaves=(IN_STEP, BEHIND, ALSO_BEHIND),
            in_step=in_step,
            policy=policy,
            config=CONFIG,
            batches=80,
            is_resuming=is_resuming,
        )
        self.world, self.log = self.leading.world, self.leading.log
        self.leading.set._submit = lambda *_: None
        self.server = HaServer(
            config=CONFIG,
            clock=self.world,
            scheduler=self.world,
            replica_id_of=lambda _set, _broker: ReplicaId(REPLICA_ID),
            newest_epoch_of=lambda _set: EPOCH,
        )
        self.server.lead(self.leading.set)
        self.ends: dict[int, SlaveEnd] = {}

    def greeted(self, broker_id: int) -> SlaveEnd:
        end = self.ends[broker_id] = SlaveEnd()
        end.hello = PeerHello(b"ha", "cluster", broker_id, 1)
        self.server.on_link(cast("PeerLink", end))
        end.say(Hello(SET, EPOCH, ReplicaId(REPLICA_ID), "p", EMPTY))
        return end

    def streaming(self, broker_id: int) -> SlaveEnd:
        end = self.greeted(broker_id)
        end.say(Begin(SET, EPOCH, Position(0), Position(0)))
        self.world.run()
        return end

    def sent(self, broker_id: int) -> int:
        """Bytes of the log, and of a base, that a slave was sent."""
        heard = self.ends[broker_id].heard
        return sum(len(one.data) for one in heard if isinstance(one, LogRun | BaseBytes))

    def has_all(self, broker_id: int) -> bool:
        return self.sent(broker_id) == self.log.end_position


def allowed(milliseconds: int, messages: int = 1, rate: int = RATE) -> int:
    """Bytes that may have been sent after so long."""
    return (milliseconds + BURST_US // 1_000) * rate // 1_000 + messages * RUN_BYTES


def test_a_copy_keeps_to_the_rate_and_ends() -> None:
    copied = Copied()
    copied.streaming(BEHIND)
    whole, milliseconds = copied.log.end_position, 0
    assert whole > 5 * RATE
    while not copied.has_all(BEHIND):
        assert copied.sent(BEHIND) <= allowed(milliseconds)
        milliseconds += 100
        copied.world.advance(100)
        assert milliseconds <= whole * 1_000 // RATE + 100, "it is not slower than the rate either"
    assert copied.sent(BEHIND) == copied.server.turns.pace.copied_bytes
    assert copied.server.turns.resting_count == 0
    assert 0 < copied.server.turns.rests < 2 * whole // RUN_BYTES, "it is woken when it is due"


def test_all_copies_together_keep_to_the_rate_and_each_goes_on() -> None:
    copied = Copied()
    for broker_id in (BEHIND, ALSO_BEHIND):
        copied.streaming(broker_id)
    copied.world.advance(4_000)
    sent = [copied.sent(broker_id) for broker_id in (BEHIND, ALSO_BEHIND)]
    assert sum(sent) <= allowed(4_000)
    assert max(sent) - min(sent) <= 2 * RUN_BYTES
    assert copied.server.turns.resting_count == 2


def test_a_link_without_room_does_not_hold_up_the_copies_on_other_links() -> None:
    copied = Copied()
    for broker_id in (BEHIND, ALSO_BEHIND):
        copied.streaming(broker_id)
    copied.ends[BEHIND].is_writable = False
    stuck_at = copied.sent(BEHIND)
    copied.world.advance(60_000)
    assert copied.has_all(ALSO_BEHIND)
    assert copied.sent(BEHIND) == stuck_at
    copied.ends[BEHIND].is_writable = True
    copied.ends[BEHIND].on_writable()
    copied.world.advance(60_000)
    assert copied.has_all(BEHIND)


def test_who_is_in_step_is_neither_held_up_nor_counted() -> None:
    copied = Copied()
    copied.streaming(BEHIND)
    counted = copied.server.turns.pace.copied_bytes
    end = copied.streaming(IN_STEP)
    assert copied.has_all(IN_STEP)
    assert copied.server.turns.pace.copied_bytes == counted
    assert not copied.has_all(BEHIND)
    written = copied.log.end_position
    end.say(Acknowledge(SET, EPOCH, written))
    assert copied.leading.member.confirm_position == written


@pytest.mark.parametrize("kind", [PolicyKind.QUORUM, PolicyKind.K_OF_N])
def test_where_copies_out_of_step_count_too_writes_never_wait_for_the_rate(
    kind: PolicyKind,
) -> None:
    copied = Copied(policy=AckPolicy(kind=kind, required=3))  # a quorum of four is three as well
    end = copied.streaming(BEHIND)
    assert copied.has_all(BEHIND)
    written = copied.log.end_position
    end.say(Acknowledge(SET, EPOCH, written))
    copied.streaming(IN_STEP).say(Acknowledge(SET, EPOCH, written))
    assert copied.leading.member.confirm_position == written
    assert copied.server.turns.pace.copied_bytes == 0


def test_a_copy_that_rests_goes_on_at_once_when_writes_begin_to_wait_for_it() -> None:
    """Nothing is written meanwhile, as producers wait: nothing but the master's tick wakes it."""
    policy = AckPolicy(kind=PolicyKind.K_OF_N, required=2)
    copied = Copied(policy=policy)
    copied.streaming(IN_STEP)
    copied.streaming(BEHIND)
    assert not copied.has_all(BEHIND)
    copied.ends[IN_STEP].on_closed("killed")
    copied.server.tick()
    copied.world.run()
    assert copied.has_all(BEHIND)


def test_who_is_in_step_and_does_not_follow_yet_is_not_counted_on() -> None:
    copied = Copied(policy=AckPolicy(kind=PolicyKind.K_OF_N, required=2))
    copied.greeted(IN_STEP)
    copied.streaming(BEHIND)
    assert copied.has_all(BEHIND)


def test_a_master_that_resumes_is_not_held_up() -> None:
    copied = Copied(is_resuming=True)
    copied.streaming(BEHIND)
    assert copied.has_all(BEHIND)


def test_another_rate_holds_for_copies_that_rest() -> None:
    copied = Copied()
    copied.streaming(BEHIND)
    copied.server.use_config(replace(CONFIG, copy_bytes_per_second=1))
    copied.world.advance(30_000)
    slowed = copied.sent(BEHIND)
    assert slowed <= 2 * RUN_BYTES
    copied.server.use_config(replace(CONFIG, copy_bytes_per_second=0))
    copied.world.advance(1_000)
    assert copied.has_all(BEHIND)


def test_a_copy_that_ends_while_it_rests_leaves_nothing_behind() -> None:
    copied = Copied()
    end = copied.streaming(BEHIND)
    copied.streaming(ALSO_BEHIND)
    end.on_closed("killed")
    assert copied.server.turns.resting_count == 1
    copied.world.advance(60_000)
    assert copied.has_all(ALSO_BEHIND)
    assert copied.sent(BEHIND) < copied.log.end_position


def test_what_is_confirmed_is_told_to_a_copy_that_rests() -> None:
    copied = Copied()
    behind = copied.streaming(BEHIND)
    copied.streaming(IN_STEP).say(Acknowledge(SET, EPOCH, copied.log.end_position))
    copied.world.advance(50)
    told = [one.confirm_position for one in behind.heard if isinstance(one, LogRun)]
    assert told[-1] == copied.log.end_position
    assert not copied.has_all(BEHIND)


def base_of(copied: Copied, end: SlaveEnd) -> BaseManifest:
    end.say(ManifestWanted(SET, EPOCH, newest_only=False))
    copied.world.run()
    manifest = end.heard[-1]
    assert isinstance(manifest, Manifest)
    return BaseManifest.decode(bytes(manifest.encoded))


def wants(copied: Copied, end: SlaveEnd, place: int) -> None:
    end.say(BaseBytesWanted(SET, EPOCH, Position(place), RUN_BYTES))
    copied.world.run()


def test_a_base_is_copied_at_the_rate_and_its_files_are_kept_for_as_long_as_it_rests() -> None:
    copied = Copied()
    copied.log.checkpoint()
    copied.world.run()
    end = copied.greeted(BEHIND)
    manifest = base_of(copied, end)
    place, began_ms = int(manifest.start_position), copied.world.now_ms
    copied.server.use_config(replace(CONFIG, copy_bytes_per_second=64))
    while place < manifest.end_place:
        before = copied.sent(BEHIND)
        wants(copied, end, place)
        while copied.sent(BEHIND) == before:
            copied.world.advance(1_000)
        place += copied.sent(BEHIND) - before
        spent_ms = copied.world.now_ms - began_ms
        assert copied.sent(BEHIND) <= allowed(spent_ms, rate=64)
    assert spent_ms > 2 * SILENCE_MS
    assert RUN_BYTES // 64 * 1_000 > SILENCE_MS, "each read came later than a silent slave's end"
    assert not any(isinstance(one, Refused) for one in end.heard)


def test_a_slave_that_asks_again_while_its_copy_rests_is_refused() -> None:
    copied = Copied()
    copied.log.checkpoint()
    copied.world.run()
    end = copied.greeted(BEHIND)
    place = base_of(copied, end).start_position
    wants(copied, end, place)
    wants(copied, end, place)
    assert isinstance(end.heard[-1], BaseBytes), "the first one made the second one rest"
    wants(copied, end, place)
    refused = end.heard[-1]
    assert isinstance(refused, Refused)
    assert "requested before" in refused.text
    copied.world.advance(60_000)
    assert copied.server.turns.resting_count == 0
    assert sum(isinstance(one, BaseBytes) for one in end.heard) == 1


def test_bytes_of_a_base_are_sent_once_whatever_is_written_meanwhile() -> None:
    copied = Copied()
    copied.log.checkpoint()
    copied.world.run()
    end = copied.greeted(BEHIND)
    wants(copied, end, base_of(copied, end).start_position)
    copied.world.advance(SILENCE_MS // 2)
    for _ in range(3):
        append(copied.log, copied.log.open_partition(partition_number(0)), size=500)
        copied.world.run()
    assert sum(isinstance(one, BaseBytes) for one in end.heard) == 1


def test_a_base_that_writes_wait_for_is_copied_at_once() -> None:
    copied = Copied(policy=AckPolicy(kind=PolicyKind.K_OF_N, required=3))
    copied.log.checkpoint()
    copied.world.run()
    end = copied.greeted(BEHIND)
    manifest = base_of(copied, end)
    copied.server.turns.pace.sent(RATE)  # of another set
    while (place := manifest.start_position + copied.sent(BEHIND)) < manifest.end_place:
        wants(copied, end, place)
        assert copied.sent(BEHIND) > place - manifest.start_position
    assert copied.server.turns.pace.copied_bytes == RATE
