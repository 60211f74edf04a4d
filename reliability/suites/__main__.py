"""What do the clients' own tests say of this platform?

`python -m reliability.suites franz-go` fetches the tests of that client with the package manager
of its language (Go's, or pip), starts as many nodes as they want, runs them, and says what passed,
what did not and is known (`named.py` says why), and what did not and is not known. `--only` takes a
pattern of names, `--work` a directory to keep sources and logs in. Rows of clients that were not
asked for stay in the result. The exit code is 1 if a test failed that is not known to, if one
passed that is, or if a node wrote a traceback.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness.machine import commit
from harness.node import NodeFailed
from harness.results import publish
from penstock.cli.exit_codes import end_with
from reliability import RESULTS
from reliability.suites.model import Call, Suite, SuiteFailed, Verdict, judge
from reliability.suites.named import SUITES
from reliability.suites.nodes import nodes_of, tracebacks

QUESTION = "suites"
GOAL = "the tests that clients bring pass, but for those whose reason is known; no traceback"
SECONDS = 450.0


def run(suite: Suite, work: Path, only: str, seconds: float) -> tuple[Verdict, dict[str, object]]:
    """Run one suite; returns the verdict and its row. Raises SuiteFailed and NodeFailed."""
    source = suite.fetch(work / suite.client)
    directory = work / suite.client / "nodes"
    shutil.rmtree(directory, ignore_errors=True)
    with nodes_of(suite, directory) as nodes:
        outcomes = suite.run(Call(source, nodes, only, seconds))
        verdict = judge(outcomes, suite.known)
        return verdict, row_of(suite, verdict, tracebacks(nodes.logs))


def row_of(suite: Suite, verdict: Verdict, found: int) -> dict[str, object]:
    """Return what is published of a run with as many tracebacks."""
    bad = [*verdict.known, *verdict.unexpected]
    return {
        "client": suite.client,
        "version": suite.version,
        "nodes": len(suite.node_ids),
        "passed": verdict.passed,
        "of": verdict.passed + len(bad),
        "left_out": len(verdict.left_out),
        "known": ", ".join(verdict.known),
        "unexpected": ", ".join([*verdict.unexpected, *verdict.healed]),
        "tracebacks": found,
        "commit": commit(),
    }


def with_others(rows: list[dict[str, object]], path: Path) -> list[dict[str, object]]:
    """Return the rows with those of other clients from an earlier result, by name of the client."""
    kept: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.exists() else []
    here = {row["client"] for row in rows}
    both = [*[row for row in kept if row["client"] not in here], *rows]
    return sorted(both, key=lambda row: str(row["client"]))


def main() -> int:
    """Run the suites that are named and publish what they said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clients", nargs="+", choices=[*SUITES])
    parser.add_argument("--only", default="", help="a pattern of names; nothing is published")
    parser.add_argument("--work", type=Path, help="keep sources and logs here")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of one run")
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp(prefix="penstock-suites-"))
    rows, is_well = [], True
    try:
        for name in given.clients:
            verdict, row = run(SUITES[name], work, given.only, given.seconds)
            rows.append(row)
            is_well &= verdict.is_well and not row["tracebacks"]
            for test in verdict.known:
                print(f"{name}: {test}: {SUITES[name].known[test]}")
    except (SuiteFailed, NodeFailed) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    finally:
        if given.work is None:
            shutil.rmtree(work, ignore_errors=True)
    if given.only:
        print(json.dumps(rows, indent=1))
    else:
        publish(RESULTS, QUESTION, with_others(rows, RESULTS / f"{QUESTION}.json"), goal=GOAL)
    return 0 if is_well else 1


if __name__ == "__main__":
    end_with(main)
