"""Asks a group of questions in rounds: one server at a time, another one first each round.

A server that can not be started, or can not do what is asked, is left out from then on with its
reason; the others go on.
"""

import os
import subprocess
import traceback
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaException

from benchmarks.parts.native import LoadFailed
from benchmarks.peers.model import CanNotRun, Group, Question, Scale, Spec
from benchmarks.peers.ratios import Samples, rotated
from benchmarks.peers.servers import Server, open_server
from harness.node import NodeFailed
from harness.warm_memory import warm_memory

REASON_CHARACTERS_MAX = 500
WARM_MEMORY_BYTES = 4 << 30
"""More than a question writes. Free memory that the host has taken back costs whoever gets it."""
Say = Callable[[str], None]
FAILURES = (
    CanNotRun,
    KafkaException,
    LoadFailed,
    NodeFailed,
    OSError,
    subprocess.SubprocessError,
)
"""What a server or a client that does not do its work looks like from here."""


def ask_group(
    group: Group, questions: Sequence[Question], scale: Scale, *, rounds: int, say: Say
) -> dict[str, Samples]:
    """Ask these questions of all their servers; returns what each question showed."""
    samples = {question.name: Samples() for question in questions}
    for question in questions:
        for spec in question.specs:
            if spec.product in question.unfit:
                samples[question.name].reasons[spec] = question.unfit[spec.product]
    specs = list(dict.fromkeys(spec for question in questions for spec in question.specs))
    for turn in range(rounds):
        for spec in rotated(specs, turn):
            wanted = [
                question
                for question in questions
                if spec in question.specs and spec not in samples[question.name].reasons
            ]
            if wanted:
                load = os.getloadavg()[0]
                say(f"{group.name}, round {turn + 1} of {rounds}: {spec.label} (load {load:.1f})")
                for question in wanted:
                    found = samples[question.name]
                    found.load = max(found.load, load)
                _turn(group, wanted, spec, scale, turn=turn, samples=samples)
    return samples


def _turn(
    group: Group,
    questions: Sequence[Question],
    spec: Spec,
    scale: Scale,
    *,
    turn: int,
    samples: dict[str, Samples],
) -> None:
    try:
        with open_server(spec) as server:
            load = scale.of(group.share)
            if group.is_warm:
                server.warm_up(load)
            for question in questions:
                _ask(question, server, load, turn=turn, samples=samples[question.name])
    except FAILURES as error:
        for question in questions:
            samples[question.name].reasons.setdefault(spec, reason_of(error))


def _ask(question: Question, server: Server, scale: Scale, *, turn: int, samples: Samples) -> None:
    try:
        if not scale.is_smoke:
            warm_memory(WARM_MEMORY_BYTES)
        samples.add(server.spec, turn, question.ask(server, scale))
    except FAILURES as error:
        samples.reasons[server.spec] = reason_of(error)


def reason_of(error: BaseException) -> str:
    """Return an error as one line of a row."""
    text = " ".join(str(error).split()) or type(error).__name__
    if not isinstance(error, CanNotRun):
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__} in {last.name}: {text}"
    return text[:REASON_CHARACTERS_MAX]
