"""docs/operations/http.md: its commands, run word by word, and its file of tokens."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.http_front import HttpProcess
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.http import limits
from penstock.http.tokens import read_tokens
from tests.live_node import LiveNode

PAGE = (Path(__file__).parents[2] / "docs" / "operations" / "http.md").read_text()
TOKENS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
COMMANDS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
WRITTEN_FOR = "localhost:8080"
SHORT_LOOK, LONG_LOOK = "--max-time 3", "--max-time 15"
SECONDS = 300


def test_the_file_of_tokens_is_read() -> None:
    token = read_tokens("f", TOKENS).find("keep-this-0123456789abcdef")
    assert token is not None
    assert "orders" in token.produce
    assert "billing" in token.groups


@pytest.mark.process
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing: apt-get install curl")
def test_the_commands_of_the_page_do_what_it_says(
    served: tuple[LiveNode, str], tmp_path: Path
) -> None:
    node, address = served
    node.submit(CreateTopics(topics=(NewTopic(name="orders", partition_count=1),)))
    # Where it listens is what a test can not have as it is written, and how long it looks at the
    # stream: somebody who tries it out does so on a machine that has nothing else to do.
    with HttpProcess(tmp_path / "http", [address], tokens=TOKENS) as front:
        script = "\n".join(["set -eu", *COMMANDS]).replace(WRITTEN_FOR, front.address)
        assert SHORT_LOOK in script
        script = script.replace(SHORT_LOOK, LONG_LOOK)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=os.environ,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said = done.stdout
        produced = json.loads(said.partition("]}")[0] + "]}")["messages"]
        assert [sorted(one) for one in produced] == [
            ["id", "offset", "queue"],
            ["id", "offset", "queue"],
            ["delayed", "id"],
        ]
        received = json.loads((tmp_path / "received.json").read_text())["messages"]
        assert [one["value"] for one in received] == ["two chairs"]
        shown = json.loads(re.findall(r"```json\n(\{\"messages.*?)```", PAGE, re.DOTALL)[0])
        assert received[0].keys() == shown["messages"][0].keys()
        assert '"renewed"' in (tmp_path / "renewed.json").read_text()
        assert 'event: message\ndata: {"receipt"' in said
        assert '"value":"a lamp"' in said
        assert json.loads((tmp_path / "openapi.json").read_text())["openapi"] == "3.1.1"
        assert 'penstock_http_messages_total{outcome="acknowledged"} 1.0' in said


def test_every_code_that_is_refused_with_is_on_the_page() -> None:
    source = Path(limits.__file__).parent
    text = "".join(path.read_text() for path in source.rglob("*.py"))
    calls = r'(?:Problem|_Told|bad_request|busy|unavailable)\(\s*(?:[A-Za-z_.]+,\s*)?"([a-z-]+)"'
    codes = set(re.findall(calls, text)) - {"bug", "cut-off"}  # the second one reaches nobody
    assert {"bad-body", "receipt-over", "too-many-waits", "slow-body", "no-token"} <= codes
    table = set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", PAGE))
    assert codes <= table, codes - table


def test_bounds_on_the_page_are_those_of_the_code() -> None:
    usual = limits.Limits()
    for text in (
        f"heads ({limits.HEAD_BYTES_MAX >> 10} KiB, {usual.head_s:g} s)",
        f"bodies ({limits.BODY_BYTES_MAX >> 20} MiB, {usual.body_s:g} s)",
        f"all bodies together ({limits.HELD_BYTES_MAX >> 20} MiB",
        f"idle connections ({usual.idle_s} s)",
        f"read nothing ({usual.write_s:g} s",
        f"At most {limits.MESSAGES_MAX:,} messages",
        f"Up to {limits.RECEIPTS_MAX} receipts",
        f"`max` is 1 to {limits.POP_MAX}, `wait_seconds` 0 to {limits.WAIT_S_MAX}",
        f"`in_flight` (1 to {limits.IN_FLIGHT_MAX})",
        f"after {usual.stop_s} s the rest is cut",
        f"sent again for {limits.RETRY_S:g} s",
        f"comes every {usual.keep_alive_s:g} s",
    ):
        assert text in PAGE, text
