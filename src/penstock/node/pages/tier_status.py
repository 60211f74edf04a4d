"""`/tier` on the metrics port: what the sets led here have in the object store, as JSON.

    {"broker_id", "copies", "counters": {}, "tiered_sets": [], "sets": [], "partitions": []}

`tiered_sets` are all sets of the cluster that have topics to be copied, whoever leads them: whoever
asks several nodes knows by it whether all have been asked.
"""

import json
from dataclasses import asdict

from penstock.base.ids import ReplicaSetId
from penstock.broker.broker import Broker
from penstock.broker.tier.standing import is_remote, standings
from penstock.broker.tier.view import CopyStanding
from penstock.broker.turns import Pace
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.runtime.io.http_server import JSON, Page
from penstock.tier.copies.copier import Step
from penstock.tier.copies.counters import CopyCounters
from penstock.tier.metadata.objects import State


async def tier_page(broker: Broker) -> Page:
    """Return the page, made in slices."""
    pace, tier = Pace(broker.turns), broker.tier
    sets: list[bytes] = []
    partitions: list[bytes] = []
    for set_id, member in sorted(broker.members.items()):
        if member.role is not Role.MASTER:
            continue
        copying = None if tier is None else tier.standing(member)
        rows = [_encoded(row._asdict()) async for row in standings(broker, member, copying, pace)]
        partitions += rows
        if rows or (copying is not None and copying.step != "waiting"):
            sets.append(_encoded(await _set_row(broker, set_id, member, copying, pace)))
    head = {
        "broker_id": int(broker.broker_id),
        "copies": tier is not None,
        "counters": asdict(CopyCounters() if tier is None else tier.counters),
        "tiered_sets": await _tiered_sets(broker, pace),
    }
    body = b"".join(
        (
            _encoded(head)[:-1],
            b', "sets": [',
            b", ".join(sets),
            b'], "partitions": [',
            b", ".join(partitions),
            b"]}\n",
        )
    )
    return Page(200, JSON, body)


def _encoded(row: dict[str, object]) -> bytes:
    return json.dumps(row).encode()


async def _set_row(
    broker: Broker,
    set_id: ReplicaSetId,
    member: ReplicaSetMember,
    copying: CopyStanding | None,
    pace: Pace,
) -> dict[str, object]:
    metadata = None if broker.tier is None else broker.tier.metadata_of(set_id)
    rows = [] if metadata is None else list(metadata.objects.rows.values())
    live_bytes = live = 0
    for row in rows:
        await pace.step()
        if row.state is State.LIVE:
            live, live_bytes = live + 1, live_bytes + row.object_bytes
    return {
        "replica_set": int(set_id),
        "leader_epoch": int(member.leader_epoch),
        "step": None if copying is None else copying.step,
        "trouble": None if copying is None else copying.trouble,
        "is_fenced": _is_fenced(member, copying),
        "objects": live,
        "object_bytes": live_bytes,
        "leaving_objects": len(rows) - live,
    }


def _is_fenced(member: ReplicaSetMember, copying: CopyStanding | None) -> bool:
    """Whether nothing is copied any more: the log is fenced, or another mastership copies."""
    is_deposed = copying is not None and copying.step == Step.DEPOSED.value
    return member.log.is_fenced or is_deposed


async def _tiered_sets(broker: Broker, pace: Pace) -> list[int]:
    found: set[int] = set()
    for topic in list(broker.metadata.topics_by_id.values()):
        await pace.step()
        if is_remote(topic):
            found.update(map(int, topic.partitions.set_ids))
    return sorted(found)
