"""Planted bugs of a reading of the room `replica` by somebody who had not written it, all of which
were in the source; of one of the other rooms, of which the same is true; and of how a batch is
decompressed.
"""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

PURGATORY = ("tests/replica/test_purgatory.py",)
SCRUBBER = ("tests/replica/test_scrubber.py",)
MENDING = ("tests/replica/test_mending.py",)
INSTALL = ("tests/replica/test_install.py",)
FRAMES = ("tests/record/test_single_frame.py",)

WATCH = ("tests/broker/test_readable_watch.py",)
RETENTION = (
    "tests/replica/test_replica_set_roles.py",
    "tests/runtime/test_ha_retention.py",
    "tests/storage/test_base_copy.py",
)
PREPARATION = ("tests/kafka/test_unprepared_produce.py",)

MUTANTS = (
    plant("retention-appends-without-a-role", "Retention", "a log whose member has no role gets frames in the last master's epoch, so that an acknowledged record is gone",
          ("replica/replica_set.py", "        log.on_reopened = self.reopened\n        log.follow()\n", "        log.on_reopened = self.reopened\n"),
          kind=Kind.GUARD, near=RETENTION),
    plant("retention-appends-after-a-mastership", "Retention", "a log whose member has resigned gets frames that no master sent",
          ("replica/replica_set.py", "        self.log.follow()\n        self._refuse_parked()", "        self._refuse_parked()"),
          kind=Kind.STALE, near=RETENTION),
    plant("copied-log-does-not-follow", "Retention", "a slave's log that was copied gets frames by retention until the first run",
          ("storage/commit_log/open_log.py", "        if self.writer.is_following:\n            parts.writer.follow()\n", ""),
          kind=Kind.STALE, near=RETENTION),
    plant("new-session-waits-for-the-closed-one", "Following", "a slave that begins anew while its closed session is queued gets nothing",
          ("runtime/ha/server.py", "        if session in self._queued:\n", "        if session.replica_set_id in {one.replica_set_id for one in self._queued}:\n"),
          kind=Kind.STALE, near=("tests/runtime/test_ha_server.py",)),
    plant("each-wait-is-queued", "Fetch", "every poll leaves something to be woken, and every wake one more",
          ("replica/replica_set.py", " and self._watched.get(partition) != end_position:", ":"),
          kind=Kind.GUARD, near=WATCH),
    plant("woken-partitions-are-remembered", "Fetch", "every partition that was ever waited for is kept, and what it holds, after its deletion too",
          ("replica/replica_set.py", "            if watched.get(partition) == end_position:\n                del watched[partition]\n", ""),
          kind=Kind.STALE, near=(*WATCH, "tests/replica/test_replica_set.py")),
    plant("leads-while-its-segment-is-resized", "Following", "what a new master writes behind the end that its file is about to get is cut",
          ("storage/commit_log/set_log.py", "        if self.parts.appender.is_fitting:\n            raise LogBusy(self.directory)\n", ""),
          kind=Kind.GUARD, near=("tests/storage/test_slave_log.py",)),
    plant("predictions-add-up", "Fetch", "as many predicted fetches as there are consumers keep the answers that they came from",
          ("broker/fetch/read_ahead.py", "        if log not in self._due and len(self._due) >= DUE_MAX:\n            return\n", ""),
          kind=Kind.GUARD, near=("tests/broker/test_read_ahead_queue.py",)),
    plant("many-small-blocks-on-the-loop", "Turns", "half a MB of snappy in blocks of a byte holds the loop for 90 ms",
          ("record/compression.py", "        return limit if _has_many_snappy_blocks(data, limit) else 0\n", "        return 0\n"),
          kind=Kind.GUARD, near=PREPARATION),
    plant("last-lz4-block-counts-as-full", "Turns", "every small batch of a client with large blocks goes to a worker",
          ("record/compression.py", "max(count - 1, 0) * block_bytes)", "count * block_bytes)"),
          kind=Kind.RANGE, near=PREPARATION),
    plant("timed-out-requests-stay-parked", "Produce", "requests that have timed out are kept until the log goes on, and their connections send more",
          ("replica/purgatory.py", "        if over:\n", "        if False:\n"),
          kind=Kind.CLEARED, near=PURGATORY),
    plant("time-out-forgets-what-is-acknowledged", "Produce", "an acknowledged request that waits for its slice gets no answer, if its deadline passes there",
          ("replica/purgatory.py", "for parked in self._queue if id(parked[1]) not in over)", "for parked in self._queue if parked[1].deadline_ms > now_ms)"),
          kind=Kind.CLEARED, near=PURGATORY),
    plant("late-write-of-a-coordinator-is-dropped", "Groups", "a commit that is confirmed after its deadline is not seen here",
          ("replica/purgatory.py", "for waiting in overdue if not waiting.expire()}", "for waiting in overdue if waiting.expire() or True}"),
          kind=Kind.CLEARED, near=PURGATORY),
    plant("hurried-set-waits-for-a-whole-log", "Damage", "a set with known damage is scrubbed after another one's whole log",
          ("replica/scrubber.py", "        if self._hurried and not self._is_hurried:\n            self._set_aside()\n", ""),
          kind=Kind.ORDER, near=SCRUBBER),
    plant("pass-goes-on-from-the-start", "Damage", "a log that is interrupted often by hurried ones is never read to its end",
          ("replica/scrubber.py", "self._queue.appendleft((self._set_id, self._position))", "self._queue.appendleft((self._set_id, FROM_START))"),
          kind=Kind.STALE, near=SCRUBBER),
    plant("mending-cuts-at-what-it-knew-before-the-close", "Damage", "damage that is found while a log closes is left in it and forgotten",
          ("replica/mending.py", "        await driver.close_log()\n        damage = self.damage", "        damage = self.damage\n        await driver.close_log()"),
          kind=Kind.ORDER, near=MENDING),
    plant("damage-in-the-only-copy-is-forgotten", "Damage", "damage in a set of one is not repaired when the set grows",
          ("replica/mending.py", "or self.damage is None:\n            return\n        if driver", "or not self.is_pending:\n            return\n        if driver"),
          kind=Kind.STALE, near=MENDING),
    plant("failed-copy-stays-open", "Following", "a copy that has failed keeps its staged file open",
          ("replica/install.py", "            if error is not None:\n                self._log.abandon_install()\n", ""),
          kind=Kind.CLEARED, near=INSTALL),
    plant("pieces-without-end", "Following", "a slave that asks for many pieces at once has its master read them all into memory",
          ("replica/served_base.py", "        self._is_reading = True\n", ""),
          kind=Kind.GUARD, near=INSTALL),
    plant("lz4-header-checksum-is-not-looked-at", "Batches", "a frame is taken whose header's checksum is wrong, so that every consumer stops at it",
          ("record/single_frame.py", "LZ4_PLAIN_HEADERS.get(bytes(data[:LZ4_HEADER_BYTES]))", "LZ4_BLOCK_BYTES.get(data[5]) if data[4] == 0x60 else None"),
          kind=Kind.GUARD, near=FRAMES),
    plant("lz4-block-larger-than-its-header-allows", "Batches", "a block is taken that no other decoder has room for",
          ("record/single_frame.py", "out[filled : filled + block_bytes])", "out[filled:])"),
          kind=Kind.RANGE, near=FRAMES),
    plant("lent-memory-larger-than-the-bound", "Batches", "a block may unpack to all of the memory that a thread has, whatever its bound is",
          ("broker/append/preparation.py", "        return self._memory[:most]\n", "        return self._memory\n"),
          kind=Kind.RANGE, near=PREPARATION),
)  # fmt: skip
