"""How far a streaming query is behind its topics, from the progress that Spark reports.

Python sources can not add metrics of their own to a query's progress (Spark 4.2 has no such hook),
but they report their newest offsets, which Spark shows as `latestOffset` of the source. Lag is that
minus `endOffset`.
"""

from collections.abc import Mapping
from typing import Any

from penstock.spark.ranges import PartitionName, offsets_from_json


def lag_of(progress: Mapping[str, Any]) -> dict[PartitionName, int]:
    """Return for each partition the number of records the query had not read after this batch.

    Takes an entry of `query.recentProgress`, or `json.loads(event.progress.json)` in a listener.
    Sources of other formats are left out.
    """
    behind: dict[PartitionName, int] = {}
    for source in progress["sources"]:
        end, latest = source["endOffset"], source["latestOffset"]
        if "python" not in source["description"].lower() or not end or not latest:
            continue
        ends = offsets_from_json(end, option="endOffset")
        for name, newest in offsets_from_json(latest, option="latestOffset").items():
            behind[name] = max(0, newest - ends.get(name, 0))
    return behind
