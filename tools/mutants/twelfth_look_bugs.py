"""Bugs planted by a reader who had not written the code: the index of messages.

Each was planted before anybody looked at which tests there are. The tests of the room saw
16 of 64 at first, processes left aside. What they missed: bounds at equality (25 of 34), the
order of two steps (all 5), state that is cleared too early or too late. Those with a test of their
own by now, of which none saw them:

    bits-for-a-bucket-too-few
    bytes-of-the-bound-are-too-many
    damage-found-twice-counts-twice
    damaged-files-count-as-one
    expired-are-told-before-they-wait-no-more
    floor-after-the-table-went
    floor-alone-bounds-the-gap
    floor-falls-with-the-table
    lacking-behind-the-last-that-was-looked-at
    last-key-of-the-bound-has-the-rest
    last-offset-is-the-last-one-that-came
    last-part-of-partitions-is-left-out
    last-rows-of-a-table-are-not-judged
    log-of-one-span-is-read-behind
    log-that-starts-at-the-last-table-is-read-anew
    longer-file-is-a-table
    messages-without-names-set-the-times
    older-floor-from-its-beginning
    older-piece-lags-uncounted
    older-piece-of-another-log
    older-range-stays-lacking
    oldest-of-now-goes-for-the-one-judged
    one-waiter-too-many
    partitions-in-parts-from-the-first
    pause-is-over-a-ms-late
    piece-of-the-bound-grows
    places-of-a-damaged-table-end-the-search
    position-of-when-the-wait-was-over
    rest-ends-with-the-waiter-that-was
    retention-a-ms-late
    retention-from-the-last-one-it-took
    run-of-before-counts-behind-the-cut
    sealed-piece-stays-newest
    set-that-had-its-turn-is-first
    shorter-table-stays
    span-of-the-bound-grows
    table-that-went-ends-the-search
    table-up-to-the-end-of-the-log-is-of-another
    tables-behind-a-piece-come-first
    tables-in-front-of-a-piece-twice
    tables-of-a-part-twice
    tables-of-the-bound-are-too-many
    tier-that-begins-at-the-last-message-has-none
    times-that-touch-do-not-meet
    told-before-they-wait-no-more
    unreadable-batches-of-a-run-count-once
    waiter-of-now-waits-on
    what-follows-in-the-batch-is-found
"""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

INDEX = (
    "tests/finding/test_coverage.py",
    "tests/finding/test_tables.py",
    "tests/broker/test_key_index_bounds.py",
    "tests/broker/test_key_search.py",
    "tests/broker/test_key_index_steps.py",
    "tests/broker/test_indexing_turns.py",
    "tests/broker/test_key_index.py",
    "tests/remoting/test_places_read.py",
    "tests/remoting/test_queries.py",
)

MUTANTS = (
    # Index: coverage
    plant("position-that-a-mastership-begins-at-is-its-own", "Finding messages", "a table that ends where a mastership begins counts as of that one, and is made anew at every start",
          ("finding/coverage.py", "    at = bisect_left(starts, position)\n", "    at = bisect_right(starts, position)\n"),
          ("finding/coverage.py", "from bisect import bisect_left\n", "from bisect import bisect_right\n"),
          kind=Kind.EPOCH, near=INDEX),
    plant("table-up-to-the-end-of-the-log-is-of-another", "Finding messages", "a table of all that the log has is made anew",
          ("finding/coverage.py", "    if end > log_end:\n", "    if end >= log_end:\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("tables-that-meet-lie-over-each-other", "Finding messages", "of tables that follow each other every second one is let go",
          ("finding/coverage.py", "table.first < kept[-1].end\n", "table.first <= kept[-1].end\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("shorter-table-stays", "Finding messages", "of two tables with one beginning the shorter one is kept",
          ("finding/coverage.py", "(one.first, -one.end)", "(one.first, one.end)"),
          kind=Kind.ORDER, near=INDEX),
    plant("lacking-behind-the-last-that-was-looked-at", "Finding messages", "a table inside of a longer one makes what lies between lacking",
          ("finding/coverage.py", "        at = max(at, stop)\n", "        at = stop\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("lacking-up-to-the-end-of-all", "Finding messages", "what lies behind a gap is read again with the gap",
          ("finding/coverage.py", "    return Range(at, min(min(following, default=end), end))\n", "    return Range(at, end)\n"),
          kind=Kind.RANGE, near=INDEX),
    # Index: pieces
    plant("hash-across-two-entries-ends-the-search", "Finding messages", "bytes that look like a hash across two entries hide what stands behind them",
          ("finding/piece.py", "        at = entries.rfind(name_hash, 0, at + HASH_BYTES - 1)\n", "        at = entries.rfind(name_hash, 0, at - ENTRY.size + HASH_BYTES)\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("last-offset-is-the-last-one-that-came", "Finding messages", "the highest offset of a partition falls where a later batch has a lower one",
          ("finding/piece.py", "self.last_offsets[number] = max(self.last_offsets[number], offset)", "self.last_offsets[number] = offset"),
          kind=Kind.STALE, near=INDEX),
    plant("last-offset-is-the-first-one", "Finding messages", "a table goes with the first message of each partition",
          ("finding/piece.py", "            self._numbers[kept] = number\n        self.last_offsets[number] = max(self.last_offsets[number], offset)\n", "            self._numbers[kept] = number\n"),
          kind=Kind.STALE, near=INDEX),
    plant("times-of-what-was-gathered-last", "Finding messages", "a piece has the times of the last run alone",
          ("finding/piece.py", "        self.first_ms = min(self.first_ms, gathered.first_ms)\n        self.last_ms = max(self.last_ms, gathered.last_ms)\n        self.end", "        self.first_ms, self.last_ms = gathered.first_ms, gathered.last_ms\n        self.end"),
          kind=Kind.STALE, near=INDEX),
    plant("oldest-places-first", "Finding messages", "a piece in memory tells the oldest places first, a table the newest",
          ("finding/piece.py", "        return [Place(self.partitions[number], offset) for number, offset in found]\n", "        return [Place(self.partitions[number], offset) for number, offset in found][::-1]\n"),
          kind=Kind.SNAPSHOT, near=INDEX),
    # Index: tables
    plant("table-without-the-epoch-of-its-piece", "Finding messages", "a table is written without its epoch, so that every log has it",
          ("finding/table.py", "        piece.end,\n        piece.epoch,\n        len(rows),\n        piece.count,\n        piece.first_ms,\n        piece.last_ms,\n        crc32c(directory),", "        piece.end,\n        -1,\n        len(rows),\n        piece.count,\n        piece.first_ms,\n        piece.last_ms,\n        crc32c(directory),"),
          kind=Kind.SNAPSHOT, near=INDEX),
    plant("entries-before-without-those-of-the-bucket-in-front", "Finding messages", "the entries of the third and later buckets are looked for where others are",
          ("finding/table.py", "for count, _ in counts[:bucket])", "for count, _ in counts[:max(bucket - 1, 0)])"),
          kind=Kind.RANGE, near=INDEX),
    plant("longer-file-is-a-table", "Finding messages", "a file with bytes behind its table counts as whole",
          ("finding/table.py", "    if table.size != file.size():\n", "    if table.size > file.size():\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("partitions-in-parts-from-the-first", "Finding messages", "of more than 512 partitions the first ones are told again and again",
          ("finding/table.py", "        at = _partitions_at(table) + first * PARTITION_BYTES\n", "        at = _partitions_at(table)\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("last-part-of-partitions-is-left-out", "Finding messages", "partitions behind the last whole 512 are not told, and their messages go from the index too early",
          ("finding/table.py", "    for first in range(0, table.partitions, PARTITIONS_PER_READ):\n        count = min(PARTITIONS_PER_READ, table.partitions - first)\n", "    for first in range(0, max(table.partitions - PARTITIONS_PER_READ, 0) + 1, PARTITIONS_PER_READ):\n        count = min(PARTITIONS_PER_READ, table.partitions - first)\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("bits-for-a-bucket-too-few", "Finding messages", "a table has buckets of twice as many entries",
          ("finding/table.py", "count >> bits > BUCKET_ENTRIES:", "count >> bits > 2 * BUCKET_ENTRIES:"),
          kind=Kind.RANGE, near=INDEX),
    # Index: of a log
    plant("damage-found-twice-counts-twice", "Finding messages", "a table that two searches find damaged counts twice, and the second one fails",
          ("broker/finding/key_index.py", "        if table in self.tables:\n            self.tables.remove(table)\n            self.damaged += 1\n", "        self.damaged += 1\n        if table in self.tables:\n            self.tables.remove(table)\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("waiter-of-now-waits-on", "Finding messages", "whose time has come in this very millisecond waits for the next look",
          ("broker/finding/key_index.py", "        over = [one for one in self._waiters if one.until_ms <= now_ms]\n        self._waiters = [one for one in self._waiters if one.until_ms > now_ms]\n", "        over = [one for one in self._waiters if one.until_ms < now_ms]\n        self._waiters = [one for one in self._waiters if one.until_ms >= now_ms]\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("one-waiter-too-many", "Finding messages", "one more waits than may",
          ("broker/finding/key_index.py", "len(self._waiters) >= WAITING_MAX:", "len(self._waiters) > WAITING_MAX:"),
          kind=Kind.RANGE, near=INDEX),
    plant("pause-is-over-a-ms-late", "Finding messages", "an index goes on a millisecond after its pause",
          ("broker/finding/key_index.py", "now_ms < self._pause_until_ms:", "now_ms <= self._pause_until_ms:"),
          kind=Kind.RANGE, near=INDEX),
    plant("older-piece-lags-uncounted", "Finding messages", "what an older piece has to read yet counts as there",
          ("broker/finding/key_index.py", "else max(self._older_end - self.older.end, 0)\n", "else max(self.older.first - self.older.end, 0)\n"),
          kind=Kind.STALE, near=INDEX),
    plant("let-go-counts-as-indexed", "Finding messages", "what only the second level has is said not to exist",
          ("broker/finding/key_index.py", "        return gone + gap.end", "        return gap.end"),
          kind=Kind.STALE, near=INDEX),
    plant("newest-piece-covers-nothing", "Finding messages", "what is in memory is lacking once the log has let it go",
          ("broker/finding/key_index.py", "        covered += [(one.first, one.end) for one in self.pieces()]\n", ""),
          kind=Kind.STALE, near=INDEX),
    plant("older-range-stays-lacking", "Finding messages", "what the older piece covers is counted as a gap besides",
          ("broker/finding/key_index.py", "            covered.append((self.older.first, self._older_end))\n", "            covered.append((self.older.first, self.older.end))\n"),
          kind=Kind.STALE, near=INDEX),
    plant("floor-alone-bounds-the-gap", "Finding messages", "what retention took from the log is lacking for ever",
          ("broker/finding/key_index.py", "        start = max(self._floor, self.member.log.start_position)\n        covered", "        start = self._floor or self.member.log.start_position\n        covered"),
          kind=Kind.STALE, near=INDEX),
    plant("piece-of-the-bound-grows", "Finding messages", "a piece takes another run when it has as many entries as a table may",
          ("broker/finding/key_index.py", "piece.count >= ENTRIES_MAX", "piece.count > ENTRIES_MAX"),
          kind=Kind.RANGE, near=INDEX),
    plant("span-of-the-bound-grows", "Finding messages", "a piece of the longest span takes another run",
          ("broker/finding/key_index.py", "piece.end - piece.first >= SPAN_BYTES", "piece.end - piece.first > SPAN_BYTES"),
          kind=Kind.RANGE, near=INDEX),
    plant("tables-of-the-bound-are-too-many", "Finding messages", "a table goes although there are as many as may be",
          ("broker/finding/key_index.py", "len(self.tables) > TABLES_MAX", "len(self.tables) >= TABLES_MAX"),
          kind=Kind.RANGE, near=INDEX),
    plant("bytes-of-the-bound-are-too-many", "Finding messages", "a table goes although the disk has exactly what it may",
          ("broker/finding/key_index.py", "self.bytes_now > self._bytes_max", "self.bytes_now >= self._bytes_max"),
          kind=Kind.RANGE, near=INDEX),
    plant("log-that-starts-at-the-last-table-is-read-anew", "Finding messages", "where the log begins at the end of the last table its epoch is forgotten",
          ("broker/finding/key_index.py", "last is not None and last.end >= start:", "last is not None and last.end > start:"),
          kind=Kind.RANGE, near=INDEX),
    plant("log-of-one-span-is-read-behind", "Finding messages", "a log of exactly one span is read from its end first",
          ("broker/finding/key_index.py", "confirmed - start > SPAN_BYTES", "confirmed - start >= SPAN_BYTES"),
          kind=Kind.RANGE, near=INDEX),
    plant("stale-until-the-next-look-too", "Finding messages", "what was cut is cut again with each look, and what is gathered never counts",
          ("broker/finding/key_index.py", "        self._is_stale = False\n        epochs, end", "        epochs, end"),
          kind=Kind.CLEARED, near=INDEX),
    plant("run-of-before-counts-behind-the-cut", "Finding messages", "a run that was read before a log was cut is added behind the cut",
          ("broker/finding/key_index.py", "        return not self._is_stale and (piece is self.newest or piece is self.older)\n", "        return piece is self.newest or piece is self.older\n"),
          kind=Kind.STALE, near=INDEX),
    plant("older-piece-of-another-log", "Finding messages", "an older piece that goes on behind a cut stays",
          ("broker/finding/key_index.py", "            known += [(self.older.end, self.older.epoch), (self._older_end, -1)]\n", "            known += [(self._older_end, -1)]\n"),
          kind=Kind.STALE, near=INDEX),
    plant("older-floor-from-its-beginning", "Finding messages", "a range that can not be read is tried again for ever",
          ("broker/finding/key_index.py", "            self._floor = self._older_end\n", "            self._floor = max(self._floor, piece.first)\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("sealed-piece-stays-newest", "Finding messages", "after a table was written its piece is written again",
          ("broker/finding/key_index.py", "                self.newest = Piece(piece.end, piece.epoch)\n            else:", "                self.newest = Piece(piece.end)\n            else:"),
          kind=Kind.EPOCH, near=INDEX),
    plant("retention-from-the-last-one-it-took", "Finding messages", "after a table went the next one waits for a minute",
          ("broker/finding/key_index.py", "            self._retention_due_ms = 0\n", ""),
          kind=Kind.CLEARED, near=INDEX),
    plant("retention-a-ms-late", "Finding messages", "retention is due a millisecond late",
          ("broker/finding/key_index.py", "now_ms < self._retention_due_ms or", "now_ms <= self._retention_due_ms or"),
          kind=Kind.RANGE, near=INDEX),
    plant("last-rows-of-a-table-are-not-judged", "Finding messages", "a table goes although a partition in its last part has messages",
          ("broker/finding/key_index.py", "        elif at + ROWS < len(rows):\n", "        elif at + 2 * ROWS <= len(rows):\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("oldest-of-now-goes-for-the-one-judged", "Finding messages", "while a table is judged another becomes the oldest, and goes unjudged",
          ("broker/finding/key_index.py", "        elif self.tables and self.tables[0] is table:\n", "        elif self.tables:\n"),
          kind=Kind.STALE, near=INDEX),
    plant("floor-falls-with-the-table", "Finding messages", "a table that lies below the floor takes the floor back",
          ("broker/finding/key_index.py", "        self._floor = max(self._floor, table.end)\n", "        self._floor = table.end\n"),
          kind=Kind.STALE, near=INDEX),
    plant("floor-at-the-beginning-of-what-went", "Finding messages", "what the bound of the disk has let go is made anew, and let go again",
          ("broker/finding/key_index.py", "        self._floor = max(self._floor, table.end)\n", "        self._floor = max(self._floor, table.first)\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("reached-just-now-waits-on", "Finding messages", "who waits for exactly what was reached waits to the end of the time",
          ("broker/finding/key_index.py", "self.newest.end >= position\n", "self.newest.end > position\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("told-before-they-wait-no-more", "Finding messages", "who asks again when told is forgotten",
          ("broker/finding/key_index.py", "        self._waiters = [one for one in self._waiters if not self._has_reached(one.position)]\n        for one in reached:\n            one.told()", "        waiting = [one for one in self._waiters if not self._has_reached(one.position)]\n        for one in reached:\n            one.told()\n        self._waiters = waiting"),
          kind=Kind.ORDER, near=INDEX),
    plant("expired-are-told-before-they-wait-no-more", "Finding messages", "who waits again when its time is over is forgotten",
          ("broker/finding/key_index.py", "        self._waiters = [one for one in self._waiters if one.until_ms > now_ms]\n        for one in over:\n            one.told()\n", "        waiting = [one for one in self._waiters if one.until_ms > now_ms]\n        for one in over:\n            one.told()\n        self._waiters = waiting\n"),
          kind=Kind.ORDER, near=INDEX),
    # Index: search
    plant("times-that-touch-do-not-meet", "Finding messages", "a message of the last wanted millisecond is not looked for",
          ("broker/finding/search.py", "source.first_ms <= self.last_ms and", "source.first_ms < self.last_ms and"),
          kind=Kind.RANGE, near=INDEX),
    plant("times-that-begin-where-a-part-ends", "Finding messages", "a message of the first wanted millisecond is not looked for",
          ("broker/finding/search.py", "source.last_ms >= self.first_ms\n", "source.last_ms > self.first_ms\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("position-of-when-the-wait-was-over", "Finding messages", "what was confirmed while a search waited counts as lacking",
          ("broker/finding/search.py", "    return index.lacks(position)\n", "    return index.behind_bytes\n"),
          kind=Kind.STALE, near=INDEX),
    plant("tables-behind-a-piece-come-first", "Finding messages", "places in an older piece are told in front of those of newer tables",
          ("broker/finding/search.py", "            places += await _find(index, tables, name_hash, PLACES_MAX - len(places))\n            places += source.find(name_hash, PLACES_MAX - len(places))\n", "            places += source.find(name_hash, PLACES_MAX - len(places))\n            places += await _find(index, tables, name_hash, PLACES_MAX - len(places))\n"),
          kind=Kind.ORDER, near=INDEX),
    plant("tables-in-front-of-a-piece-twice", "Finding messages", "tables in front of an older piece are looked into twice",
          ("broker/finding/search.py", "            tables = []\n            continue\n", "            continue\n"),
          kind=Kind.CLEARED, near=INDEX),
    plant("tables-of-a-part-twice", "Finding messages", "with more than 64 tables all of them are looked into again",
          ("broker/finding/search.py", "            places += await _find(index, tables, name_hash, PLACES_MAX - len(places))\n            tables = []\n    if", "            places += await _find(index, tables, name_hash, PLACES_MAX - len(places))\n    if"),
          kind=Kind.CLEARED, near=INDEX),
    # Index: files
    plant("floor-after-the-table-went", "Finding messages", "a kill between the two makes what was let go anew",
          ("broker/finding/files.py", "            note = floor.to_bytes(8, \"big\")\n            self._disk.replace(self._path(_FLOOR), _NOTE.pack(floor, crc32c(note)))\n            self._disk.remove(self._path(name))\n", "            note = floor.to_bytes(8, \"big\")\n            self._disk.remove(self._path(name))\n            self._disk.replace(self._path(_FLOOR), _NOTE.pack(floor, crc32c(note)))\n"),
          kind=Kind.ORDER, near=INDEX),
    plant("places-of-a-damaged-table-end-the-search", "Finding messages", "tables behind a damaged one are not looked into",
          ("broker/finding/files.py", "            except DamagedTable:\n                damaged.append(table)\n            finally:\n", "            except DamagedTable:\n                damaged.append(table)\n                break\n            finally:\n"),
          kind=Kind.CLEARED, near=INDEX),
    plant("table-that-went-ends-the-search", "Finding messages", "tables behind one that was let go meanwhile are not looked into",
          ("broker/finding/files.py", "                continue  # let go meanwhile\n", "                break  # let go meanwhile\n"),
          kind=Kind.CLEARED, near=INDEX),
    plant("damaged-files-count-as-one", "Finding messages", "a start tells of one damaged table, however many there are",
          ("broker/finding/files.py", "                damaged += 1\n", "                damaged = 1\n"),
          kind=Kind.STALE, near=INDEX),
    # Index: whose turn
    plant("set-that-had-its-turn-is-first", "Finding messages", "the index that had its turn comes before the others",
          ("broker/finding/indexing.py", "(one for one in ids if one > last), *(one for one in ids if one <= last)]", "(one for one in ids if one >= last), *(one for one in ids if one < last)]"),
          kind=Kind.RANGE, near=INDEX),
    plant("index-of-an-earlier-member", "Finding messages", "a set that comes back to a node has the index of its earlier member",
          ("broker/finding/indexing.py", "known is not None and known.member is member:", "known is not None:"),
          kind=Kind.STALE, near=INDEX),
    plant("partition-that-begins-at-the-last-message-has-none", "Finding messages", "a table goes while its last message is still there",
          ("broker/finding/indexing.py", "            return log.log_start_offset > last\n", "            return log.log_start_offset >= last\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("tier-that-begins-at-the-last-message-has-none", "Finding messages", "a table goes while its last message is still in the store",
          ("broker/finding/indexing.py", "        return is_known and first is not None and first > last\n", "        return is_known and first is not None and first >= last\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("rest-ends-with-the-waiter-that-was", "Finding messages", "an index rests while a search waits for it",
          ("broker/finding/indexing.py", "        rest_ms = 0 if index.has_waiters else min(REST * took_ms, REST_MS_MAX)\n", "        rest_ms = min(REST * took_ms, REST_MS_MAX)\n"),
          kind=Kind.STALE, near=INDEX),
    # Index: names
    plant("last-key-of-the-bound-has-the-rest", "Finding messages", "the 128th key is not found where more follow",
          ("remoting/finding/naming.py", "keys.split(_SEPARATOR, KEYS_MAX)[:KEYS_MAX]", "keys.split(_SEPARATOR, KEYS_MAX - 1)[:KEYS_MAX]"),
          kind=Kind.RANGE, near=INDEX),
    plant("key-is-an-id", "Finding messages", "who asks for an id gets what has it for a key",
          ("remoting/finding/naming.py", "    return not is_id and (keys == name or name in", "    return (not is_id and keys == name) or (name in"),
          kind=Kind.RANGE, near=INDEX),
    plant("what-follows-in-the-batch-is-found", "Finding messages", "a place in a batch that was cut away gives the message behind it",
          ("remoting/finding/reading.py", "        if message.queue_offset == wanted.offset:\n", "        if message.queue_offset >= wanted.offset:\n"),
          kind=Kind.RANGE, near=INDEX),
    plant("unreadable-batches-of-a-run-count-once", "Finding messages", "a run with several batches that can not be read counts one",
          ("broker/finding/gathering.py", "                gathered.unreadable += 1\n", "                gathered.unreadable = 1\n"),
          kind=Kind.STALE, near=INDEX),
    plant("messages-without-names-set-the-times", "Finding messages", "the time of each record counts, so that searches look where nothing can be",
          ("broker/finding/gathering.py", "            gathered.add(partition, header.base_offset + delta, names)\n            gathered.saw(record_timestamp(header, timestamp_delta))\n", "            gathered.add(partition, header.base_offset + delta, names)\n        gathered.saw(record_timestamp(header, timestamp_delta))\n"),
          kind=Kind.RANGE, near=INDEX),
)  # fmt: skip
