"""Bugs of what a node tells the tier's copier of its log, and of repairs from the tier."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Tier"
SOURCE = "broker/tier/source.py"
SOURCES = ("tests/broker/test_tier_source.py",)
REPAIRS = "broker/sets/extent_repairs.py"
REPAIRING = ("tests/broker/test_extent_repairs.py",)

MUTANTS = (
    plant("tier-deletes-before-a-start-is-durable", AREA, "a log start that a crash takes back is below that of the tier",
          (SOURCE, "start, is_emptied = self._log_start(topic_partition), ", "start, is_emptied = int(partition.log_start_offset), "),
          kind=Kind.ORDER, near=SOURCES),
    plant("tier-starts-are-durable-when-asked", AREA, "a snapshot that failed counts as one that has the log starts",
          (SOURCE, "            if worked:\n                self._durable_starts = starts\n", "            if True:\n                self._durable_starts = starts\n"),
          kind=Kind.GUARD, near=SOURCES),
    plant("tier-cuts-what-it-copied", AREA, "what this mastership has appended and copied is taken for what the log has lost",
          (SOURCE, "        if end > begun.log_end and not is_newest:\n", "        if False:\n"),
          kind=Kind.EPOCH, near=SOURCES),
    plant("tier-keeps-deleted-topics", AREA, "what a deleted topic has in the store stays for ever",
          (SOURCE, "            return OwnLog((), self._tier_end(topic_partition), NEVER)\n", "            return OwnLog((), 0, NEVER)\n"),
          kind=Kind.CLEARED, near=SOURCES),
    plant("tier-deletes-unknown-topics", AREA, "a topic that the image does not know yet loses what it has in the store",
          (SOURCE, "        return self._broker.leftovers.is_deleted(key.topic_id)\n", "        return True\n"),
          kind=Kind.STALE, near=SOURCES),
    plant("tier-plans-for-other-ends", AREA, "objects are planned behind an end that the tier had before",
          (SOURCE, "planned[0] == ends and self._are_wanted", "self._are_wanted"),
          kind=Kind.STALE, near=SOURCES),
    plant("tier-copies-open-transactions", AREA, "records of a transaction that is open are copied as decided",
          (SOURCE, "end = partition.log_end_offset if open_from is None else open_from.offset", "end = partition.log_end_offset"),
          kind=Kind.RANGE, near=SOURCES),
    plant("tier-copies-what-was-planned", AREA, "what was planned before copying was disabled is copied all the same",
          (SOURCE, "planned[0] == ends and self._are_wanted(planned[1]):", "planned[0] == ends:"),
          kind=Kind.STALE, near=SOURCES),
    plant("tier-keeps-what-is-given-up", AREA, "a topic that is switched off keeps what it has in the store",
          (SOURCE, "return is_deleted_from_store(image.configs)", "return False"),
          kind=Kind.CLEARED, near=SOURCES),
    plant("tier-begins-below-the-log", AREA, "what was given up comes back when copying begins anew",
          (SOURCE, "begins[key] = max(ends[key], start)", "begins[key] = ends[key]"),
          kind=Kind.RANGE, near=SOURCES),
    plant("tier-copies-compacted-topics", AREA, "ranges that are cleaned later are copied as they were produced",
          (SOURCE, "if topic.internal or topic.settings.is_compacted:", "if topic.internal:"),
          kind=Kind.GUARD, near=SOURCES),
    plant("tier-is-asked-before-the-members", AREA, "what a member has comes over the line from the store",
          (REPAIRS, "        for broker_id in self._peers(set_id):\n            try:\n                return await self._fetch_from", "        for broker_id in self._peers(set_id) if self._broker.tier is None else ():\n            try:\n                return await self._fetch_from"),
          kind=Kind.ORDER, near=REPAIRING),
)  # fmt: skip
