"""Tokens: what a file may say, and what each token may do."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from harness.http_front import HttpFailed, HttpProcess
from harness.waiting import wait_until
from penstock.base.errors import ConfigError
from penstock.http.call import Call
from penstock.http.front import Front
from penstock.http.tokens import read_tokens
from penstock.http.upstream.connection import Credentials

SECRET = "0123456789abcdef01234567"
FILE = f"""
[nodes]
access_key = "http"
secret = "of the process"

[[token]]
name = "shop"
token = "{SECRET}-shop"
produce = ["orders", "shop-*"]

[[token]]
name = "billing"
token = "{SECRET}-billing"
consume = ["orders"]
groups = ["billing"]
access_key = "billing"
secret = "its own"
"""


def test_a_token_is_found_by_its_text_and_may_do_what_is_listed() -> None:
    tokens = read_tokens("f", FILE)
    shop, billing = tokens.find(f"{SECRET}-shop"), tokens.find(f"{SECRET}-billing")
    assert shop is not None
    assert billing is not None
    for name in ("orders", "shop-", "shop-1"):
        assert name in shop.produce
    for name in ("orders2", "shop", "ashop-1", ""):
        assert name not in shop.produce
    assert "orders" not in shop.consume
    assert "billing" in billing.groups
    assert "orders" not in billing.produce
    assert (shop.credentials, billing.credentials) == (
        Credentials("http", "of the process"),
        Credentials("billing", "its own"),
    )
    assert tokens.find(SECRET) is None
    assert tokens.find("") is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "missing required field `token`"),
        ("token = []", "has no token"),
        ("token = 7", "Expected `array`"),
        ("[[token]", "Expected"),
        (FILE.replace("shop-*", "*shop"), "has a * at its end alone"),
        (FILE.replace("shop-*", ""), "a name is not empty"),
        (FILE.replace("-billing", "-shop"), "it has the token of shop"),
        (FILE.replace('"billing"\ntoken', '"shop"\ntoken'), "its name was there before"),
        (FILE.replace(f"{SECRET}-shop", "short"), "24 ASCII characters"),
        (FILE.replace(f"{SECRET}-shop", SECRET + " shop"), "without blanks"),
        (FILE.replace('groups = ["billing"]', ""), "consume and groups belong together"),
        (FILE.replace('secret = "its own"', ""), "access_key and secret belong together"),
        (FILE.replace('secret = "of the process"', ""), "missing required field `secret`"),
        (FILE.replace("produce =", "produces ="), "unknown field `produces`"),
        (FILE.replace('name = "shop"', 'name = ""'), "a name has 1 to 100"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_name_and_the_reason(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"--tokens f.*{re.escape(why)}"):
        read_tokens("f", text)


@pytest.mark.parametrize(
    ("bearer", "topic", "group", "may"),
    [
        ("reader", "allowed-1", "mine", True),
        ("reader", "other", "mine", False),
        ("reader", "allowed-1", "theirs", False),
        ("writer", "allowed-1", "mine", False),
        ("gone", "allowed-1", "mine", False),
    ],
)
def test_a_call_that_goes_on_may_do_what_its_token_may_now(
    bearer: str, topic: str, group: str, may: bool
) -> None:
    tokens = read_tokens("f", LIMITED)
    call = cast("Call", SimpleNamespace(bearer=f"{SECRET}-{bearer}"))
    assert Front(["127.0.0.1:1"], lambda: tokens).may_consume(call, topic, group) is may


def test_what_is_wrong_never_tells_a_token() -> None:
    for text in (FILE.replace("-billing", "-shop"), FILE.replace("shop-*", "*shop")):
        with pytest.raises(ConfigError) as told:
            read_tokens("f", text)
        assert SECRET not in str(told.value)


LIMITED = f"""
[[token]]
name = "writer"
token = "{SECRET}-writer"
produce = ["allowed-*"]

[[token]]
name = "reader"
token = "{SECRET}-reader"
consume = ["allowed-*"]
groups = ["mine"]
metrics = true
"""
READER, WRITER = f"{SECRET}-reader", f"{SECRET}-writer"
PRODUCE = {"messages": [{"value": "x"}]}


@pytest.fixture(scope="module")
def limited(
    served: tuple[object, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HttpProcess]:
    directory = tmp_path_factory.mktemp("limited")
    with HttpProcess(directory, [served[1]], tokens=LIMITED) as front:
        yield front


@pytest.mark.process
@pytest.mark.parametrize(
    ("method", "path", "token", "status"),
    [
        ("POST", "topics/allowed-1/messages", WRITER, 404),
        ("POST", "topics/other/messages", WRITER, 403),
        ("POST", "topics/allowed-1/messages", READER, 403),
        ("POST", "topics/allowed-1/messages", SECRET, 401),
        ("POST", "topics/allowed-1/messages", None, 401),
        ("POST", "topics/allowed-1/groups/mine/receive", READER, 404),
        ("POST", "topics/allowed-1/groups/mine/receive", WRITER, 403),
        ("POST", "topics/allowed-1/groups/other/receive", READER, 403),
        ("POST", "topics/other/groups/mine/receive", READER, 403),
        ("POST", "topics/other/groups/mine/ack", READER, 403),
        ("POST", "topics/allowed-1/groups/other/renew", READER, 403),
        ("POST", "topics/allowed-1/groups/mine/release", WRITER, 403),
        ("POST", "topics/other/groups/mine/reject", READER, 403),
        ("GET", "topics/allowed-1/groups/mine/stream", READER, 404),
        ("GET", "topics/allowed-1/groups/other/stream", READER, 403),
        ("GET", "topics/allowed-1/groups/mine/stream", WRITER, 403),
        ("GET", "topics/allowed-1/groups/mine/receive", READER, 405),
        ("POST", "topics/allowed-1/groups/mine/nothing", READER, 404),
        ("POST", "topics/allowed-1/groups/mine/nothing", None, 401),
        ("GET", "topics/allowed-1", None, 404),
    ],
)
def test_a_token_does_what_it_may_and_nothing_else(
    limited: HttpProcess, method: str, path: str, token: str | None, status: int
) -> None:
    body = PRODUCE if path.endswith("messages") else {}
    answer = limited.ask(method, f"/v1/{path}", body if method == "POST" else None, token=token)
    assert answer.status == status, answer
    assert set(answer.document) == {"type", "title", "status", "code", "detail", "do"}
    assert ("www-authenticate" in answer.headers) == (status == 401)


@pytest.mark.process
def test_strangers_hear_whether_it_is_well_and_read_no_metrics(limited: HttpProcess) -> None:
    assert limited.ask("GET", "/health", token=None).document == {"status": "ok"}
    assert limited.ask("GET", "/openapi.json", token=None).status == 200
    assert limited.ask("GET", "/docs", token=None).status == 200
    assert limited.ask("GET", "/metrics", token=None).status == 401
    assert limited.ask("GET", "/metrics", token=WRITER).status == 403
    assert limited.ask("GET", "/metrics", token=READER).status == 200


@pytest.mark.process
@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", f"Basic {READER}", READER, f"Bearer {READER}x", "Bearer \xff"],
)
def test_headers_that_show_no_token_are_no_token(limited: HttpProcess, header: str) -> None:
    answer = limited.ask("GET", "/metrics", token=None, headers={"Authorization": header})
    assert answer.status == 401


@pytest.mark.process
def test_a_changed_file_counts_and_a_broken_one_changes_nothing(
    served: tuple[object, str], tmp_path: Path
) -> None:
    with HttpProcess(tmp_path, [served[1]], tokens=LIMITED) as front:

        def replace(text: str) -> None:
            new = tmp_path / "new"
            new.touch(0o600)
            new.write_text(text)
            new.replace(front.tokens)

        def status(token: str) -> int:
            return front.ask("GET", "/metrics", token=token).status

        replace("broken")
        assert wait_until(lambda: "a changed file is not used" in front.log(), 60)
        assert status(READER) == 200
        replace(LIMITED.replace(READER, SECRET + "-another"))
        assert wait_until(lambda: status(READER) == 401, 60)
        assert status(SECRET + "-another") == 200


@pytest.mark.process
def test_a_file_that_everybody_may_read_is_refused_at_the_start(tmp_path: Path) -> None:
    front = HttpProcess(tmp_path, ["127.0.0.1:1"])
    front.tokens.chmod(0o644)
    with pytest.raises(HttpFailed, match=f"chmod 600 {front.tokens}"):
        front.start()
    assert front.wait() == 2
    front.kill()
