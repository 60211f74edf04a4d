"""Planted bugs of what a connection is remembered to write to, and of its pace behind TLS."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Writing behind a door"
GATE, PRODUCE = "kafka/gate.py", "kafka/handlers/records/produce.py"
SIDE = "net/tls/side.py"
REMEMBERED = ("tests/kafka/test_writable_topics.py",)
PACE = ("tests/net/test_tls.py",)

MUTANTS = (
    plant(
        "writable-outlives-a-change-of-rules", AREA,
        "a client that was allowed to write goes on after a rule denies it",
        (GATE, "        or known.generation != authoriser.generation\n", ""),
        kind=Kind.STALE, near=REMEMBERED,
    ),
    plant(
        "writable-rules-change-without-a-word", AREA,
        "the authoriser does not say that its rules have changed",
        ("access/authoriser.py", "        self.generation += 1\n", ""),
        kind=Kind.STALE, near=REMEMBERED,
    ),
    plant(
        "writable-outlives-the-user", AREA,
        "a connection that becomes another user's writes by the permissions of the last one",
        (GATE, "        or known.principal != context.principal\n", ""),
        kind=Kind.STALE, near=REMEMBERED,
    ),
    plant(
        "writable-outlives-the-authoriser", AREA,
        "what one authoriser has allowed is allowed by the next",
        (GATE, "        or known.authoriser is not authoriser\n", ""),
        kind=Kind.STALE, near=REMEMBERED,
    ),
    plant(
        "writable-topic-of-the-batch-before", AREA,
        "a batch behind one whose topic was refused is taken for a batch of no topic, or of the last",
        (PRODUCE, "                found, found_key = topic_to_write(context, topic, by_id=by_id), topic\n",
         "                found_key = topic\n                found = topic_to_write(context, topic, by_id=by_id)\n"),
        kind=Kind.ORDER, near=REMEMBERED,
    ),
    plant(
        "writable-new-rules-forget-what-is-full", AREA,
        "a client that writes to more topics than are remembered is let into all others",
        (GATE, "    if key in keys:\n        return topics.get(key)\n",
         "    if key in keys or len(keys) >= WRITABLE_MAX:\n        return topics.get(key)\n"),
        kind=Kind.GUARD, near=REMEMBERED,
    ),
    plant(
        "tls-reads-on-while-bytes-wait", AREA,
        "the socket is read from as soon as the connection wants more, before what came is decrypted",
        ("net/tls/transport.py", "        self.is_paused = False\n        if self.on_resume is not None:\n",
         "        self.is_paused = False\n        if self.on_resume is not None:\n            self._raw.resume_reading()\n"),
        kind=Kind.GUARD, near=PACE,
    ),
    plant(
        "tls-never-reads-on", AREA,
        "a connection that was paused while nothing waited is not read from again",
        (SIDE, "        if self._is_reading():\n            self._keep_part(self._left_of(memoryview(self._kept)))\n        if not self._kept and self._is_reading():\n",
         "        waited = bool(self._kept)\n        if self._is_reading():\n            self._keep_part(self._left_of(memoryview(self._kept)))\n        if waited and not self._kept and self._is_reading():\n"),
        kind=Kind.GUARD, near=PACE,
    ),
    plant(
        "tls-what-is-kept-stays-counted", AREA,
        "bytes that waited count in the budget after they were decrypted",
        (SIDE, "        if left:\n            self._kept = left\n        else:\n            self._keep(b\"\")\n",
         "        self._kept = left\n"),
        kind=Kind.CLEARED, near=PACE,
    ),
)  # fmt: skip
