"""Searching an index: places where messages of a name may be, the newest first.

    newest piece ─► tables, some at a time, and the older piece, by position from the end on
      ─► enough places, or all were looked at

A search first waits until the index has what was confirmed when it began, for a time. What it has
not by then it may lack: the answer says so (`behind_bytes`).

Source: ours; RocketMQ `IndexService.queryOffset`, which answers from what there is.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.finding.piece import Piece, Place

if TYPE_CHECKING:
    from penstock.broker.finding.files import Searched
    from penstock.broker.finding.indexing import Indexing
    from penstock.broker.finding.key_index import KeyIndex
    from penstock.finding.table import Table

WAIT_MS: Final = 2_000
"""Clients of RocketMQ wait for six seconds."""
TABLES: Final = 64
"""That are looked into at once, off the loop."""
PLACES_MAX: Final = 4_096
"""Of one search, the newest: each is read and compared, and a key may be that of every message."""


class Times(NamedTuple):
    """From when to when the messages are that are wanted, both inclusive, in ms."""

    first_ms: int
    last_ms: int

    def meets(self, source: Piece | Table) -> bool:
        """Whether a part of the index may have such messages."""
        return source.first_ms <= self.last_ms and source.last_ms >= self.first_ms


async def wait_until_indexed(indexing: Indexing, index: KeyIndex, until_ms: int) -> int:
    """Wait until all that is confirmed now is in the index, or until a time.

    Returns how many bytes of the log, of those that are confirmed now, it lacks nevertheless.
    """
    position = index.member.confirm_position
    reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def told() -> None:
        if not reached.done():
            reached.set_result(None)

    index.when_reached(position, until_ms, told)
    indexing.look()
    await reached
    return index.lacks(position)


async def find_places(index: KeyIndex, name_hash: bytes, times: Times, most: int) -> list[Place]:
    """Return about `most` places or more, PLACES_MAX at most, the newest first. Raises OSError."""
    sources: list[Piece | Table] = [*index.pieces(), *index.tables]
    sources = [one for one in sources if times.meets(one)]
    sources.sort(key=lambda one: one.first, reverse=True)
    places: list[Place] = []
    tables: list[Table] = []
    for source in sources:
        if len(places) >= most:
            return places
        if isinstance(source, Piece):
            places += await _find(index, tables, name_hash, PLACES_MAX - len(places))
            places += source.find(name_hash, PLACES_MAX - len(places))
            tables = []
            continue
        tables.append(source)
        if len(tables) == TABLES:
            places += await _find(index, tables, name_hash, PLACES_MAX - len(places))
            tables = []
    if len(places) < most:
        places += await _find(index, tables, name_hash, PLACES_MAX - len(places))
    return places


async def _find(index: KeyIndex, tables: list[Table], name_hash: bytes, most: int) -> list[Place]:
    if not tables:
        return []
    told: asyncio.Future[Searched] = asyncio.get_running_loop().create_future()

    def done(searched: Searched | None, error: BaseException | None) -> None:
        if told.done():
            return
        if searched is not None:
            told.set_result(searched)
        elif error is not None:
            told.set_exception(error)

    index.files.find(tables, name_hash, most, done)
    searched = await told
    for table in searched.damaged:
        index.let_go(table)
    return searched.places
