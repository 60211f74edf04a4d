"""Fetch requests and answers of many partitions, a slice at a time; see fetch.py and slices.py.

    fetch_answer_slices    generator: each step encodes a bounded number of partitions

The request is decoded by its schema (slices.py). Source: as in fetch.py. Not here: hints of current
leaders; a client of so many partitions fetches metadata.
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
    """Encode as `encode_fetch_response` does; `answers` is iterated in slices too."""
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
    topics.reverse()  # taken from the end, so that what was encoded is freed in its slice
    while topics:
        topic, parts_of_topic = topics.pop()
        encoding.begin_topic(topic, len(parts_of_topic))
        parts_of_topic.reverse()
        while parts_of_topic:
            encoding.add(parts_of_topic.pop())
            count += 1
            if count % SLICE == 0:
                yield
        encoding.end_topic()
    return encoding.finish(())
