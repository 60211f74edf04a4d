"""Who reads which levels, and whether all that must do."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.base.ids import BrokerEpoch, BrokerId, RequestId
from penstock.controller.commands.command import ChangeFeatureLevel
from penstock.controller.errors import FeatureLevelRefused
from penstock.controller.metadata import records as r
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.levels import (
    GROUPS,
    METADATA,
    METADATA_LEVELS,
    SHARES,
    STREAMS,
    TRANSACTIONS,
)
from penstock.controller.metadata.replay import replay
from penstock.runtime.session.messages import ChangeFeature, FeaturesRequest
from penstock.runtime.session.service_features import FeatureTable

_NEWEST = METADATA_LEVELS.highest
_NEW, _OLD = METADATA_LEVELS.packed(), 0


def _broker(broker_id: int) -> r.BrokerRegistered:
    return r.BrokerRegistered(
        broker_id=BrokerId(broker_id),
        host="h",
        port=1,
        rack=None,
        broker_epoch=BrokerEpoch(100 + broker_id),
    )


@dataclass
class _Case:
    """Controllers 1 to 3, of which 1 is asked; brokers 1, 2 and 11; a learner 20."""

    said: list[tuple[int, int]] = field(
        default_factory=lambda: [(2, _NEW), (3, _NEW), (11, _NEW), (20, _NEW)]
    )
    level: int = 1
    submitted: list[ChangeFeatureLevel] = field(default_factory=list)
    tried: list[ChangeFeatureLevel] = field(default_factory=list)

    def __post_init__(self) -> None:
        image = ClusterImage()
        if self.level == 2:
            replay(image, [r.FeatureLevelChanged(feature=METADATA, level=2, epoch=7)])
        for one in (1, 2, 11):
            replay(image, [_broker(one)])
        self.table = FeatureTable(
            own_id=1,
            image=image,
            voters=lambda: (1, 2, 3),
            said=lambda: self.said,
            submit=self._submit,
            trial=self._try,
        )

    async def _submit(self, command: ChangeFeatureLevel) -> int:
        self.submitted.append(command)
        return command.level

    def _try(self, command: ChangeFeatureLevel) -> int:
        self.tried.append(command)
        return command.level

    def ask(self, **fields: Any) -> str:
        request = ChangeFeature(request_id=RequestId(1), **{"feature": METADATA, **fields})
        return asyncio.run(self.table.answer(request))

    def document(self) -> Any:
        return json.loads(asyncio.run(self.table.answer(FeaturesRequest(request_id=RequestId(1)))))


def test_the_level_is_raised_to_the_newest_where_everybody_reads_it() -> None:
    case = _Case()
    assert case.ask() == f"penstock.metadata is at level {_NEWEST}"
    assert case.submitted == [
        ChangeFeatureLevel(
            feature=METADATA,
            level=_NEWEST,
            checked_brokers=tuple((BrokerId(one), BrokerEpoch(100 + one)) for one in (1, 2, 11)),
        )
    ]


def test_a_trial_is_judged_and_submits_nothing() -> None:
    case = _Case()
    assert case.ask(level=2, is_trial=True) == "penstock.metadata can be set to level 2"
    assert (case.submitted, [one.level for one in case.tried]) == ([], [2])


def test_the_level_is_lowered_by_one_and_never_below_the_first() -> None:
    case = _Case(level=2)
    case.ask(is_lowering=True)
    again = _Case()
    again.ask(is_lowering=True)
    assert [one.level for one in (*case.submitted, *again.submitted)] == [1, 1]
    assert case.submitted[0].is_lowering


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ([(2, _OLD), (3, _NEW), (11, _NEW)], "broker 2 reads 1: start a release there"),
        ([(2, _NEW), (3, _OLD), (11, _NEW)], "controller 3 reads 1"),
        ([(2, _NEW), (3, _NEW), (11, _NEW), (20, _OLD)], "process 20 reads 1"),
        ([(2, _NEW), (3, _NEW)], "broker 11 is not connected.*start it, or remove it"),
        ([(2, _NEW), (11, _NEW)], "controller 3 is not connected.*start it"),
        ([(2, _NEW), (3, _NEW), (11, _NEW), (11, _OLD)], "broker 11 reads 1"),
    ],
)
def test_whoever_does_not_read_the_level_is_named(said: list[tuple[int, int]], named: str) -> None:
    case = _Case(said)
    with pytest.raises(FeatureLevelRefused, match=named):
        case.ask()
    assert case.submitted == []


def test_a_level_that_nobody_has_is_refused_and_an_unknown_feature_goes_to_the_command() -> None:
    case = _Case()
    with pytest.raises(FeatureLevelRefused, match=f"broker 1 reads {METADATA_LEVELS}"):
        case.ask(level=_NEWEST + 1)
    case.ask(feature="transaction.version")
    assert [one.feature for one in case.submitted] == ["transaction.version"]


def test_operators_see_levels_and_who_reads_which() -> None:
    document = _Case([(2, _OLD), (20, _NEW)], level=2).document()
    assert document["epoch"] == 7
    assert document["features"] == [
        {"feature": GROUPS, "level": 1, "lowest": 1, "highest": 1},
        {"feature": METADATA, "level": 2, "lowest": 1, "highest": _NEWEST},
        {"feature": SHARES, "level": 1, "lowest": 1, "highest": 1},
        {"feature": STREAMS, "level": 1, "lowest": 1, "highest": 1},
        {"feature": TRANSACTIONS, "level": 1, "lowest": 1, "highest": 2},
    ]
    assert [
        (one["id"], one["is_broker"], one["is_controller"], one["is_heard"], one["highest"])
        for one in document["processes"]
    ] == [
        (1, True, True, True, _NEWEST),
        (2, True, True, True, 1),
        (3, False, True, False, None),
        (11, True, False, False, None),
        (20, False, False, True, _NEWEST),
    ]
