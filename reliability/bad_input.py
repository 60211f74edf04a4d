"""Do bad frames harm a node, its memory, or anybody else who uses it?

`python -m reliability.bad_input --frames 1000000 --seed 1 [--parts NAME,...]`: frames of the whole
grammar against one node and against a cluster of three, on the Kafka, gRPC, remoting, HTTP and
peers' ports, while a good client writes and asks. Runs add up: the next one goes on where the seed
was left, and `--fresh` forgets what was. `--floods` measures floods of whole connections instead,
`--attacks` attacks on the loop and the memory beside a client of 50 records a second (`--quick`:
shorter).

Exit code 1 when a promise was broken; the frames that did it are printed as hex with their seed.
"""

import argparse

from penstock.cli.exit_codes import end_with
from reliability.attacks.attacks import names as attack_names
from reliability.attacks.attacks import run_attacks
from reliability.attacks.bad_input_flood import raise_priority
from reliability.attacks.bad_input_floods import FLOODS, run_floods
from reliability.attacks.bad_input_parts import PARTS, run_part
from reliability.attacks.bad_input_runs import Runs

FRAMES = 1_000_000


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m reliability`."""
    frames(2_000 if quick else 20_000, seed=1, parts=list(PARTS), runs=Runs(is_fresh=False))


def frames(count: int, *, seed: int, parts: list[str], runs: Runs) -> bool:
    """Send so many frames, shared out over the parts; say whether every promise was kept."""
    whole = sum(PARTS[name].share for name in parts)
    is_good = True
    for name in parts:
        wanted = round(count * PARTS[name].share / whole)
        row = run_part(PARTS[name], seed=seed, first=runs.next_frame(name, seed), count=wanted)
        runs.add(row)
        is_good = is_good and row["verdict"] == "ok"
    runs.show()
    return is_good


def main() -> int:
    """Read the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m reliability.bad_input",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--frames", type=int, default=FRAMES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parts", default=",".join(PARTS), help=", ".join(PARTS))
    parser.add_argument("--fresh", action="store_true", help="forget the runs until now")
    parser.add_argument("--floods", nargs="?", const=",".join(FLOODS), help=", ".join(FLOODS))
    parser.add_argument("--attacks", nargs="?", const="", help="all, or NAME,... of them")
    parser.add_argument("--quick", action="store_true", help="attacks: shorter, and fewer")
    given = parser.parse_args()
    raise_priority()
    if given.attacks is not None:
        every = attack_names(quick=False)
        wanted = given.attacks.split(",") if given.attacks else attack_names(quick=given.quick)
        unknown = [name for name in wanted if name not in every]
        if unknown:
            parser.error(f"no such attack: {', '.join(unknown)}; there are {', '.join(every)}")
        return 0 if run_attacks(wanted, quick=given.quick) else 1
    runs = Runs(is_fresh=given.fresh)
    if given.floods:
        return 0 if run_floods(given.floods.split(","), runs) else 1
    parts = given.parts.split(",")
    unknown = [name for name in parts if name not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return 0 if frames(given.frames, seed=given.seed, parts=parts, runs=runs) else 1


if __name__ == "__main__":
    end_with(main)
