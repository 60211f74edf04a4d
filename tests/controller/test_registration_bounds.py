"""What a registration may say: out of bounds, it is refused."""

import pytest

from penstock.base.endpoints import FIRST_LISTENER, LISTENERS_MAX, NamedEndpoint
from penstock.controller import errors as e
from penstock.controller.commands import command as c
from tests.controller.cluster import Cluster


def _register(cluster: Cluster, **changed: object) -> int:
    fields: dict[str, object] = {"broker_id": 0, "host": "h", "port": 1, "identity": "disk"}
    return cluster.submit(c.RegisterBroker(**{**fields, **changed}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"broker_id": -1},
        {"broker_id": 2**31},
        {"port": -1},
        {"port": 2**16},
        {"ha_port": 2**33},
        {"directory_count": 0},
        {"directory_count": 2**33},
        {"host": "h" * 2_000},
        {"rack": "r" * 2_000},
        {"machine": "m" * 2_000},
        {"listeners": (NamedEndpoint("a", "h", 1), NamedEndpoint("a", "i", 2))},
        {"listeners": (NamedEndpoint(FIRST_LISTENER, "h", 1),)},
        {"listeners": (NamedEndpoint("a", "h", 0),)},
        {"listeners": (NamedEndpoint("a", "h", 2**16),)},
        {"listeners": (NamedEndpoint("a b", "h", 1),)},
        {"listeners": (NamedEndpoint("a", "h" * 2_000, 1),)},
        {"listeners": tuple(NamedEndpoint(str(n), "h", 1) for n in range(LISTENERS_MAX + 1))},
    ],
)
def test_a_registration_that_no_broker_can_mean_is_refused(wrong: dict[str, object]) -> None:
    cluster = Cluster(sets=())
    with pytest.raises(e.InvalidMetadataRequest):
        _register(cluster, **wrong)
    _register(cluster, directory_count=1)
    assert list(cluster.image.brokers) == [0]
