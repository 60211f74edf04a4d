"""What a leader tells of the tier, and what of it is not believed."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import pytest

from penstock.client.cluster import Cluster
from penstock.client.errors import BrokerError, MalformedAnswer, UnsupportedByBroker
from penstock.client.tier import NOT_THERE, StorePlace, TierPart, tier_part
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from penstock.protocol.own_fields import TierState
from penstock.tier.metadata.manifest import Run
from penstock.tier.metadata.run_bytes import encode_run
from tests.extents.files import CLUSTER
from tests.tier.test_told import RUNS

KEY = ApiKey.DESCRIBE_PRODUCERS
PLACE = StorePlace("s3://b/p", "http://e", "r")
T = TypeVar("T")


class Asked:
    """A cluster of one leader, whose answers are bytes on their way."""

    address = "leader"

    def __init__(self, **partition: object) -> None:
        self.top: dict[str, object] = {
            "tier_store": PLACE,
            "tier_cluster": CLUSTER,
            "tier_lease_ms": 7,
        }
        self.partition = partition
        self.requests: list[Any] = []
        self.is_old = False

    def leader(self, _topic: str, _partition: int) -> int:
        return 1

    def connection(self, _leader: int) -> "Asked":
        return self

    def call(self, key: ApiKey, fields: dict[str, object]) -> Any:
        if self.is_old:
            raise UnsupportedByBroker("it")
        self.requests.append(decode_request(key, 0, memoryview(encode_request(key, 0, fields)), 0))
        one = {"partition_index": 3, "error_code": 0, "active_producers": (), **self.partition}
        body = encode_response(key, 0, {**self.top, "topics": [{"name": "t", "partitions": [one]}]})
        return decode_response(key, 0, memoryview(body))

    def retry(self, _what: str, attempt: Callable[[], T]) -> T:
        return attempt()


def told(asked: Asked, offset: int = 6) -> TierPart:
    return tier_part(cast("Cluster", asked), "t", 3, offset)


def known(runs: Sequence[Run], **more: object) -> Asked:
    encoded = [encode_run(run) for run in runs]
    bounds = {"tier_start": 6, "tier_end": 20, "tier_runs": encoded}
    return Asked(tier_state=TierState.KNOWN, **bounds, **more)


def test_a_leader_is_asked_from_an_offset_and_tells_place_lease_bounds_and_runs() -> None:
    asked = known(RUNS)
    assert told(asked) == TierPart(TierState.KNOWN, PLACE, 7, 6, 20, RUNS)
    (request,) = asked.requests
    assert (request.tier_from, request.topics[0].name) == (6, "t")


def test_a_broker_that_knows_of_no_tier_has_nothing_in_one() -> None:
    kafkas = Asked()
    kafkas.top = {}
    assert told(kafkas) == NOT_THERE
    kafkas.is_old = True
    assert told(kafkas) == NOT_THERE


@pytest.mark.parametrize("state", [TierState.NONE, TierState.UNKNOWN])
def test_nothing_and_not_known_are_told_apart(state: TierState) -> None:
    asked = Asked(tier_state=state)
    asked.top = {}
    assert told(asked) == TierPart(state)


def test_an_error_is_raised_and_never_taken_for_nothing() -> None:
    with pytest.raises(BrokerError, match="tier of t-3"):
        told(Asked(error_code=29))


@pytest.mark.parametrize(
    "runs",
    [
        (RUNS[0], RUNS[2]),
        (RUNS[1], RUNS[0]),
        (RUNS[0], RUNS[1]._replace(end_offset=10)),
        (RUNS[0]._replace(end_offset=5),),
        (RUNS[0], RUNS[1]._replace(entry=RUNS[1].entry._replace(partition=9))),
    ],
)
def test_runs_that_are_not_one_sequence_are_refused(runs: Sequence[Run]) -> None:
    with pytest.raises(MalformedAnswer, match="leader"):
        told(known(runs))


def test_a_leader_that_does_not_say_where_its_tier_is_is_refused() -> None:
    for top in ({"tier_store": ("a", "b")}, {"tier_cluster": b"short"}):
        asked = known(RUNS)
        asked.top = {**asked.top, **top}
        with pytest.raises(MalformedAnswer, match="where the tier is"):
            told(asked)
    with pytest.raises(MalformedAnswer, match="a run of 2 bytes"):
        told(Asked(tier_state=TierState.KNOWN, tier_runs=[b"xx"]))
