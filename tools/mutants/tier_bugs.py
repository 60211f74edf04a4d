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
MODEL = ("tests/tier/test_copies_model.py",)
METADATA = ("tests/tier/test_metadata.py",)
READING = ("tests/tier/test_reader.py",)
OBJECT_CHECKS = ("tests/tier/test_objects.py",)

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
          kind=Kind.RANGE, near=MODEL),
    plant("tier-believes-a-failed-put", AREA, "an object is committed that never came to the store",
          (UPLOADS, "        is_there = object_bytes == transfer.built.object_bytes\n", "        is_there = True\n"),
          kind=Kind.GUARD, near=MODEL),
    plant("tier-commits-behind-a-gap", AREA, "objects behind one that was given up are committed with it missing",
          (UPLOADS, "            if not all(_follows(run, ends, manifests) for run in own):\n", "            if False:\n"),
          (MANIFEST, "            follows = first == self.end_offset or (not self._runs and first > self.end_offset)\n", "            follows = first >= self.end_offset\n"),
          (MANIFEST, "    if any(one.end_offset != other.first_offset for one, other in pairwise(group.runs)):\n", "    if False:\n"),
          kind=Kind.GUARD, near=MODEL),
)
