"""Check: when a run is idle at its end, store, metadata and logs agree.

    each set      its master has the metadata loaded; all that may be copied is copied
                  every object that has a row is live: whoever leads looks after the others
    the store     has the objects of these rows, and no others: no orphan outlives its time
    a topic       that was deleted has no run, and so no object; one that gave its copies up is
                  counted as often in the metadata as in the image
    the log       has what was copied, offset by offset, from its start on; the tier may begin
                  later, since each member deletes by itself (ADR 0030)

What takes its time (a retry, the grace of an object) is waited for with `hurry`. Where a wall clock
was set to another time objects may stay until that has come again, since the metadata's time never
goes back: there nothing is said of objects that wait to be deleted.
"""

from collections.abc import Iterable, Iterator

from penstock.base.ids import TopicPartition
from penstock.controller.commands.topic_names import TIER_STATE_TOPIC
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.topic_config.local import REMOTE
from penstock.node.node import Node
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.tier.metadata.objects import State
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.names import parse_name
from simulator.checks.member_logs import read_member
from simulator.checks.tier.contents import text_of
from simulator.checks.tier.promises import TierPromises
from simulator.kernel.distant_store import SharedStore
from simulator.run.server import Server


class TierAtRest:
    """See the module."""

    def __init__(
        self,
        servers: Iterable[Server],
        promises: TierPromises,
        store: SharedStore,
        *,
        is_time_right: bool,
    ) -> None:
        """`is_time_right`: no wall clock was set to another time."""
        self._servers = [*servers]
        self._promises = promises
        self._store = store
        self._is_time_right = is_time_right

    def problems(self, image: ClusterImage) -> list[str]:
        """Name what does not agree yet, or at all."""
        found: list[str] = []
        known: set[str] = set()
        for server, member in self._masters(image):
            metadata = self._metadata(server, member)
            if metadata is None:
                found.append(f"{server.name} has no metadata of set {member.replica_set_id}")
                continue
            known |= {str(row.name) for row in metadata.objects.rows.values()}
            texts = self._of_set(metadata, member, image)
            found += (f"set {member.replica_set_id}: {text}" for text in texts)
        if not found:
            found += self._of_store(known)
        return found

    def _masters(self, image: ClusterImage) -> Iterator[tuple[Server, ReplicaSetMember]]:
        """Yield who leads the sets that have a partition of the tier's metadata."""
        topic = image.topics_by_name.get(TIER_STATE_TOPIC)
        set_ids = () if topic is None else topic.partitions.set_ids
        for server in self._servers:
            node = server.node
            manager = node.manager if isinstance(node, Node) else None
            for set_id, member in [] if manager is None else manager.members.items():
                if set_id in set_ids and member.role is Role.MASTER:
                    yield server, member

    def _metadata(self, server: Server, member: ReplicaSetMember) -> TierMetadata | None:
        process = server.process
        masterships = None if process is None else self._promises.masterships.get(process.number)
        return None if masterships is None else masterships.metadata_of(member.replica_set_id)

    def _of_set(
        self, metadata: TierMetadata, member: ReplicaSetMember, image: ClusterImage
    ) -> Iterator[str]:
        for key in metadata.partitions():
            manifest = metadata.manifest(key)
            if manifest.runs and key.topic_id not in image.topics_by_id:
                yield f"{text_of(key)} was deleted, and has {len(manifest.runs)} runs"
            count = image.configuration.give_ups.get(key.topic_id, 0)
            if key.topic_id in image.topics_by_id and manifest.give_ups != count:
                yield f"{text_of(key)} was given up, and the tier counts {manifest.give_ups}"
        for key in self._waiting(metadata, member, image):
            yield f"{text_of(key)} is not copied beyond {metadata.manifest(key).end_offset}"
        for row in metadata.objects.rows.values():
            if row.state is not State.LIVE and self._is_time_right:
                yield f"{row.name} is {row.state.value}"

    def _waiting(
        self, metadata: TierMetadata, member: ReplicaSetMember, image: ClusterImage
    ) -> list[TopicPartition]:
        """Return the partitions of which there are extents that may be copied and are not."""
        ends = {
            key: int(partition.log_end_offset)
            for key, partition in member.log.partitions.items()
            if (topic := image.topics_by_id.get(key.topic_id)) is not None
            and topic.configs.get(REMOTE) == "true"
        }
        tier_ends = {key: metadata.manifest(key).end_offset for key in ends}
        return list(member.log.splitting.copies.waiting(tier_ends, ends))

    def _of_store(self, known: set[str]) -> Iterator[str]:
        there = {name for name in self._store.bucket.objects if parse_name(name) is not None}
        yield from (f"{name} is not in the store" for name in sorted(known - there))
        if self._is_time_right:
            yield from (f"{name} is known to nobody" for name in sorted(there - known))

    async def differences(self, image: ClusterImage) -> list[str]:
        """Read the logs of the masters; name what was copied and is not so there."""
        found: list[str] = []
        for server, member in [*self._masters(image)]:
            metadata = self._metadata(server, member)
            if metadata is None:
                continue
            for key in metadata.partitions():
                for run in metadata.manifest(key).runs:
                    found += self._promises.contents.take(run)
                if key in member.log.partitions:
                    found += await self._of_log(server, member, key)
        return found

    async def _of_log(
        self, server: Server, member: ReplicaSetMember, key: TopicPartition
    ) -> list[str]:
        partition = member.log.partitions[key]
        log_start = int(partition.log_start_offset)
        read = await read_member(server, member, partition)
        if read.complaint:
            return [f"{server.name}: {text_of(key)}: {read.complaint}"]
        batches = (batch for _, batch in read.batches)
        return list(self._promises.contents.differences(key, batches, log_start))
