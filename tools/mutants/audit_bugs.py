"""Planted bugs of the audit: folds, rows that a connection keeps, what is told of use (ADR 0119)."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

FOLD = ("tests/audit/test_fold.py",)
LOG = ("tests/broker/test_audit_log.py",)
AREA = "Audit"
ROWS, WRITER, GATE = "kafka/audited.py", "broker/audit/audit_log.py", "kafka/gate.py"

MUTANTS = (
    plant(
        "audit-one-row-too-many",
        AREA,
        "the rows of a fold exceed their bound by one",
        (
            "audit/fold.py",
            "if key not in rows and free <= 0:\n",
            "if key not in rows and free < 0:\n",
        ),
        kind=Kind.RANGE,
        near=FOLD,
    ),
    plant(
        "audit-fold-begins-at-its-multiple",
        AREA,
        "a row says times in which it was not counted, and the slice of a time misses it",
        (
            "audit/fold.py",
            "        self.began_ms = wall_ms\n        return taken",
            "        self.began_ms = wall_ms - wall_ms % self._length_ms\n        return taken",
        ),
        kind=Kind.RANGE,
        near=FOLD,
    ),
    plant(
        "audit-kept-rows-outlive-their-fold",
        AREA,
        "a connection that stays adds to rows that were written already",
        (
            ROWS,
            "        self._rows.clear()\n        self._kept = 0\n        self._own: Counts",
            "        self._kept = 0\n        self._own: Counts",
        ),
        kind=Kind.CLEARED,
        near=LOG,
    ),
    plant(
        "audit-kept-rows-without-a-bound",
        AREA,
        "a connection keeps a row for each partition that it ever used",
        (ROWS, "        if self._kept >= KEPT_MAX:\n", "        if self._kept < 0:\n"),
        kind=Kind.GUARD,
        near=LOG,
    ),
    plant(
        "audit-invented-partitions-have-rows",
        AREA,
        "a client fills the fold with partitions that do not exist",
        (ROWS, " or not 0 <= partition < len(hosted.partitions)", ""),
        kind=Kind.GUARD,
        near=LOG,
    ),
    plant(
        "audit-refused-whole-requests-are-no-errors",
        AREA,
        "batches refused for a reason of the whole request are not counted",
        (
            "kafka/handlers/records/produce.py",
            "    if context.broker.audit is not None:\n",
            "    if False:\n",
        ),
        kind=Kind.GUARD,
        near=LOG,
    ),
    plant(
        "audit-refused-batches-count-as-records",
        AREA,
        "records that no log has are told as produced",
        (
            "audit/counts.py",
            "            row.errors += 1\n            continue\n",
            "            row.errors += 1\n",
        ),
        kind=Kind.GUARD,
        near=("tests/audit/test_counts.py",),
    ),
    plant(
        "audit-use-of-an-open-cluster-is-not-told",
        AREA,
        "rules that match use lack what nobody had to be permitted",
        (
            GATE,
            "        return _denied(context, operation, resource, name)\n    _note_used(context, operation, resource, name)\n",
            "        return _denied(context, operation, resource, name)\n",
        ),
        kind=Kind.GUARD,
        near=LOG,
    ),
    plant(
        "audit-denials-at-once-without-end",
        AREA,
        "a client that is denied on and on writes a row for each time",
        (WRITER, "if most >= DENIALS_MAX or own >= DENIALS_OF_PRINCIPAL:", "if most < 0:"),
        kind=Kind.GUARD,
        near=LOG,
    ),
    plant(
        "audit-unconfirmed-rows-are-forgotten",
        AREA,
        "rows whose write failed are lost and told as written",
        ("broker/audit/row_log.py", "            if error is None:\n", "            if True:\n"),
        kind=Kind.CLEARED,
        near=LOG,
    ),
    plant(
        "audit-last-fold-is-not-taken",
        AREA,
        "a stop loses what was counted since the last fold",
        (
            WRITER,
            '        """\n        self._take()\n        self._rows.write()',
            '        """\n        self._rows.write()',
        ),
        kind=Kind.GUARD,
        near=LOG,
    ),
    plant(
        "audit-bytes-of-the-disk-are-not-told-apart",
        AREA,
        "reads from the disk look like reads from memory",
        ("storage/read/needs_disk.py", "chunk.is_cold = True", "chunk.is_cold = False"),
        kind=Kind.STALE,
        near=("tests/broker/test_audited_reads.py",),
    ),
    plant(
        "audit-rows-are-counted-twice",
        AREA,
        "a row that was written twice is taken for two where it lies before what was read",
        ("audit/seen.py", "bounds[at] == number + 1", "bounds[at] == number - 1"),
        kind=Kind.RANGE,
        near=("tests/audit/test_seen.py",),
    ),
    plant(
        "audit-rules-that-others-imply-are-proposed",
        AREA,
        "the proposed rules are not the fewest",
        (
            "audit/uses.py",
            'frozenset({"read", "write", "delete", "alter"})',
            'frozenset({"read", "write", "delete"})',
        ),
        kind=Kind.RANGE,
        near=("tests/audit/test_uses.py",),
    ),
    plant(
        "audit-group-with-the-name-of-a-topic",
        AREA,
        "decisions about a group are told as those about the topic of its name",
        (
            "cli/access/audit.py",
            '(not is_decision or key.operation.endswith(" topic"))',
            "(is_decision or not is_decision)",
        ),
        kind=Kind.GUARD,
        near=("tests/cli/test_audit_rows.py",),
    ),
)
