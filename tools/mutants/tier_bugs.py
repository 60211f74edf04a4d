"""Bugs of the tier: each rule of its fence left out, and what else its safety rests on."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Tier"
OBJECTS = "tier/metadata/objects.py"
STATE = "tier/metadata/state.py"
MANIFEST = "tier/metadata/manifest.py"
COPIER = "tier/copies/copier.py"
UPLOADS = "tier/copies/uploads.py"
NAMES = "tier/names.py"
READER = "tier/read/reader.py"
REBUILD = "tier/read/rebuild.py"
SCRUB = "tier/read/scrub.py"
ALIGNMENT = "tier/copies/alignment.py"
MODEL = ("tests/tier/test_copies_model.py",)
METADATA = ("tests/tier/test_metadata.py",)
COPYING = ("tests/tier/test_copier.py",)
STORES = ("tests/tier/test_stores.py",)
READING = ("tests/tier/test_reader.py",)
OBJECT_CHECKS = ("tests/tier/test_objects.py",)
TABLE = "tier/service/table.py"
LOADING = "tier/service/loading.py"
ASKING = "tier/service/coordinator.py"
SERVICE = ("tests/tier/test_service.py",)
SHARDS = ("tests/coordinator/test_shards.py",)

MUTANTS = (
    plant("tier-puts-without-a-row", AREA, "objects that nobody knows by name lie in the store for ever: ids are given out and not noted",
          (OBJECTS, "            self.rows[object_id] = ObjectRow(name, State.RESERVED, deadline)\n            heappush(self._deadlines, (deadline, object_id))\n", "            assert name\n"),
          (OBJECTS, "return row is not None and row.state is State.RESERVED and row.name == name", "return row is None"),
          (OBJECTS, "        row = self.rows[name.object_id]\n", "        row = ObjectRow(name, State.RESERVED, 0)\n"),
          kind=Kind.ORDER, near=MODEL),
    plant("tier-names-without-ids", AREA, "an object that is referenced is overwritten, or taken for another one",
          (NAMES, "/{self.object_id:016x}", "/{0:016x}"),
          kind=Kind.GUARD, near=MODEL),
    plant("tier-deletes-once", AREA, "a put that was under way lands behind the clean-up and stays for ever",
          (OBJECTS, "        if due_ms >= self._quiet_ms(row):\n", "        if True:\n"),
          kind=Kind.CLEARED, near=MODEL),
    plant("tier-deletes-without-grace", AREA, "the object of a reader that has read the manifest before is gone",
          (OBJECTS, "due = max(now_ms + self._times.grace_ms, self._quiet_ms(row))", "due = self._quiet_ms(row)"),
          kind=Kind.CLEARED, near=MODEL),
    plant("tier-cuts-nothing", AREA, "after an unclean election the tier gives records that the log has not",
          (COPIER, "                return self._commit((), self._cuts()) or self._idle()\n", "                return self._idle()\n"),
          kind=Kind.GUARD, near=MODEL),
    plant("tier-takes-every-tenure", AREA, "a deposed master commits, reserves and deletes",
          (STATE, "if held is None or held.tenure != command.tenure:", "if held is None:"),
          kind=Kind.EPOCH, near=MODEL),
    plant("tier-reads-before-its-fence", AREA, "an older master commits between what was read and the fence, and it is never cut",
          (COPIER, "        self.step = Step.FENCE\n", "        self.step = Step.READ\n"),
          (COPIER, "                self._tenure = tenure\n                self.step = Step.READ\n", "                self._tenure = tenure\n                self.step = Step.CUT\n"),
          (COPIER, "                self.step = Step.CUT\n            case Reserved", "                self.step = Step.FENCE\n            case Reserved"),
          kind=Kind.ORDER, near=MODEL),
    plant("tier-commits-on-a-stale-manifest", AREA, "an event is applied whose writer does not know the one before",
          (STATE, "            if expected != manifest.last_event_id:\n", "            if False:\n"),
          kind=Kind.STALE, near=METADATA),
    plant("tier-keeps-what-a-fence-ends", AREA, "what a deposed master reserved waits for its deadline, though nobody can commit it",
          (STATE, "        self.objects.abort_of_set(set_id, self._now_ms)\n", ""),
          kind=Kind.CLEARED, near=METADATA),
    plant("tier-doomed-before-its-puts-are-over", AREA, "a put that the client sent twice brings a deleted object back",
          (OBJECTS, "due = max(now_ms + self._times.grace_ms, self._quiet_ms(row))", "due = now_ms + self._times.grace_ms"),
          (OBJECTS, "        if due_ms >= self._quiet_ms(row):\n", "        if due_ms >= self._quiet_ms(row) or row.state is State.DOOMED:\n"),
          kind=Kind.CLEARED, near=METADATA),
    plant("tier-commits-after-the-deadline", AREA, "an object is committed whose delete is under way",
          (STATE, "        self.objects.expire(self._now_ms)\n", ""),
          kind=Kind.GUARD, near=METADATA),
    plant("tier-uploads-as-long-as-it-takes", AREA, "the time for an upload counts from the answer, and it goes on behind the service's deadline",
          (COPIER, "self._uploads.begin(self._asked_ms + self._times.upload_ms)", "self._uploads.begin(self._asked_ms + 2 * self._times.upload_ms)"),
          kind=Kind.RANGE, near=COPYING),
    plant("tier-believes-a-failed-put", AREA, "an object is committed that never came to the store",
          (UPLOADS, "        is_there = object_bytes == transfer.built.object_bytes\n", "        is_there = True\n"),
          kind=Kind.GUARD, near=MODEL),
    plant("tier-commits-behind-a-gap", AREA, "objects behind one that was given up are committed with it missing",
          (UPLOADS, "            if not all(_follows(run, ends, manifests) for run in own):\n", "            if False:\n"),
          (MANIFEST, "            follows = first == self.end_offset or (not self._runs and first > self.end_offset)\n", "            follows = first >= self.end_offset\n"),
          (MANIFEST, "    if any(one.end_offset != other.first_offset for one, other in pairwise(group.runs)):\n", "    if False:\n"),
          kind=Kind.GUARD, near=MODEL),
    plant("tier-sweeps-count-whenever-they-come", AREA, "the word of a delete that was done before counts for the one that is due now",
          (OBJECTS, "        if row is None or row.due_ms != due_ms:\n", "        if row is None:\n"),
          (OBJECTS, "        if due_ms >= self._quiet_ms(row):\n", "        if row.due_ms >= self._quiet_ms(row):\n"),
          kind=Kind.STALE, near=METADATA),
    plant("tier-writes-twice-what-is-sent-twice", AREA, "a request whose answer was lost is done again",
          (STATE, "        if command.request_id <= held.request_id:\n", "        if command.request_id < held.request_id:\n"),
          kind=Kind.RANGE, near=METADATA),
    plant("tier-resumes-under-its-old-tenure", AREA, "two processes of one leader epoch write side by side",
          (STATE, "(held.tenure.leader_epoch, held.nonce) == (epoch, nonce)", "held.tenure.leader_epoch == epoch"),
          kind=Kind.EPOCH, near=METADATA),
    plant("tier-puts-an-id-twice", AREA, "an adopted orphan's id is given out again",
          (OBJECTS, "            self.next_id = max(self.next_id, name.object_id + 1)\n            self.rows[name.object_id] = ObjectRow(name, State.RESERVED, now_ms)\n", "            self.rows[name.object_id] = ObjectRow(name, State.RESERVED, now_ms)\n"),
          kind=Kind.STALE, near=METADATA),
    plant("tier-cuts-by-the-newest-epoch-alone", AREA, "an epoch that both have ends where the tier's does, and not where the log's does",
          (ALIGNMENT, "            return min(end, _end_of(own, epoch))\n", "            return end\n"),
          kind=Kind.EPOCH, near=COPYING),
    plant("tier-gives-what-was-cut", AREA, "a reader gets records above the end of a run that was shortened",
          (READER, "            if header.last_offset >= offset and header.base_offset < run.end_offset", "            if header.last_offset >= offset"),
          kind=Kind.RANGE, near=READING),
    plant("tier-reads-damage-once", AREA, "a block that the line has damaged is lost for its reader",
          (READER, "READS_MAX = 2\n", "READS_MAX = 1\n"),
          kind=Kind.RANGE, near=READING),
    plant("tier-believes-other-epochs", AREA, "an object whose epochs are not those of its metadata is served",
          (READER, "            if known != run.epochs:\n", "            if False:\n"),
          kind=Kind.GUARD, near=READING),
    plant("tier-believes-another-s-object", AREA, "an object under the name of another is taken for it",
          ("tier/envelope.py", "    if str(envelope.name) != name:\n", "    if False:\n"),
          kind=Kind.GUARD, near=OBJECT_CHECKS),
    plant("tier-believes-a-grown-object", AREA, "bytes behind the file in an object belong to nothing",
          ("tier/read/describe.py", "    if envelope.object_bytes != size:\n", "    if envelope.object_bytes > size:\n"),
          kind=Kind.GUARD, near=OBJECT_CHECKS),
    plant("tier-calls-new-objects-orphans", AREA, "what was reserved while the list was made is deleted",
          (SCRUB, "        elif not _is_known(name, after)", "        elif not _is_known(name, before)"),
          kind=Kind.STALE, near=OBJECT_CHECKS),
    plant("tier-loses-what-is-deleted", AREA, "an object that was deleted while the list was made counts as lost",
          (SCRUB, "        if row.state is State.LIVE and later is not None and later.state is State.LIVE:\n", "        if row.state is State.LIVE:\n"),
          kind=Kind.STALE, near=OBJECT_CHECKS),
    plant("tier-rebuilt-with-what-was-cut", AREA, "an older object's records above a later one's beginning come back",
          (REBUILD, "    return [*_below(runs, run.first_offset), run]\n", "    return [*(one for one in runs if one.end_offset <= run.first_offset or one.end_offset > run.end_offset), run]\n"),
          kind=Kind.RANGE, near=OBJECT_CHECKS),
    plant("tier-rebuilt-with-ids-under-way", AREA, "ids that were reserved before the loss are given out again",
          (REBUILD, "    metadata.objects.next_id = newest + ID_GAP\n", "    metadata.objects.next_id = newest + 1\n"),
          kind=Kind.RANGE, near=OBJECT_CHECKS),
    plant("tier-rebuilt-over-a-gap", AREA, "offsets that no object has are said to be in the tier",
          (REBUILD, "            if end < first:\n", "            if False:\n"),
          kind=Kind.GUARD, near=OBJECT_CHECKS),
    plant("tier-trusts-every-store", AREA, "a store that accepts a second create is not noticed",
          ("tier/probe.py", "    return False\n\n\ndef warning_of", "    return True\n\n\ndef warning_of"),
          kind=Kind.GUARD, near=STORES),
    plant("tier-puts-in-a-page-cache", AREA, "an upload into a directory counts before it is on the disk",
          ("runtime/io/object_store.py", "        await self._off_loop(name, self._sync)\n", "        assert name\n"),
          kind=Kind.GUARD, near=STORES),
    plant("tier-looks-after-a-failed-sync", AREA, "a file whose sync has failed has the right size, and is committed",
          ("runtime/io/object_store.py", "        if self._failed is not None:  # what is there may not be on the disk\n", "        if False:\n"),
          kind=Kind.GUARD, near=STORES),
    plant("tier-keeps-what-the-log-refused", AREA, "a command that the log has refused stays applied, and what follows builds on it",
          (TABLE, "            self.metadata.take_back(before)\n", ""),
          kind=Kind.SNAPSHOT, near=SERVICE),
    plant("tier-answers-ahead-of-its-log", AREA, "a command that changes nothing tells what a failover undoes",
          (TABLE, "        if self._confirmed == self._appended:\n            told(None)\n", "        if True:\n            told(None)\n"),
          kind=Kind.ORDER, near=SERVICE),
    plant("tier-answers-behind-a-lost-command", AREA, "a master goes on with metadata that its log does not have",
          (ASKING, "if table is None or table.is_lost:", "if table is None:"),
          kind=Kind.STALE, near=SERVICE),
    plant("tier-loads-without-deadlines", AREA, "what was reserved before a failover is never aborted, and what was doomed never deleted",
          (OBJECTS, "        self._wait_for(row)\n\n    def put_back", "\n    def put_back"),
          kind=Kind.SNAPSHOT, near=SERVICE),
    plant("tier-takes-back-without-deadlines", AREA, "what a refused fence had aborted is never aborted again",
          (OBJECTS, "            if row is not None:\n                self._wait_for(row)\n", "            pass\n"),
          kind=Kind.SNAPSHOT, near=SERVICE),
    plant("tier-leaves-runs-that-went", AREA, "runs that were deleted come back when the metadata is loaded",
          (TABLE, "            yield r.run_key(one, run.first_offset), None\n", "            pass\n"),
          kind=Kind.SNAPSHOT, near=SHARDS),
    plant("tier-loads-around-a-row", AREA, "a row of a later release is passed over, and a manifest has a gap",
          (LOADING, "        if self._unreadable:\n", "        if False:\n"),
          kind=Kind.GUARD, near=SERVICE),
    plant("tier-grows-without-bound", AREA, "the metadata takes more runs than its memory is bounded for",
          (STATE, "        if self.run_count >= self._runs_max:\n", "        if False:\n"),
          kind=Kind.RANGE, near=SERVICE),
)  # fmt: skip
