"""What operators do to the cluster as a whole: level what brokers lead, take its level back.

    spread   status ─► plan ─► a transfer for each move, while masters and plans change meanwhile
    level    a look ─► on trial ─► down by one, again until it is done; up again when it is over
    trial    every setting of topics, as it is and wrongly; names that can not be; a set that is
             there already

A plan must keep its word whatever the status was that it was made of, and what is right or wrong by
itself is so amid faults as well: see `wrong`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Any

from penstock.base.ids import ReplicaSetId, RequestId, TopicId
from penstock.cli.leader_plan import LeaderPlan, Move, plan_leaders
from penstock.configs.entry import ConfigEntry, ConfigType
from penstock.controller.commands.command import (
    AlterConfigs,
    Command,
    ConfigEdit,
    ConfigOperation,
    CreateReplicaSet,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    ResourceEdits,
    TopicReference,
)
from penstock.controller.commands.spread import Place, conflicts
from penstock.controller.errors import MetadataError
from penstock.controller.metadata.levels import FIRST_LEVEL, METADATA, METADATA_LEVELS
from penstock.controller.metadata.records import ResourceType
from penstock.controller.session import StatusAnswer, TransferRequest
from penstock.controller.topic_config.describe import broker_defaults
from penstock.controller.topic_config.local import REMOTE
from penstock.controller.topic_config.table import (
    UNCLEAN,
    TopicSettings,
    needs_level_2,
)
from penstock.node.node import Node
from penstock.runtime.session.messages import ChangeFeature, FeaturesRequest
from simulator.run.cluster import SimCluster
from simulator.run.plan import Fault, FaultKind
from simulator.run.topology import TOPIC

AGAIN_SECONDS = 0.1
NO_VALUE = "no value of any type"
NO_TOPIC = TopicId(b"nobody's topic id")
_TYPED = {ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN, ConfigType.DOUBLE}

Heal = Callable[[], None]


class Upkeep:
    """See the module, and doing.py."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self.wrong: list[str] = []
        """Plans that do not what they say, answers that can not be."""

    def kinds(self) -> Mapping[FaultKind, Callable[[Fault], Heal | None]]:
        """Return what begins each kind of wish."""
        return {
            FaultKind.SPREAD: self._spread,
            FaultKind.TRIAL: self._trial,
            FaultKind.LEVEL: self._level,
        }

    def _spread(self, _: Fault) -> Heal | None:
        return _nothing if self._cluster.ask("spread", self._level_leaders) else None

    async def _level_leaders(self, node: Node) -> None:
        assert node.sessions is not None
        status = await node.sessions.commands.status()
        plan = plan_leaders(status)
        self.wrong += wrong_with(plan, status)
        for move in plan.moves:
            try:
                await node.sessions.commands.operate(partial(_transfer, move))
            except MetadataError:
                continue  # the cluster is another one by now; the next move may still be done

    def _trial(self, _: Fault) -> Heal | None:
        return _nothing if self._cluster.ask("trial", self._try_what_changes_nothing) else None

    async def _try_what_changes_nothing(self, node: Node) -> None:
        assert node.sessions is not None
        for is_right, command in settings_on_trial():
            outcomes = await node.sessions.submit(command)
            told = [outcome for outcome in outcomes if is_right is (outcome.error is not None)]
            self.wrong += [f"{command} is answered by {one}" for one in told]
        await node.sessions.submit(DeleteTopics(topics=(TopicReference(topic_id=NO_TOPIC),)))
        for set_id, one in sorted(node.image.replica_sets.items()):
            there: Command[int] = CreateReplicaSet(
                replica_set_id=ReplicaSetId(set_id), replicas=one.replicas
            )
            told_id = await node.sessions.submit(there)
            if told_id != set_id:
                self.wrong.append(f"{there} is answered by {told_id}")

    def _level(self, _: Fault) -> Heal | None:
        is_over = False

        async def down(node: Node) -> None:
            assert node.sessions is not None
            await node.sessions.commands.operate(lambda number: FeaturesRequest(request_id=number))
            while not is_over and node.image.metadata_level > FIRST_LEVEL:
                try:
                    for is_trial in (True, False):
                        change = _change(FIRST_LEVEL, is_trial=is_trial)
                        await node.sessions.commands.operate(change)
                except MetadataError:  # somebody is not heard, most likely
                    await asyncio.sleep(AGAIN_SECONDS)

        def up(node: Node) -> Coroutine[Any, Any, object]:
            assert node.sessions is not None
            return node.sessions.commands.operate(_change(METADATA_LEVELS.highest))

        def heal() -> None:
            nonlocal is_over
            is_over = True
            self._cluster.insist_on(
                "level back", up, lambda image: image.metadata_level == METADATA_LEVELS.highest
            )

        return heal if self._cluster.ask("level", down) else None


def settings_on_trial() -> Iterator[tuple[bool | None, Command[Any]]]:
    """Yield commands that change nothing, and whether all, or none, of what each asks for can be.

    None: it is a matter of the level.
    """
    entries = broker_defaults(TopicSettings())
    left_out = (UNCLEAN, REMOTE)
    kept = [one for one in entries if one.name not in left_out and not _is_list(one)]
    yield True, _alter(*(_set(one.name, one.value) for one in kept if not _needs_level_2(one)))
    for one in kept:
        if one.config_type in _TYPED:
            yield False, _alter(_set(one.name, NO_VALUE))
    for is_right, operation in ((None, ConfigOperation.APPEND), (True, ConfigOperation.SUBTRACT)):
        cleanup = ConfigEdit(key="cleanup.policy", operation=operation, value="compact")
        yield is_right, _alter(cleanup)
    names = ("no/name", "..", "")
    yield (
        False,
        CreateTopics(topics=tuple(NewTopic(name=name) for name in names), validate_only=True),
    )


def _transfer(move: Move, request_id: int) -> TransferRequest:
    set_id, target = move.replica_set_id, move.target
    return TransferRequest(request_id=RequestId(request_id), replica_set_id=set_id, target=target)


def _is_list(entry: ConfigEntry) -> bool:
    return entry.config_type is ConfigType.LIST


def _needs_level_2(entry: ConfigEntry) -> bool:
    return needs_level_2(entry.name, entry.value or "")


def _set(key: str, value: str | None) -> ConfigEdit:
    return ConfigEdit(key=key, operation=ConfigOperation.SET, value=value)


def _alter(*edits: ConfigEdit) -> AlterConfigs:
    resource = ResourceEdits(resource_type=ResourceType.TOPIC, resource_name=TOPIC, edits=edits)
    return AlterConfigs(resources=(resource,), validate_only=True)


def wrong_with(plan: LeaderPlan, status: StatusAnswer) -> list[str]:
    """Say what a plan does that it must not, by rules of its own."""
    sets = {replica_set.replica_set_id: replica_set for replica_set in status.sets}
    loads, found = dict(plan.before), []
    for move in plan.moves:
        one = sets.pop(move.replica_set_id, None)
        if one is None:
            found.append(f"{move} moves what was moved before")
        elif move.target not in one.sync_state_set or move.source != one.master:
            found.append(f"{move} is not from the master to a member in step")
        if loads.get(move.target, 0) + move.weight >= loads.get(move.source, 0):
            found.append(f"{move} levels nothing of {loads}")
        loads[move.source] = loads.get(move.source, 0) - move.weight
        loads[move.target] = loads.get(move.target, 0) + move.weight
    if loads != plan.after:
        found.append(f"{plan.after} is said, and {loads} comes of it")
    return [*found, *_not_named(status)]


def _not_named(status: StatusAnswer) -> list[str]:
    """Say which sets have members on one computer without that somebody is told of it."""
    places = {broker.broker_id: Place(broker.machine, broker.rack) for broker in status.brokers}
    found = []
    for replica_set in status.sets:
        members = [member.broker_id for member in replica_set.members]
        machines = [place for key in members if key in places and (place := places[key].machine)]
        if len(set(machines)) < len(machines) and not list(conflicts(members, places)):
            found.append(f"set {replica_set.replica_set_id} is on {machines}, and nobody is told")
    return found


def _change(level: int, *, is_trial: bool = False) -> Callable[[RequestId], ChangeFeature]:
    def request(request_id: int) -> ChangeFeature:
        return ChangeFeature(
            request_id=RequestId(request_id),
            feature=METADATA,
            level=level,
            is_lowering=level == FIRST_LEVEL,
            is_trial=is_trial,
        )

    return request


def _nothing() -> None:
    """End what has ended by itself."""
