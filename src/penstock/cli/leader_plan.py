"""A plan that spreads masterships over brokers, by partitions led: which sets move where.

    brokers 1 2 3 lead 40, 40 and 0 partitions  ─►  a set of 1 with 20 moves to 3, one of 2 as well

Only members in step can take a set over without copying data, so a new broker gets masterships once
it is a member of sets. Each move lowers the load of the more loaded of its two brokers, so the plan
is finite; a set moves at most once.

Source: Kafka's preferred leaders (kafka-leader-election.sh) and Cruise Control's leadership moves;
this plan goes by load, not by the order of members. It reads the status and changes nothing.
"""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.session import BrokerStatus, SetStatus, StatusAnswer


class Move(NamedTuple):
    """A mastership to be transferred; `weight` is its load, see `weight_of`."""

    replica_set_id: ReplicaSetId
    source: BrokerId
    target: BrokerId
    weight: int


class LeaderPlan(NamedTuple):
    """The moves, in order, and what each broker leads before and after them."""

    moves: tuple[Move, ...]
    before: dict[BrokerId, int]
    after: dict[BrokerId, int]


def plan_leaders(status: StatusAnswer) -> LeaderPlan:
    """Return the moves that level what brokers lead, as far as members in step allow."""
    able = {broker.broker_id for broker in status.brokers if _may_lead(broker)}
    led = {
        replica_set.replica_set_id: replica_set
        for replica_set in status.sets
        if replica_set.master in able
    }
    before = dict.fromkeys(sorted(able), 0)
    for one in led.values():
        before[one.master] += weight_of(one)
    loads = dict(before)
    moves: list[Move] = []
    while candidates := list(_improvements(led, loads)):
        move = min(candidates, key=lambda one: _outcome(one, loads))
        loads[move.source] -= move.weight
        loads[move.target] += move.weight
        moves.append(move)
        del led[move.replica_set_id]
    return LeaderPlan(tuple(moves), before, loads)


def weight_of(replica_set: SetStatus) -> int:
    """Return the load of leading the set: its number of partitions, at least 1."""
    return max(1, replica_set.partition_count)


def _may_lead(broker: BrokerStatus) -> bool:
    return broker.is_live and not broker.is_fenced and not broker.is_draining


def _improvements(led: dict[ReplicaSetId, SetStatus], loads: dict[BrokerId, int]) -> Iterator[Move]:
    for set_id, replica_set in led.items():
        weight, source = weight_of(replica_set), replica_set.master
        for target in replica_set.sync_state_set:
            is_better = target in loads and loads[target] + weight < loads[source]
            if target != source and is_better:
                yield Move(set_id, source, target, weight)


def _outcome(move: Move, loads: dict[BrokerId, int]) -> tuple[int, int, int]:
    """Rank a move: the heaviest source first, then what leaves the two brokers closest."""
    gap = abs(loads[move.source] - move.weight - (loads[move.target] + move.weight))
    return -loads[move.source], gap, move.replica_set_id
