"""The node's housekeeper: jobs made from plans, and the parts that give it plans.

    Splits (plans of logs) ─► NodeSplitter (where the log is, whose cluster) ─► Housekeeper (port)
    ExtentRepairs ─► the other members of a set, by calls ─► BatchAnswers there

Nothing is started where the settings move nothing. What was moved is repaired in any case.
"""

from base64 import urlsafe_b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from hashlib import blake2b

from penstock.base.ids import ReplicaSetId
from penstock.broker.broker import Broker
from penstock.broker.sets.batch_answers import BatchAnswers
from penstock.broker.sets.extent_answers import ExtentAnswers
from penstock.broker.sets.extent_repairs import ExtentRepairs, Spawn
from penstock.broker.sets.housekeeping import Housekeeping
from penstock.broker.sets.pacing import Pacing
from penstock.coordinator.calls.extents import BatchesRequest, ExtentRequest
from penstock.housekeeper.messages import Answer, CleanJob, ShrinkJob, SplitJob
from penstock.housekeeper.pace import Pace
from penstock.housekeeper.port import Housekeeper
from penstock.node.layout import SetPlaces
from penstock.node.machine import DataDisk
from penstock.runtime.calls.broker_calls import BrokerCalls
from penstock.storage.config import LogConfig
from penstock.storage.second_level.cleaning_plan import CleaningPlan
from penstock.storage.second_level.planning import SplitPlan
from penstock.storage.second_level.shrinking import ShrinkPlan

CLUSTER_ID_BYTES = 16
_Plan = SplitPlan | CleaningPlan | ShrinkPlan


class NodeSplitter:
    """Makes a housekeeper's job from a log's plan; implements HousekeeperJobs."""

    def __init__(self, housekeeper: Housekeeper, places: SetPlaces, cluster_id: str) -> None:
        self._housekeeper = housekeeper
        self._places = places
        self.cluster_id = cluster_bytes(cluster_id)
        """16 bytes, as files have it."""

    @property
    def starts(self) -> int:
        """How often the housekeeper was started."""
        return self._housekeeper.starts

    def set_rate(self, bytes_per_second: int) -> None:
        """Tell the housekeeper its rate."""
        self._housekeeper.set_rate(bytes_per_second)

    def _where(
        self, replica_set_id: ReplicaSetId, plan: _Plan, unfinished: str
    ) -> tuple[str, str, str, bytes, ReplicaSetId, int]:
        """Return what every job begins with: where it is done, for which log, and what is left."""
        directory = str(self._places.place(replica_set_id).directory)
        place = directory, plan.directory, unfinished
        return *place, self.cluster_id, replica_set_id, plan.reserve_bytes

    def split(
        self,
        replica_set_id: ReplicaSetId,
        plan: SplitPlan,
        unfinished: str,
        done: Callable[[Answer], None],
    ) -> None:
        """Have a file made; see Splitter."""
        job = SplitJob(
            *self._where(replica_set_id, plan, unfinished),
            plan.batch_bytes,
            plan.bases,
            tuple(plan.wanted.items()),
        )
        self._housekeeper.submit(job, done)

    def clean(
        self,
        replica_set_id: ReplicaSetId,
        plan: CleaningPlan,
        unfinished: str,
        done: Callable[[Answer], None],
    ) -> None:
        """Have a partition cleaned into a file; see Cleaner."""
        job = CleanJob(
            *self._where(replica_set_id, plan, unfinished),
            plan.order,
        )
        self._housekeeper.submit(job, done)

    def shrink(
        self,
        replica_set_id: ReplicaSetId,
        plan: ShrinkPlan,
        unfinished: str,
        done: Callable[[Answer], None],
    ) -> None:
        """Have a file written anew without what is not held of it; see Shrinker."""
        job = ShrinkJob(
            *self._where(replica_set_id, plan, unfinished),
            plan.file_number,
            plan.batch_bytes,
            plan.kept,
        )
        self._housekeeper.submit(job, done)


def cluster_bytes(cluster_id: str) -> bytes:
    """Return a cluster id as files have it: the 16 bytes that it encodes, or a hash of its text."""
    with suppress(NotBase64, ValueError):
        data = urlsafe_b64decode(f"{cluster_id}==")
        if len(data) == CLUSTER_ID_BYTES:
            return data
    return blake2b(cluster_id.encode(), digest_size=CLUSTER_ID_BYTES).digest()


def split_logs(
    config: LogConfig,
    housekeeping: Housekeeping,
    splitter: NodeSplitter,
    disks: Iterable[DataDisk],
    token: str,
) -> None:
    """Have a node's logs split and cleaned from now on, where the settings move anything.

    `disks` are those whose syncs the housekeeper gives way to. `token` is of this start of the node
    alone.
    """
    if config.moves:
        pace = Pace(config.housekeeper_bytes_per_second, config.housekeeper_sync_ms * 1000)
        pacing = Pacing(pace, partial(_sync_counts, disks), splitter.set_rate)
        housekeeping.split_by(splitter, pacing, token)


def _sync_counts(disks: Iterable[DataDisk]) -> list[int]:
    """Return how long the syncs of all disks took, in buckets as of Histogram."""
    buckets = (disk.stats.sync_times.buckets for disk in disks)
    return [sum(counts) for counts in zip(*buckets, strict=True)]


def repair_extents(
    broker: Broker,
    housekeeping: Housekeeping,
    calls: BrokerCalls,
    spawn: Spawn,
    splitter: NodeSplitter,
) -> None:
    """Repair this node's second levels from now on, and give others what theirs have lost."""
    calls.server.serve(BatchesRequest, BatchAnswers(broker).give)
    calls.server.serve(ExtentRequest, ExtentAnswers(broker).give)
    housekeeping.repairs = ExtentRepairs(broker, calls, spawn, splitter.cluster_id)
