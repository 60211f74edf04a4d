"""Bugs of the index of messages by id and key, and of the queries that ask it."""

from .mutant import Kind, plant

AREA = "Finding messages"
INDEX = ("tests/broker/test_key_index.py",)
TABLES = ("tests/finding/test_tables.py",)
QUERIES = ("tests/remoting/test_queries.py",)
PICKED = ("tests/record/test_picked.py",)

MUTANTS = (
    plant(
        "finding-what-is-not-confirmed-is-indexed",
        AREA,
        "a message that a failover takes away is in the index, and what replaces it is not",
        (
            "broker/finding/key_index.py",
            "            piece, self.member.confirm_position, over\n",
            "            piece, self.member.log.written_position, over\n",
        ),
        (
            "broker/finding/key_index.py",
            "        return piece.end < self.member.confirm_position and self._read(\n",
            "        return piece.end < self.member.log.written_position and self._read(\n",
        ),
        kind=Kind.GUARD,
        near=INDEX,
    ),
    plant(
        "finding-epochs-are-not-compared",
        AREA,
        "a member that was cut keeps what another mastership has replaced",
        (
            "finding/coverage.py",
            "    return epoch < 0 or known is None or known == epoch\n",
            "    return True\n",
        ),
        kind=Kind.GUARD,
        near=(*INDEX, *TABLES),
    ),
    plant(
        "finding-an-epoch-that-begins-at-a-position-is-that-of-the-frame-in-front",
        AREA,
        "a table that ends where a mastership ends is let go",
        (
            "finding/coverage.py",
            "    at = bisect_left(starts, position)\n",
            "    at = bisect_left(starts, position + 1)\n",
        ),
        kind=Kind.RANGE,
        near=TABLES,
    ),
    plant(
        "finding-a-hash-across-two-entries-counts",
        AREA,
        "a name is found where none is, and one that is there is read at another place",
        (
            "finding/piece.py",
            "        if not rest:\n",
            "        if at + ENTRY.size <= len(entries):\n",
        ),
        kind=Kind.GUARD,
        near=TABLES,
    ),
    plant(
        "finding-a-bucket-has-no-checksum",
        AREA,
        "damage of a table hides messages, and nobody hears of it",
        (
            "finding/table.py",
            "    if len(entries) != count * ENTRY.size or (count and crc32c(entries) != crc):\n",
            "    if len(entries) != count * ENTRY.size or (count and crc < 0):\n",
        ),
        kind=Kind.GUARD,
        near=TABLES,
    ),
    plant(
        "finding-a-damaged-table-stays",
        AREA,
        "what a damaged table has is never found again",
        (
            "broker/finding/search.py",
            "        index.let_go(table)\n",
            "        index.tables.count(table)\n",
        ),
        kind=Kind.GUARD,
        near=INDEX,
    ),
    plant(
        "finding-what-was-let-go-is-lacking",
        AREA,
        "tables beyond the bound of the disk are made again and again",
        (
            "broker/finding/key_index.py",
            "        start = max(self._floor, self.member.log.start_position)\n",
            "        start = self.member.log.start_position\n",
        ),
        kind=Kind.RANGE,
        near=INDEX,
    ),
    plant(
        "finding-the-floor-is-not-read-at-a-start",
        AREA,
        "a restart makes the tables again that the bound of the disk took away",
        (
            "broker/finding/files.py",
            "        return Opened(tables, self._read_floor(), damaged)\n",
            "        return Opened(tables, 0, damaged)\n",
        ),
        kind=Kind.GUARD,
        near=INDEX,
    ),
    plant(
        "finding-a-table-goes-with-its-last-message",
        AREA,
        "the last message of a table is there and not found",
        (
            "broker/finding/indexing.py",
            "            return log.log_start_offset > last\n",
            "            return log.log_start_offset >= last\n",
        ),
        kind=Kind.RANGE,
        near=INDEX,
    ),
    plant(
        "finding-the-first-offset-of-a-partition-is-its-last",
        AREA,
        "a table goes while it has messages that are there",
        (
            "finding/piece.py",
            "        self.last_offsets[number] = max(self.last_offsets[number], offset)\n",
            "        self.last_offsets[number] = min(self.last_offsets[number], offset)\n",
        ),
        kind=Kind.RANGE,
        near=(*INDEX, *TABLES),
    ),
    plant(
        "finding-nobody-waits-for-the-index",
        AREA,
        "a message that was acknowledged is not found right after",
        (
            "broker/finding/key_index.py",
            "        if self._has_reached(position) or len(self._waiters) >= WAITING_MAX:\n",
            "        if position >= 0 or len(self._waiters) >= WAITING_MAX:\n",
        ),
        kind=Kind.GUARD,
        near=(*INDEX, *QUERIES),
    ),
    plant(
        "finding-a-master-that-was-cut-off-says-that-there-is-none",
        AREA,
        "a message that the next master has confirmed is told not to be there",
        (
            "broker/finding/key_index.py",
            "        member.check_readable()\n",
            "        member.log.end_position\n",
        ),
        kind=Kind.GUARD,
        near=INDEX,
    ),
    plant(
        "finding-a-new-master-says-too-early-that-there-is-none",
        AREA,
        "what the old master has confirmed is told not to be there",
        (
            "broker/finding/key_index.py",
            "        if not knows_the_ends(member):\n",
            "        if member.confirm_position < 0:\n",
        ),
        kind=Kind.GUARD,
        near=INDEX,
    ),
    plant(
        "finding-a-key-is-taken-for-an-id",
        AREA,
        "a query by id tells another message, which has the id as a key",
        (
            "remoting/finding/naming.py",
            "    return not is_id and (keys == name or name in keys.split(_SEPARATOR.decode()))\n",
            "    return keys == name or name in keys.split(_SEPARATOR.decode())\n",
        ),
        kind=Kind.GUARD,
        near=QUERIES,
    ),
    plant(
        "finding-times-of-messages-are-not-looked-at",
        AREA,
        "a query for a time tells messages of the same piece that are of another",
        (
            "remoting/handlers/admin/query.py",
            "        return is_then and named\n",
            "        return named\n",
        ),
        kind=Kind.GUARD,
        near=QUERIES,
    ),
    plant(
        "finding-a-long-batch-ends-with-its-first-portion",
        AREA,
        "messages behind the first 512 of a batch are not found",
        (
            "record/picked.py",
            "        previous = found[-1][0]\n",
            "        previous = found[-1][0]\n        return\n",
        ),
        kind=Kind.RANGE,
        near=PICKED,
    ),
)
