"""Feature levels, for operators: what each process reads, and changing a level.

    hello of each Raft link, heartbeat of each session ─► what every process reads
    wanted level ─► read by all processes? ─► command to the driver ─► FeatureLevelChanged

Every process that follows the metadata log must read what is written there: all registered brokers,
all controllers, and any other with a link. The levels of a process that is not connected now are
unknown.

Source: KIP-584 (the controller compares with what brokers support); ADR 0067.
"""

import json
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple

from penstock.controller.commands.command import ChangeFeatureLevel
from penstock.controller.errors import FeatureLevelRefused
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.levels import (
    FIRST_LEVEL,
    METADATA,
    METADATA_LEVELS,
    SUPPORTED,
    LevelRange,
    unpack_levels,
)
from penstock.runtime.session.messages import ChangeFeature, FeaturesRequest


class ProcessLevels(NamedTuple):
    """A process that must read what is written; `levels` is None while it is not connected."""

    peer_id: int
    is_broker: bool
    is_controller: bool
    levels: LevelRange | None


class FeatureTable:
    """See the module. Used on the loop of a controller's service, which must be active."""

    def __init__(
        self,
        *,
        own_id: int,
        image: ClusterImage,
        voters: Callable[[], Iterable[int]],
        said: Callable[[], Iterable[tuple[int, int]]],
        submit: Callable[[ChangeFeatureLevel], Coroutine[Any, Any, int]],
        trial: Callable[[ChangeFeatureLevel], int],
    ) -> None:
        """`said` yields (peer id, packed levels) of every open link and session of other processes.

        `trial` validates a command as `submit` does, and changes nothing.
        """
        self._own_id = own_id
        self._image = image
        self._voters = voters
        self._said = said
        self._submit = submit
        self._trial = trial

    async def answer(self, request: FeaturesRequest | ChangeFeature) -> str:
        """Return levels as JSON, or what was changed in words. Raises MetadataError."""
        if isinstance(request, FeaturesRequest):
            return json.dumps(self._document())
        return await self._change(request)

    def processes(self) -> list[ProcessLevels]:
        """Return every process that must read the metadata, ordered by id."""
        heard: dict[int, LevelRange] = {self._own_id: METADATA_LEVELS}
        for peer_id, packed in self._said():
            levels = unpack_levels(packed)
            before = heard.get(peer_id, levels)
            # A link of an earlier process of the same id may still be open: both count.
            heard[peer_id] = LevelRange(
                max(before.lowest, levels.lowest), min(before.highest, levels.highest)
            )
        brokers, voters = self._image.brokers, set(self._voters())
        return [
            ProcessLevels(peer_id, peer_id in brokers, peer_id in voters, heard.get(peer_id))
            for peer_id in sorted({*brokers, *voters, *heard})
        ]

    async def _change(self, request: ChangeFeature) -> str:
        feature, level = request.feature, request.level or self._level_wanted(request)
        # Levels of other features are those of the metadata level that they need.
        for process in self.processes() if feature == METADATA else ():
            if process.levels is None:
                raise FeatureLevelRefused(
                    feature, level, f"{_name(process)} is not connected, so the levels it reads are"
                    f" unknown: start it{', or remove it' if process.is_broker else ''}"
                )  # fmt: skip
            if not process.levels.has(level):
                raise FeatureLevelRefused(
                    feature, level, f"{_name(process)} reads {process.levels}: start a release"
                    " there that has it"
                )  # fmt: skip
        command = ChangeFeatureLevel(
            feature=feature,
            level=level,
            is_lowering=request.is_lowering,
            checked_brokers=tuple(
                (key, broker.broker_epoch) for key, broker in sorted(self._image.brokers.items())
            ),
        )
        if request.is_trial:
            return f"{feature} can be set to level {self._trial(command)}"
        return f"{feature} is at level {await self._submit(command)}"

    def _level_wanted(self, request: ChangeFeature) -> int:
        if request.is_lowering:
            return max(FIRST_LEVEL, self._level(request.feature) - 1)
        return SUPPORTED[request.feature].highest if request.feature in SUPPORTED else FIRST_LEVEL

    def _level(self, feature: str) -> int:
        return self._image.features.get(feature, FIRST_LEVEL)

    def _document(self) -> dict[str, Any]:
        return {
            "epoch": self._image.features_epoch,
            "features": [
                {"feature": name, "level": self._level(name), "lowest": lowest, "highest": highest}
                for name, (lowest, highest) in sorted(SUPPORTED.items())
            ],
            "processes": [
                {
                    "id": process.peer_id,
                    "is_broker": process.is_broker,
                    "is_controller": process.is_controller,
                    "is_heard": process.levels is not None,
                    "feature": METADATA,
                    "lowest": process.levels.lowest if process.levels else None,
                    "highest": process.levels.highest if process.levels else None,
                }
                for process in self.processes()
            ],
        }


def _name(process_levels: ProcessLevels) -> str:
    if process_levels.is_broker:
        return f"broker {process_levels.peer_id}"
    return f"{'controller' if process_levels.is_controller else 'process'} {process_levels.peer_id}"
