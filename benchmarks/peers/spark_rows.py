"""The rows of Spark: what is asked, of whom and what is to be reached; `spark` runs the cases."""

import importlib.util
from collections.abc import Sequence

from benchmarks.parts import java_servers, native
from benchmarks.peers.model import Answer, Figure, Group, Question, Scale, Spec
from benchmarks.peers.ratios import Samples
from benchmarks.peers.rounds import Say
from benchmarks.peers.servers import Server
from benchmarks.peers.spark_readers import CONNECTOR, NODE, PARQUET, TIER
from harness.maven import jars


def _unasked(server: Server, scale: Scale) -> Answer:
    raise AssertionError("Spark's cases are run by the group")


def _question(name: str, target: float, peers: tuple[Spec, ...], core: float | None) -> Question:
    """The target is against the first peer; `core` is ours, in MB/s per core."""
    targets = {peers[0].product: target}
    return Question(
        name=name,
        ask=_unasked,
        figures=(
            Figure(key="MB/s", unit="MB/s", is_more_better=True, targets=targets),
            Figure(key="core", unit="MB/s per core", is_more_better=True, limit=core),
            Figure(key="row", unit="CPU us/row", is_more_better=False),
        ),
        ours=TIER if "tier" in name else NODE,
        peers=peers,
    )


QUESTIONS = (
    _question("spark-read-broker", 1.0, (CONNECTOR, PARQUET), 150.0),
    _question("spark-read-tier", 1.0, (PARQUET,), 400.0),
    _question("spark-land-parquet", 0.9, (PARQUET, CONNECTOR), None),
    _question("spark-land-delta", 0.9, (PARQUET,), None),
    _question("spark-land-iceberg", 0.9, (PARQUET,), None),
)


def why_not() -> str | None:
    """Return why Spark's cases can not be run here, or None when they can."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed"
    found = jars("spark-kafka")
    if isinstance(found, str):
        return found
    return java_servers.why_not() or native.why_not()


def why_no_tier() -> str | None:
    """Return why a topic can not be put into a store here, or None when it can."""
    return None if importlib.util.find_spec("obstore") else "obstore is not installed"


def ask_spark(
    group: Group, questions: Sequence[Question], scale: Scale, *, rounds: int, say: Say
) -> dict[str, Samples]:
    """Run the cases of these questions; those that can not be run say why."""
    del group
    samples = {question.name: Samples() for question in questions}
    for question in questions:
        for spec in question.specs:
            reason = (why_no_tier() if spec is TIER else None) or why_not()
            if reason is not None:
                samples[question.name].reasons[spec] = reason
    possible = [question for question in questions if not samples[question.name].reasons]
    if possible:
        from benchmarks.peers.spark import ask_cases  # noqa: PLC0415  PySpark may be missing

        samples |= ask_cases(possible, scale, rounds=rounds, say=say)
    return samples


GROUP = Group(name="spark", questions=QUESTIONS, is_warm=False, ask=ask_spark)
