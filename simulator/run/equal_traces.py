"""Is a run the same again: in another process, and under another hash seed?"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HASH_SEEDS = ("1", "2")
"""Of the two processes; sets of strings are iterated in another order in each."""


class RunFailed(Exception):
    """A process ended without results, or a run broke a promise."""


def traces(seeds: range, *, faults: int) -> list[dict[str, str]]:
    """Run the seeds in two processes at once; return the digests of each by seed.

    Raises RunFailed.
    """
    with tempfile.TemporaryDirectory() as directory:
        files = [Path(directory) / f"{hash_seed}.json" for hash_seed in HASH_SEEDS]
        runs = [
            _start(seeds, faults, file, hash_seed)
            for file, hash_seed in zip(files, HASH_SEEDS, strict=True)
        ]
        codes = [run.wait() for run in runs]
        if any(codes):
            raise RunFailed(f"runs of the seeds ended with exit codes {codes}")
        return [digests(json.loads(file.read_text())["runs"], seeds) for file in files]


def differences(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return what is wrong: seeds with two traces, and seeds that share one."""
    texts = [
        f"seed {seed}: trace {one.get(seed)} in one process, {other.get(seed)} in the other"
        for seed in sorted(one.keys() | other.keys(), key=int)
        if one.get(seed) != other.get(seed)
    ]
    if len(set(one.values())) < len(one):
        texts.append("different seeds gave the same trace: the seed decides too little")
    return texts


def _start(seeds: range, faults: int, results: Path, hash_seed: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "simulator", "--seeds", f"{seeds.start}..{seeds.stop - 1}"]
    return subprocess.Popen(  # noqa: S603
        [*command, "--faults", str(faults), "--results", str(results)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.DEVNULL,
    )


def digests(runs: Mapping[str, Mapping[str, Any]], seeds: Iterable[int]) -> dict[str, str]:
    """Return the digest of the trace of each of `seeds` that was run, by seed."""
    return {str(seed): runs[str(seed)]["digest"] for seed in seeds if str(seed) in runs}
