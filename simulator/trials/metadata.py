"""Random commands to the controllers, on a copy of the metadata.

    an entry was applied ─► its image, by way of a snapshot ─► a few commands, one after the other:
        some valid, some late, some wrong in one field, some repeated
        ─► refused if they must be? are sets and brokers as they should be? are enough copies kept?

In a run the commands follow from its faults, and those that a check of the controller must refuse
are rare: such as the change of a replaced master that arrives after its successor's. Here such
commands are tried in every state that a run reaches.

The run is not affected: images, commands and random numbers are separate. The allowed outcomes are
in checks/set_commands.py and checks/copies_kept.py.

Source: docs/adr/0059.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from random import Random
from typing import Any

from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.errors import PlatformError
from penstock.base.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    ReplicaId,
    ReplicaSetId,
    SyncStateSetEpoch,
    TopicId,
)
from penstock.base.invariant import InvariantViolation
from penstock.controller.commands import command as c
from penstock.controller.config import ControllerConfig
from penstock.controller.controller import Controller
from penstock.controller.errors import RefusedCommand
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import NO_EPOCH, NO_MASTER, ClusterImage, ReplicaSetImage
from penstock.controller.metadata.record_codec import decode_records, encode_records
from penstock.controller.metadata.records import ReplicaSetCreated
from penstock.controller.metadata.snapshot import snapshot_records
from simulator.checks.copies_kept import CopiesKept
from simulator.checks.patched import patched
from simulator.checks.set_commands import (
    State,
    eligible,
    leaves,
    lossy_masterships,
    must_be_taken,
    refusal,
    wrong_brokers,
    wrong_members,
    wrong_sets,
)
from simulator.checks.topic_facts import topic_facts

SHARE = 10.0
"""The n-th entry that a run applies is tried with this share of 1/n, but no less than SHARE_MIN."""
SHARE_MIN = 0.05
STEPS = 8
HEARD_MAX = 60
"""Commands of the run that may be repeated."""
LIMITS = ControllerConfig(partitions_per_broker_max=12, sets_per_broker_max=4)

Found = Callable[[str], None]
Asked = c.Command[Any]


class MetadataTrials:
    """See the module."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._random = Random("metadata trials")  # noqa: S311  reproducible on purpose
        self._heard: deque[Asked] = deque(maxlen=HEARD_MAX)
        self._entries = 0
        self.walks = 0

    def hearing(self) -> AbstractContextManager[None]:
        """Record the commands to the controllers of a run while this lasts."""

        def handle(real: Callable[..., Any], controller: Controller, command: Asked) -> Any:
            self._heard.append(command)
            return real(controller, command)

        return patched(Controller, "handle", handle)

    def applied(self, host: str, image: ClusterImage) -> None:
        """Try further commands, if this entry is chosen for a trial."""
        self._entries += 1
        is_due = self._random.random() < max(SHARE_MIN, SHARE / self._entries)
        if not is_due or not image.replica_sets:
            return
        heard, self._heard = self._heard, deque(maxlen=HEARD_MAX)  # it is listened to here as well
        walk = Walk(image, heard, self._random)
        texts = list(walk.run(STEPS))
        self._heard = heard
        self.walks += 1
        for text in texts[:3]:
            self._found(f"{host}, had the controllers been asked so: {text}")


class Walk:
    """A few commands, one after the other, on a copy."""

    def __init__(self, image: ClusterImage, heard: Sequence[Asked], draw: Random) -> None:
        self._heard = list(heard)
        self._random = draw
        self._image = image
        self._numbers = 0
        self._asked: list[Asked] = []

    def run(self, steps: int) -> Iterator[str]:
        """Go; yield what is wrong, up to the first step that something is wrong with."""
        yield from _not_the_same(self._image, self._copy(self._image))
        self._controller = self._controller_of(self._copy(self._image))
        self._copies = {
            set_id: CopiesKept(replica_set) for set_id, replica_set in self._sets.items()
        }
        self._lossy = {
            set_id: replica_set.unclean_epoch for set_id, replica_set in self._sets.items()
        }
        for _ in range(steps):
            command = self._draw()
            self._asked.append(command)
            wrong = list(self._step(command))
            if wrong:
                yield from (f"{text}, after {self._asked}" for text in wrong)
                return
        image = self._controller.image
        yield from _not_the_same(image, self._copy(image))

    @property
    def _sets(self) -> dict[ReplicaSetId, ReplicaSetImage]:
        return self._controller.image.replica_sets

    def _copy(self, image: ClusterImage) -> ClusterImage:
        """Return the image that a snapshot of one is read as."""
        copied = ClusterImage(defaults=image.defaults)
        entry = encode_records(snapshot_records(image))
        self._controller_of(copied).replay(decode_records(entry))
        return copied

    def _controller_of(self, image: ClusterImage) -> Controller:
        def new_id() -> TopicId:
            return TopicId(self._random.randbytes(16))

        return Controller(config=LIMITS, image=image, new_topic_id=new_id)

    # --- one step ------------------------------------------------------------------------------

    def _step(self, command: Asked) -> Iterator[str]:
        if not self._is_answerable(command):
            return
        before = State.of(self._controller.image)
        reason = refusal(before, command)
        try:
            result = self._controller.handle(command)
        except RefusedCommand as error:
            if not reason and must_be_taken(command):
                yield f"refused: {error}"
            return
        if reason:
            yield f"taken, though {reason}"
            return
        if isinstance(command, c.CreateTopics):
            yield from self._wrong_creation(command, result.records)
        try:
            entry = encode_records(result.records, self._controller.image.metadata_level)
            self._controller.replay(decode_records(entry))
        except (InvariantViolation, PlatformError) as error:
            yield f"its records can not be replayed: {error}"
            return
        yield from self._wrong_after(before, command)

    def _is_answerable(self, command: Asked) -> bool:
        """Whether it speaks of what is there: others have been removed since, or never were."""
        ids = [getattr(command, "replica_set_id", None)]
        ids += [one.replica_set_id for one in getattr(command, "masterships", ())]
        brokers = [getattr(command, "broker_id", None), *getattr(command, "sync_state_set", ())]
        known = self._controller.image
        is_set = all(one is None or one in known.replica_sets for one in ids)
        return is_set and all(broker is None or broker in known.brokers for broker in brokers)

    def _wrong_after(self, before: State, command: Asked) -> Iterator[str]:
        after = State.of(self._controller.image)
        if isinstance(command, c.LeaveSyncStateSets):
            yield from leaves(before, after, command.broker_id)
        elif isinstance(command, c.RemoveReplica | c.AddReplica | c.SetAckPolicy):
            yield from wrong_members(before, after, command)
        else:
            yield from wrong_sets(before, after, command)
        yield from wrong_brokers(before, after, command)
        self._lossy.update(lossy_masterships(before, command))
        for set_id, replica_set in before.sets.items():
            found = after.sets[set_id]
            yield from self._copies[set_id].changed(replica_set, found, command)
            yield from self._wrong_losses(found)
        for set_id in after.sets.keys() - before.sets.keys():
            self._copies[set_id] = CopiesKept(after.sets[set_id])
            self._lossy[set_id] = NO_EPOCH

    def _wrong_losses(self, replica_set: ReplicaSetImage) -> Iterator[str]:
        """Whose log may hold what is confirmed no more: of before the last lossy mastership."""
        lossy = self._lossy[replica_set.replica_set_id]
        is_any = replica_set.is_unclean_allowed or replica_set.policy.kind is PolicyKind.ASYNC
        for epoch in range(max(NO_EPOCH, lossy - 2), replica_set.leader_epoch + 1):
            is_cut = replica_set.may_have_lost(LeaderEpoch(epoch))
            if is_cut is not (is_any or epoch < lossy):
                yield (
                    f"set {replica_set.replica_set_id}: a log that ends in epoch {epoch} may be"
                    f" cut: {is_cut}, and epoch {lossy} was the last that may lose"
                )
                return

    def _wrong_creation(self, command: c.CreateTopics, records: Sequence[object]) -> Iterator[str]:
        """What is refused leaves nothing behind, and sets are there once."""
        made = [
            record.replica_set_id for record in records if isinstance(record, ReplicaSetCreated)
        ]
        if len({*made, *self._sets}) < len(made) + len(self._sets):
            yield f"makes the sets {made} beside {sorted(self._sets)}"
        result = self._controller.handle(command)
        taken = {one.name for one in result.response if one.error is None}
        alone = replace(
            command, topics=tuple(topic for topic in command.topics if topic.name in taken)
        )
        others = self._controller.handle(alone).records if taken else ()
        again = [other.replica_set_id for other in others if isinstance(other, ReplicaSetCreated)]
        if made != again:
            yield f"makes the sets {made}, and {again} for {sorted(taken)} alone"

    # --- what is asked -------------------------------------------------------------------------

    def _draw(self) -> Asked:
        draw = self._random
        if self._heard and draw.random() < 0.15:
            return draw.choice(self._heard)
        if len(self._asked) > 1 and draw.random() < 0.1:
            return draw.choice(self._asked[:-1])
        kinds = {
            self._change: 8,
            self._begin: 5,
            self._fence: 2,
            self._broker: 3,
            self._log: 3,
            self._members: 3,
            self._policy: 3,
            self._unclean: 1,
            self._drain: 3,
            self._topics: 1,
        }
        (make,) = draw.choices(list(kinds), list(kinds.values()))
        return make(draw.choice(sorted(self._sets.items()))[1])

    def _some(self, among: Iterable[int], *always: int) -> tuple[int, ...]:
        some = {one for one in among if self._random.random() < 0.6}
        return tuple(sorted({*some, *always}))

    def _is_spoiled(self) -> bool:
        return self._random.random() < 0.4

    def _change(self, replica_set: ReplicaSetImage) -> Asked:
        """A master asks for another set; in two of five, with one thing wrong."""
        brokers = self._controller.image.brokers
        wanted = self._some(replica_set.replicas, *({replica_set.master} - {NO_MASTER}))
        joining = tuple(
            c.JoiningReplica(
                broker_id=BrokerId(each),
                replica_id=replica_set.replica_ids.get(BrokerId(each), ReplicaId(NO_EPOCH)),
                broker_epoch=brokers[BrokerId(each)].broker_epoch,
            )
            for each in wanted
            if each not in replica_set.sync_state_set
        )
        command = c.ChangeSyncStateSet(
            replica_set_id=replica_set.replica_set_id,
            master=replica_set.master,
            leader_epoch=replica_set.leader_epoch,
            sync_state_set_epoch=replica_set.sync_state_set_epoch,
            sync_state_set=as_brokers(*wanted),
            joining=joining,
        )
        return self._spoiled(command, replica_set) if self._is_spoiled() else command

    def _spoiled(self, command: c.ChangeSyncStateSet, replica_set: ReplicaSetImage) -> Asked:
        wanted, joining = command.sync_state_set, command.joining
        other = self._random.choice(replica_set.replicas)
        return self._random.choice(
            (
                replace(command, leader_epoch=LeaderEpoch(command.leader_epoch - 1)),
                replace(
                    command,
                    sync_state_set_epoch=SyncStateSetEpoch(command.sync_state_set_epoch - 1),
                ),
                replace(
                    command, master=other, sync_state_set=as_brokers(*self._some(wanted, other))
                ),
                replace(
                    command,
                    joining=tuple(
                        replace(each, replica_id=ReplicaId(each.replica_id - 1)) for each in joining
                    ),
                ),
                replace(
                    command,
                    joining=tuple(
                        replace(each, broker_epoch=BrokerEpoch(each.broker_epoch - 1))
                        for each in joining
                    ),
                ),
                replace(command, joining=()),
            )
        )

    def _begin(self, replica_set: ReplicaSetImage) -> Asked:
        """An election or a transfer is over; in two of five, one that was overtaken."""
        return c.BeginMasterships(masterships=(self._mastership(replica_set),))

    def _mastership(self, replica_set: ReplicaSetImage) -> c.NewMastership:
        draw = self._random
        is_unclean = draw.random() < 0.2
        pool = eligible(replica_set, is_unclean=is_unclean) or replica_set.replicas
        if self._is_spoiled() and draw.random() < 0.3:
            pool = replica_set.replicas
        master = draw.choice(pool)
        is_transfer = master in replica_set.sync_state_set and draw.random() < 0.3
        members = (master,) if is_unclean else self._some(pool, master)
        command = c.NewMastership(
            replica_set_id=replica_set.replica_set_id,
            master=BrokerId(master),
            leader_epoch=replica_set.leader_epoch,
            sync_state_set_epoch=replica_set.sync_state_set_epoch,
            cause=Cause.UNCLEAN if is_unclean else Cause.RETURN,
            sync_state_set=None if is_transfer else as_brokers(*members),
            is_unclean=is_unclean,
        )
        match draw.randrange(6):
            case 0:
                return replace(command, leader_epoch=LeaderEpoch(command.leader_epoch - 1))
            case 1:
                return replace(
                    command,
                    sync_state_set_epoch=SyncStateSetEpoch(command.sync_state_set_epoch - 1),
                )
            case _:
                return command

    def _fence(self, replica_set: ReplicaSetImage) -> Asked:
        """A broker is dead; perhaps it has registered again by now."""
        draw, brokers = self._random, self._controller.image.brokers
        broker_id = (
            replica_set.master if replica_set.master in brokers else draw.choice(sorted(brokers))
        )
        epoch = BrokerEpoch(brokers[broker_id].broker_epoch - (draw.random() < 0.3))
        masterships = (self._mastership(replica_set),) if draw.random() < 0.5 else ()
        return c.FenceBrokers(brokers=((broker_id, epoch),), masterships=masterships)

    def _broker(self, _: ReplicaSetImage) -> Asked:
        """A broker registers: the same process again, a new one, one of other disks."""
        draw, known = self._random, self._controller.image.brokers
        one = known[draw.choice(sorted(known))]
        command = c.RegisterBroker(
            broker_id=one.broker_id,
            host=one.host,
            port=one.port,
            rack=one.rack,
            ha_host=one.ha_host,
            ha_port=one.ha_port,
            identity=one.identity,
            incarnation=one.incarnation,
            directory_count=one.directory_count,
        )
        if draw.random() < 0.2:
            return command
        if draw.random() < 0.2:
            return replace(command, identity="another")
        return replace(command, incarnation=self._new_name())

    def _new_name(self) -> str:
        self._numbers += 1
        return f"trial {self._numbers}"

    def _log(self, replica_set: ReplicaSetImage) -> Asked:
        """A member tells of its log: the known one, or an empty one."""
        draw = self._random
        broker_id = draw.choice(replica_set.replicas)
        known = replica_set.log_ids.get(broker_id)
        log_id = known if known is not None and draw.random() < 0.2 else self._new_name()
        process = self._controller.image.brokers[broker_id].incarnation
        return c.RegisterReplica(
            replica_set_id=replica_set.replica_set_id,
            broker_id=broker_id,
            log_id=log_id,
            incarnation=draw.choice((process, process, "", "an earlier one")),
        )

    def _members(self, replica_set: ReplicaSetImage) -> Asked:
        """An operator takes a member away, or adds one."""
        draw, set_id = self._random, replica_set.replica_set_id
        others = sorted(self._controller.image.brokers.keys() - {*replica_set.replicas})
        if others and draw.random() < 0.5:
            return c.AddReplica(replica_set_id=set_id, broker_id=BrokerId(draw.choice(others)))
        return c.RemoveReplica(replica_set_id=set_id, broker_id=draw.choice(replica_set.replicas))

    def _policy(self, replica_set: ReplicaSetImage) -> Asked:
        draw = self._random
        required = draw.randint(1, 3)
        policy = AckPolicy(
            kind=draw.choice(list(PolicyKind)), required=required, minimum=draw.randint(1, required)
        )
        return c.SetAckPolicy(replica_set_id=replica_set.replica_set_id, policy=policy)

    def _unclean(self, replica_set: ReplicaSetImage) -> Asked:
        is_allowed = not replica_set.is_unclean_allowed and self._random.random() < 0.3
        return c.SetUncleanElection(
            replica_set_id=replica_set.replica_set_id, is_allowed=is_allowed
        )

    def _drain(self, replica_set: ReplicaSetImage) -> Asked:
        draw, brokers = self._random, self._controller.image.brokers
        broker_id = draw.choice(replica_set.replicas)
        if brokers[broker_id].is_draining and draw.random() < 0.7:
            return c.LeaveSyncStateSets(broker_id=broker_id)
        return c.DrainBroker(broker_id=broker_id, is_draining=draw.random() < 0.6)

    def _topics(self, _: ReplicaSetImage) -> Asked:
        """Two topics at once, of a size that may need new sets."""
        draw = self._random
        brokers = sorted(self._controller.image.brokers)
        topics = []
        for _number in range(2):
            some = tuple(draw.sample(brokers, draw.randint(1, len(brokers))))
            is_by_hand = draw.random() < 0.5
            topics.append(
                c.NewTopic(
                    name=self._new_name().replace(" ", "-"),
                    partition_count=-1 if is_by_hand else draw.choice((1, 3, 40)),
                    replication_factor=-1 if is_by_hand else len(some),
                    assignments=dict.fromkeys(range(draw.choice((1, 40))), some)
                    if is_by_hand
                    else {},
                )
            )
        return c.CreateTopics(topics=tuple(topics))


def _not_the_same(cluster: ClusterImage, other: ClusterImage) -> Iterator[str]:
    """Yield what a snapshot does not bring back."""
    for name in (
        "brokers",
        "replica_sets",
        "next_producer_id",
        "default_policy",
        "is_failover_enabled",
        "cluster_id",
        "partition_counts",
        "configuration",
    ):
        ours, theirs = getattr(cluster, name), getattr(other, name)
        if ours != theirs:
            yield f"a snapshot makes of {name} {ours}: {theirs}"
    topics, copied = topic_facts(cluster), topic_facts(other)
    if topics != copied:
        yield f"a snapshot makes of topics {topics}: {copied}"
