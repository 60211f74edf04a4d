"""Fetch requests and answers of many partitions, a slice at a time; see fetch.py and slices.py.

    fetch_answer_slices    generator: each step encodes a bounded number of partitions

The request is decoded by its schema (slices.py). Source: as in fetch.py. Not here: who leads
instead, which a client of so many partitions asks the metadata for.
"""

from collections.abc import Generator, Iterable
from itertools import groupby
from operator import itemgetter

from penstock.base.ports import Buffer
from penstock.protocol.fetch import FetchAnswer, FetchEncoding
from penstock.protocol.slices import SLICE


def fetch_answer_slices(
    version: int, answers: Iterable[FetchAnswer], *, session_id: int
) -> Generator[None, None, list[Buffer]]:
    """Encode as `encode_fetch_response` does; `answers` are made as they are needed."""
    topics: list[tuple[bytes, list[FetchAnswer]]] = []
    count = 0
    for topic, parts in groupby(answers, itemgetter(0)):
        topics.append((topic, []))
        for answer in parts:
            topics[-1][1].append(answer)
            count += 1
            if count % SLICE == 0:
                yield
    encoding = FetchEncoding(version, len(topics), session_id=session_id)
    for topic, found in topics:
        encoding.begin_topic(topic, len(found))
        for answer in found:
            encoding.add(answer)
            count += 1
            if count % SLICE == 0:
                yield
        encoding.end_topic()
    return encoding.finish(())
