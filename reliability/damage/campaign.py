"""So many damages over so many clusters: all modes, all files, one tally."""

import asyncio
import shutil
import tempfile
import traceback
from pathlib import Path
from random import Random

import uvloop

from reliability.damage.brokers import NodeCluster
from reliability.damage.metadata_files import damage_identity, damage_raft
from reliability.damage.rounds import Rounds, Tally

SETS = 16
"""Damaged at a time, one place each."""
ROUNDS = 20
"""After so many rounds the logs are long, and a new cluster begins."""
ROUND_SECONDS = 150.0
WRONG_MAX = 20
"""Enough to see that something is broken."""
METADATA_SHARE = 8
"""One place in so many is in a controller's files; half as many are in identity.json."""


def run_campaign(positions: int, seed: int) -> Tally:
    """Damage `positions` places; returns what became of them."""
    tally = Tally()
    for part in (damage_raft, damage_identity):
        count = positions // METADATA_SHARE // (1 if part is damage_raft else 2)
        with tempfile.TemporaryDirectory() as directory:
            part(Random(seed), Path(directory), count, tally)
    number = 0
    while tally.position_count < positions and len(tally.wrong) < WRONG_MAX:
        number += 1
        _one_cluster(Random(f"{seed}-{number}"), positions, tally)
    return tally


def _one_cluster(rng: Random, positions: int, tally: Tally) -> None:
    root = Path(tempfile.mkdtemp(prefix="corruption-"))

    async def live() -> None:
        cluster = NodeCluster(root, SETS)
        await cluster.begin()
        rounds = Rounds(cluster, rng, tally)
        for _ in range(ROUNDS):
            if tally.position_count >= positions:
                break
            async with asyncio.timeout(ROUND_SECONDS):
                await rounds.fill()
                await (rounds.stopped() if rng.random() < 0.6 else rounds.running())
        await cluster.end()

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(live())
    except (AssertionError, TimeoutError) as error:
        where = "".join(traceback.format_exception(error)[-6:])
        tally.wrong.append(f"a round failed: {where}")
    finally:
        shutil.rmtree(root, ignore_errors=True)
