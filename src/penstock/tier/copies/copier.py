"""Copies the log of a replica set into the tier, for one mastership; decides, and does nothing.

    FENCE ─► READ ─► CUT ─► IDLE ─► RESERVE ─► UPLOAD ─► COMMIT ─► IDLE ...
               ▲                      │ refused, since the manifest is another one, or ids expired
               └──────────────────────┘
    any refusal of the tenure ─► DEPOSED, for good

    beside IDLE and UPLOAD: a merge (merge.py), one at a time; the copying does not wait for it

    take(now) gives what is to be done, each thing once; the outcomes come back by answered(),
    put(), failed() and looked(). An answer that was lost: unanswered(), and it is asked again.

What matters, and why: the fence comes before the manifest is read, since until then an older master
may commit. The cut comes before the first copy, since the tier may have what the log has lost in an
unclean election. Ids are reserved before a put, since an object that nobody knows by name lies
there for ever. Deletes come when the log start is durable.

Source: docs/adr/0117. The order of KIP-405's RemoteLogManager, with a fence that Kafka lacks.

Each upload and each look has an outcome at the copier: whoever does them sees to that, with a time
limit.

Deliberately not here: how an object is built, what is worth copying, retries and their pauses.
"""

from collections.abc import Sequence
from enum import Enum

from penstock.base.ids import TopicPartition
from penstock.base.invariant import invariant
from penstock.tier.copies.alignment import agreed_end
from penstock.tier.copies.effects import Ask, Built, CopiedLog, Effect, Plan
from penstock.tier.copies.merge import Merge
from penstock.tier.copies.merge_plan import Mergers
from penstock.tier.copies.uploads import Uploads
from penstock.tier.metadata.commands import (
    Answer,
    Command,
    Commit,
    Committed,
    Expected,
    Fence,
    Fenced,
    Manifests,
    Read,
    Reason,
    Refused,
    Reserve,
    Reserved,
    Tenure,
)
from penstock.tier.metadata.manifest import EventGroup, Kind, Manifest
from penstock.tier.metadata.objects import ROUND_OBJECTS_MAX
from penstock.tier.metadata.times import TierTimes
from penstock.tier.names import ObjectName

EVENT_RUNS_MAX = 1000
"""Runs that go by one commit: bounds what the metadata writes at once; more follow in the next."""


class Step(Enum):
    """What a copier is at."""

    FENCE = "fence"
    READ = "read"
    CUT = "cut"
    IDLE = "idle"
    RESERVE = "reserve"
    UPLOAD = "upload"
    COMMIT = "commit"
    DEPOSED = "deposed"


class Copier:
    """One mastership's copying. `nonce`: random, other than that of every other copier."""

    def __init__(
        self,
        fence: Fence,
        cluster_id: bytes,
        log: CopiedLog,
        times: TierTimes,
        mergers: Mergers | None = None,
    ) -> None:
        """`mergers` tells what is to be merged; None: nothing is."""
        self._fence = fence
        self._mergers = mergers
        self._merge: Merge | None = None
        self._cluster_id = cluster_id
        self._log = log
        self._times = times
        self.step = Step.FENCE
        self.manifests: dict[TopicPartition, Manifest] = {}
        """The partitions in the tier, as this copier has read and changed them."""
        self._tenure: Tenure | None = None
        self._last_request = 0
        self._asked: Command | None = None
        """The command that waits for its answer."""
        self._waiting: list[Effect] = []
        self._asked_ms = 0
        self._plans: Sequence[Plan] = ()
        self._uploads: Uploads | None = None

    @property
    def is_open(self) -> bool:
        """Whether the tier has nothing that the log has not, and nobody else can change that."""
        return self.step in {Step.IDLE, Step.RESERVE, Step.UPLOAD, Step.COMMIT}

    @property
    def has_commit(self) -> bool:
        """Whether what is in the store waits to be committed: its ids have a deadline."""
        if self._merge is not None and self._merge.is_over:
            return self.is_open and self._asked is None
        if self.step is not Step.COMMIT or self._uploads is None:
            return False
        return bool(self._uploads.committable(self.manifests)[1])

    def take(self, now_ms: int) -> list[Effect]:
        """Return what is to be begun now. `now_ms` never goes back."""
        if self._asked is None and self.step is not Step.DEPOSED:
            command = self._next_command()
            if command is not None:
                self._asked, self._asked_ms = command, now_ms
                self._waiting.append(Ask(command))
        taken, self._waiting = self._waiting, []
        return taken

    def unanswered(self) -> None:
        """Take note that no answer to the command will come: the same is asked again."""
        if self._asked is not None:
            self._waiting.append(Ask(self._asked))

    def _next_command(self) -> Command | None:
        match self.step:
            case Step.FENCE:
                return self._fence
            case Step.READ:
                return Read(tuple(self._log.partitions()))
            case Step.CUT:
                return self._commit((), self._cuts()) or self._idle()
            case Step.IDLE | Step.COMMIT:
                copies = self._copies() if self.step is Step.COMMIT else None
                return copies or self._idle()
            case Step.UPLOAD:
                return self._merging()
            case Step.RESERVE | Step.DEPOSED:
                return None

    def _idle(self) -> Command | None:
        """Return what there is to do when nothing is under way."""
        self.step = Step.IDLE
        partitions = self._log.partitions()
        if any(one not in self.manifests for one in partitions):
            self.step = Step.READ
            return Read(tuple(partitions))
        deletes = self._commit((), self._emptied() or self._deletes())
        if deletes is not None:
            return deletes
        if (merging := self._merging()) is not None:
            return merging
        ends = {key: manifest.end_offset for key, manifest in self.manifests.items()}
        self._plans = self._log.plans(ends, ROUND_OBJECTS_MAX)
        if not self._plans:
            return None
        self.step = Step.RESERVE
        return Reserve(self._own_tenure(), self._next_request(), len(self._plans))

    def _merging(self) -> Command | None:
        """Return what the merge needs; without one, what begins the next."""
        if self._merge is None:
            plan = () if self._mergers is None else self._mergers.plan(self.manifests)
            if not plan:
                return None
            self._merge = Merge(plan)
            request = self._next_request()
            self._merge.asked = Reserve(self._own_tenure(), request, 1, is_to_replace=True)
            return self._merge.asked
        if not self._merge.is_over:
            return None
        written, events = self._merge.committable(self.manifests)
        if not events:
            self._merge = None
            return None
        self._merge.asked = Commit(self._own_tenure(), self._next_request(), written, events)
        return self._merge.asked

    def may_free(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Whether disks may be freed up to an offset where a run ends: it will go on to end there.

        Else the tier would seem to have nothing below, when its runs are one.
        """
        return self._merge is None or not self._merge.is_within(topic_partition, offset)

    def _cuts(self) -> list[EventGroup]:
        """Return the events that take from the tier what the log does not have."""
        cuts, left = [], EVENT_RUNS_MAX
        for key, manifest in self.manifests.items():
            end = agreed_end(manifest.snapshot(), self._log.own(key))
            if end < manifest.end_offset and manifest.runs and left:
                last = manifest.runs[-left:]
                going = sum(run.end_offset > end for run in last)
                cuts.append(EventGroup(Kind.CUT, key, offset=max(end, last[0].first_offset)))
                left -= going
        return cuts

    def _emptied(self) -> list[EventGroup]:
        """Return the events that take from the tier what it is to have nothing of any more.

        From the end on, so that what is copied later may begin wherever the log does then. A
        manifest with more give-ups than this master knows of is newer than what it knows.
        """
        events, left = [], EVENT_RUNS_MAX
        for key, manifest in self.manifests.items():
            own = self._log.own(key)
            is_older = manifest.give_ups < own.give_ups
            is_emptied = own.is_emptied and manifest.give_ups == own.give_ups
            if manifest.runs and left and (is_older or is_emptied):
                last = manifest.runs[-left:]
                events.append(EventGroup(Kind.CUT, key, offset=last[0].first_offset))
                left -= len(last)
            elif is_older and left:
                events.append(EventGroup(Kind.GIVE_UP, key, give_ups=own.give_ups))
                left -= 1
        return events

    def _deletes(self) -> list[EventGroup]:
        """Return the events that take from the tier what is below the log start."""
        deletes, left = [], EVENT_RUNS_MAX
        for key, manifest in self.manifests.items():
            start = self._log.own(key).log_start
            if manifest.runs and start > manifest.start_offset and left:
                first = manifest.runs[:left]
                going = sum(run.end_offset <= start for run in first)
                if going == left:
                    start = first[-1].end_offset
                deletes.append(EventGroup(Kind.DELETE, key, offset=start))
                left -= going
        return deletes

    def _copies(self) -> Command | None:
        assert self._uploads is not None
        written, events = self._uploads.committable(self.manifests)
        self._uploads = None
        if not events:
            return None
        return Commit(self._own_tenure(), self._next_request(), written, events)

    def _commit(self, written: tuple[()], groups: Sequence[EventGroup]) -> Command | None:
        if not groups:
            return None
        events = [
            Expected(self.manifests[one.topic_partition].last_event_id, one) for one in groups
        ]
        return Commit(self._own_tenure(), self._next_request(), written, tuple(events))

    def _own_tenure(self) -> Tenure:
        assert self._tenure is not None
        return self._tenure

    def _next_request(self) -> int:
        self._last_request += 1
        return self._last_request

    def answered(self, command: Command, answer: Answer) -> None:
        """Take an answer; one to a command that is not asked any more is ignored."""
        if command != self._asked:
            return
        self._asked = None
        merge = self._merge if self._merge is not None and command == self._merge.asked else None
        match answer:
            case Refused(reason) if merge is not None:
                self._merge_refused(reason)
            case Refused(reason):
                self._refused(reason)
            case Fenced(tenure):
                self._tenure = tenure
                self.step = Step.READ
            case Manifests(snapshots):
                self.manifests = {key: Manifest(one) for key, one in snapshots.items()}
                self.step = Step.CUT
            case Reserved((object_id,)) if merge is not None:
                self._waiting += merge.begin(self._name(object_id), self._deadline_ms())
            case Reserved(object_ids):
                self._begin_uploads(object_ids)
            case Committed():
                assert isinstance(command, Commit)
                self._committed(command, merge)
            case _:
                invariant(False, "an answer to something else", command=command, answer=answer)

    def _refused(self, reason: Reason) -> None:
        self._uploads = None
        self.step = Step.DEPOSED if reason is Reason.FENCED else Step.READ

    def _merge_refused(self, reason: Reason) -> None:
        """The merge is given up; a round of copies that is under way goes on."""
        self._merge = None
        if reason is Reason.FENCED or self.step is Step.IDLE:
            self._refused(reason)

    def _name(self, object_id: int) -> ObjectName:
        return ObjectName(self._cluster_id, *self._own_tenure()[:2], object_id)

    def _deadline_ms(self) -> int:
        """The service's counts from when it took the command: not before it was sent."""
        return self._asked_ms + self._times.upload_ms

    def _begin_uploads(self, object_ids: Sequence[int]) -> None:
        names = [self._name(one) for one in object_ids]
        self._uploads = Uploads(names, self._plans[: len(names)])
        self._waiting += self._uploads.begin(self._deadline_ms())
        self.step = Step.UPLOAD

    def _committed(self, command: Commit, merge: Merge | None) -> None:
        for _, group in command.events:
            self.manifests[group.topic_partition].apply(group)
        if merge is not None:  # copies may be under way, or wait to be committed
            self._merge = None
        elif self.step is not Step.CUT:  # a cut may need further ones before anything is copied
            self.step = Step.IDLE

    def put(self, object_id: int, built: Built) -> None:
        """Take note that an object is in the store."""
        if (uploads := self._round_of(object_id)) is not None:
            uploads.put(object_id, built)
            self._look_whether_over(uploads)

    def failed(self, object_id: int, built: Built | None) -> None:
        """Take note of an upload that failed or took too long; None: before anything was put."""
        if (uploads := self._round_of(object_id)) is not None:
            self._waiting += uploads.failed(object_id, built)
            self._look_whether_over(uploads)

    def looked(self, object_id: int, object_bytes: int | None) -> None:
        """Take note of the size of an object in the store; None: it is not there, or unknown."""
        if (uploads := self._round_of(object_id)) is not None:
            uploads.looked(object_id, object_bytes)
            self._look_whether_over(uploads)

    def _round_of(self, object_id: int) -> Uploads | None:
        """Return the present round, or the merge, if the object is of it."""
        merged = None if self._merge is None else self._merge.uploads
        rounds = (one for one in (self._uploads, merged) if one is not None)
        return next((one for one in rounds if one.has(object_id)), None)

    def _look_whether_over(self, uploads: Uploads) -> None:
        if uploads is self._uploads and uploads.are_over:
            self.step = Step.COMMIT
