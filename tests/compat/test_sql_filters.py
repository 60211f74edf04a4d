"""Expressions of SQL-92 against RocketMQ's own filter: equal verdicts, and equal refusals."""

import json
import subprocess
from pathlib import Path

import pytest

from penstock.remoting.errors import MalformedBody
from penstock.remoting.filters.parser import parse
from penstock.remoting.filters.values import NoVerdict
from tests.compat.java_tools import jars_or_skip
from tests.remoting.filters.generated import Generator
from tests.remoting.filters.kept import KEPT, MESSAGES

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

SOURCE = Path(__file__).with_name("SqlFilter.java")
SECONDS = 240
COUNT = 20_000
MESSAGES_EACH = 8
SEEDS = (1, 2)
Asked = tuple[str, list[dict[str, str]]]


def rocketmq(asked: list[Asked]) -> list[str]:
    """Return what RocketMQ's filter says to each expression."""
    class_path = ":".join(map(str, jars_or_skip("rocketmq")))
    command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    lines = "".join(json.dumps({"sql": sql, "messages": each}) + "\n" for sql, each in asked)
    done = subprocess.run(
        [*command, "-Dfile.encoding=UTF-8", "-cp", class_path, str(SOURCE)],
        input=lines,
        capture_output=True,
        timeout=SECONDS,
        check=True,
        encoding="utf-8",
    )
    told = [line[1:] for line in done.stdout.splitlines() if line.startswith("@")]
    assert len(told) == len(asked), done.stderr[-2000:]
    return told


def ours(sql: str, messages: list[dict[str, str]]) -> str:
    """Return the same by our filter."""
    try:
        evaluate = parse(sql).part.evaluate
    except MalformedBody:
        return "R"
    verdicts = []
    for message in messages:
        try:
            verdicts.append({True: "T", False: "F", None: "N"}[evaluate(message)])  # type: ignore[index]
        except NoVerdict:
            verdicts.append("E")
    return "".join(verdicts)


@pytest.mark.parametrize("seed", SEEDS)
def test_generated_expressions_have_the_verdicts_of_rocketmq(seed: int) -> None:
    generator = Generator(seed)
    asked = [
        (generator.expression(), [generator.message() for _ in range(MESSAGES_EACH)])
        for _ in range(COUNT)
    ]
    told = rocketmq(asked)
    different = [
        (sql, each, theirs, own)
        for (sql, each), theirs in zip(asked, told, strict=True)
        if (own := ours(sql, each)) != theirs
    ]
    assert not different, different[:5]
    seen = "".join(told)
    assert min(seen.count(letter) for letter in "TFNER") > COUNT // 20, "each occurs often"


def test_kept_cases_are_those_of_rocketmq() -> None:
    asked = [(sql, list(MESSAGES)) for sql, _ in KEPT]
    assert rocketmq(asked) == [verdicts for _, verdicts in KEPT]
