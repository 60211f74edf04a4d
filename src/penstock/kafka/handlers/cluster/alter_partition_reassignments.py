"""AlterPartitionReassignments (key 45), versions 0 and 1: other replicas for partitions.

    the partitions of a set, all with the same replicas ─► the set gets these members
    replicas null, for any of its partitions            ─► the set goes back to those that it had
    anything else                                       ─► INVALID_REPLICA_ASSIGNMENT, says why

Members belong to replica sets: a partition can not get others than the rest of its set, and does
not move to another set. So a request names every partition of a set; those of internal topics
follow unnamed. What is asked for that is so already, or is under way, is no error. Needs permission
to alter the cluster. The answer says that the target is recorded; ListPartitionReassignments tells
what is left to do.

Source: Kafka `ControllerApis.handleAlterPartitionReassignments`, KIP-455, KIP-860; ADR 0129.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.broker.access import Operation, Resource
from penstock.broker.broker import Broker
from penstock.broker.errors import UnknownPartition
from penstock.broker.submitting import submit
from penstock.broker.turns import Pace
from penstock.controller.commands.reassignment.commands import Reassign, SetTarget
from penstock.controller.commands.replica_sets import REPLICAS_MAX
from penstock.controller.commands.topic_names import INTERNAL_TOPICS
from penstock.controller.errors import InvalidReplicaAssignment, MetadataError
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import find_topic, refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.ALTER_PARTITION_REASSIGNMENTS
VERSIONS = range(2)

SETS_AT_ONCE = 100
"""Sets of one command; a request for more makes several."""

Named = dict[str, dict[int, ReplicaSetId | None]]
"""By topic and partition: its set, None for a partition that is not there."""
Outcomes = dict[ReplicaSetId, PlatformError | None]
Replicas = tuple[BrokerId, ...]


@dataclass(slots=True)
class _Wish:
    """What a request says of a set: how many of its partitions it names, and their targets."""

    named: int = 0
    targets: list[Replicas | None] = field(default_factory=list)
    """Each once; two are one too many, and what is behind them is not looked at."""

    def add(self, target: Replicas | None) -> None:
        """Note what is wanted for a partition."""
        if len(self.targets) < 2 and target not in self.targets:
            self.targets.append(target)


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Record the targets, and answer for each partition."""
    body, broker, pace = request.body, context.broker, Pace(request.turns)
    may_resize = getattr(body, "allow_replication_factor_change", True)
    named: Named = {}
    wishes: dict[ReplicaSetId, _Wish] = {}
    refused = refusal(context, Operation.ALTER, Resource.CLUSTER)
    for topic in body.topics:
        for one in topic.partitions:
            await pace.step()
            if refused is None:
                _note(broker, topic.name, one, named, wishes)
            else:  # what a set has in common would tell which topics are there
                named.setdefault(topic.name, {})[one.partition_index] = None
    outcomes: Outcomes = {}
    if refused is None:
        outcomes = await _reassign(broker, named, wishes, may_resize, pace)
    explained: set[ReplicaSetId | None] = {None}
    answers: list[Mapping[str, object]] = []
    for name, partitions in named.items():
        rows: list[Mapping[str, object]] = []
        for partition, set_id in partitions.items():
            await pace.step()
            error = refused or (UnknownPartition() if set_id is None else outcomes[set_id])
            fields = error_fields(error)
            if error is not None and set_id in explained and set_id is not None:
                fields["error_message"] = f"As other partitions of replica set {set_id}."
            explained.add(set_id)
            rows.append({"partition_index": partition, **fields})
        answers.append({"name": name, "partitions": rows})
    return {
        **error_fields(refused),
        "allow_replication_factor_change": may_resize,
        "responses": answers,
    }


def _note(
    broker: Broker, name: str, one: Any, named: Named, wishes: dict[ReplicaSetId, _Wish]
) -> None:
    topic, partition = find_topic(broker, name), one.partition_index
    set_id = None
    if topic is not None and 0 <= partition < len(topic.partitions):
        set_id = topic.partitions.set_ids[partition]
        wish = wishes.setdefault(set_id, _Wish())
        wish.named += partition not in named.get(name, ())
        wish.add(one.replicas)
    named.setdefault(name, {})[partition] = set_id


async def _reassign(
    broker: Broker, named: Named, wishes: Mapping[ReplicaSetId, _Wish], may_resize: bool, pace: Pace
) -> Outcomes:
    """Have the targets recorded that are possible; return what came of each set."""
    followers = await _unnamed_internal(broker, named, pace)
    outcomes: Outcomes = {}
    targets: list[SetTarget] = []
    for set_id, wish in wishes.items():
        await pace.step()
        try:
            target = _target(broker, set_id, wish, followers[set_id], may_resize)
        except InvalidReplicaAssignment as error:
            outcomes[set_id] = error.with_traceback(None)
            continue
        outcomes[set_id] = None
        if target is not None:
            targets.append(target)
    for at in range(0, len(targets), SETS_AT_ONCE):
        outcomes.update(await _submit(broker, targets[at : at + SETS_AT_ONCE]))
    return outcomes


async def _submit(broker: Broker, targets: Sequence[SetTarget]) -> Outcomes:
    answer = await submit(broker, Reassign(sets=tuple(targets)))
    if isinstance(answer, MetadataError):
        return {one.replica_set_id: answer for one in targets}
    pairs = zip(targets, answer, strict=True)
    return {target.replica_set_id: outcome.error for target, outcome in pairs}


async def _unnamed_internal(broker: Broker, named: Named, pace: Pace) -> "Counter[ReplicaSetId]":
    """Count the partitions of internal topics that the request does not name, by their sets."""
    counts: Counter[ReplicaSetId] = Counter()
    for name in sorted(INTERNAL_TOPICS):
        topic = find_topic(broker, name)
        for partition, set_id in enumerate(() if topic is None else topic.partitions.set_ids):
            await pace.step()
            counts[set_id] += partition not in named.get(name, ())
    return counts


def _target(
    broker: Broker, set_id: ReplicaSetId, wish: _Wish, followers: int, may_resize: bool
) -> SetTarget | None:
    """Return what to ask the controller, None for what is so already.

    Raises InvalidReplicaAssignment.
    """
    image = broker.metadata
    replica_set = image.replica_sets[set_id]
    known = image.configuration.reassignments.get(set_id)
    if len(wish.targets) > 1:
        raise InvalidReplicaAssignment(
            f"The request names different replicas for partitions of replica set {set_id}, which"
            " have the same: name the same for all of them."
        )
    (target,) = wish.targets
    if target is None:
        return SetTarget(replica_set_id=set_id, replicas=None)
    if not 0 < len(target) <= REPLICAS_MAX:
        raise InvalidReplicaAssignment(
            f"A partition has 1 to {REPLICAS_MAX} replicas, not {len(target)}."
        )
    if target == (replica_set.replicas if known is None else known.target):
        return None
    count = image.partition_counts[set_id]
    if wish.named + followers < count:
        raise InvalidReplicaAssignment(
            f"The {count} partitions of replica set {set_id} have the replicas"
            f" {list(replica_set.replicas)} together and get others together; this request names"
            f" {wish.named} of them. Name all that are not of internal topics, with the same"
            f" replicas, or use penstock set add {set_id} and penstock set remove {set_id}. A"
            " partition does not move to another set."
        )
    return SetTarget(
        replica_set_id=set_id, replicas=target, partition_count=count, may_resize=may_resize
    )
