"""The rows of the second level: cleaning beside Kafka's cleaner, reading from a store beside its.

Kafka's store is LocalTieredStorage of its own test jars, a directory as ours is. A group starts
servers of its own, and is warmed up by its own load.
"""

from collections.abc import Iterable
from typing import Final

from benchmarks.peers import second_level_probes as probes
from benchmarks.peers.model import Figure, Group, Question, Spec

COST_MAX: Final = 0.7
"""Of what Kafka's cleaner costs."""


def _cleaning() -> Iterable[Question]:
    for codec in ("none", "zstd"):
        yield Question(
            name="clean-1k" + ("" if codec == "none" else f"-{codec}"),
            ask=probes.clean(codec=codec),
            figures=(
                Figure(key="MB/s", unit="MB/s", is_more_better=True, targets={"kafka": 1.5}),
                Figure(
                    key="cpu",
                    unit="CPU s/GB",
                    is_more_better=False,
                    targets={"kafka": round(1 / COST_MAX, 2)},
                ),
            ),
            ours=Spec(product="penstock", has_cleaner=True),
            peers=(Spec(product="kafka", has_cleaner=True),),
            note="1 KiB, each key four times, batches of 16 KiB; all processes count",
        )


def _catch_up() -> Iterable[Question]:
    for partitions in (1, 10):
        yield Question(
            name="tier-catch-up" + ("" if partitions == 1 else f"-{partitions}"),
            ask=probes.catch_up(partitions=partitions),
            figures=(
                Figure(key="MB/s", unit="MB/s", is_more_better=True, targets={"kafka": 3.0}),
                Figure(key="cpu", unit="CPU s/GB", is_more_better=False),
                Figure(key="client_cpu", unit="client CPU s/GB", is_more_better=False),
            ),
            ours=Spec(product="penstock", has_store=True),
            peers=(Spec(product="kafka", has_store=True),),
            note=f"{partitions} partitions, 1 KiB, from a directory as object store",
        )


def groups() -> tuple[Group, ...]:
    """Return the groups, one for each kind of server."""
    return (
        Group(name="clean", questions=tuple(_cleaning()), is_warm=False),
        Group(name="tier", questions=tuple(_catch_up()), is_warm=False),
    )
