"""From a frame to its handler: what a bug, an expected error and a broken invariant do.

The table of APIs is the test's own; connections, node and dispatcher are real.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.advertised import WITH_CLIENT_METRICS
from penstock.base.errors import PlatformError
from penstock.kafka.dispatch import Dispatcher
from penstock.kafka.front import KafkaFront
from penstock.kafka.registry import Api, load_apis
from penstock.net.limits import NetLimits
from penstock.net.listener import Endpoint, Listener
from penstock.protocol.api_keys import ApiKey
from tests.live_node import LiveNode, RawClient, running_node

KEY = ApiKey.API_VERSIONS
VERSION = 2


class Refused(PlatformError):
    """An error that a handler lets out."""


def failing(error: Exception) -> Callable[..., None]:
    def handle(*_: object) -> None:
        raise error

    return handle


def failing_later(error: Exception) -> Callable[..., Any]:
    async def handle(*_: object) -> Mapping[str, object]:
        raise error

    return handle


def api(handle: Callable[..., Any], *, is_async: bool = False, is_raw: bool = False) -> Api:
    return Api(KEY, "test_api", 0, 4, 0, handle, is_async, is_raw)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    with running_node(tmp_path) as node:
        yield node


class Served:
    """A second port of the node, with one API of the test's own."""

    def __init__(self, node: LiveNode, only: Api) -> None:
        self.node = node
        self._listener: Listener
        self.port = node.call(lambda: self._start(only))

    def _start(self, only: Api) -> int:
        tasks = self.node.node._supervisor
        front = KafkaFront(self.node.broker, {KEY: only}, lambda: 7, tasks.run_once, tasks.begin)
        dispatcher = Dispatcher(front)
        self._listener = Listener([Endpoint("127.0.0.1", 0)], NetLimits(), dispatcher.on_frame)
        self._listener.start()
        return self._listener.port

    def errors(self) -> dict[str, int]:
        return self.node.call(lambda: dict(self.node.broker.stats.request_errors))

    def stop(self) -> None:
        stopping = self._listener.stop(grace_seconds=0.2)
        asyncio.run_coroutine_threadsafe(stopping, self.node.loop).result(120)


@pytest.mark.parametrize(
    "broken",
    [
        api(failing(KeyError("a bug"))),
        api(failing(KeyError("a bug")), is_raw=True),
        api(failing_later(KeyError("a bug")), is_async=True),
    ],
    ids=["handler", "raw handler", "async handler"],
)
def test_a_bug_in_a_handler_ends_its_connection_is_counted_and_logged_and_others_go_on(
    node: LiveNode, broken: Api, caplog: pytest.LogCaptureFixture
) -> None:
    other = node.connect()
    served = Served(node, broken)
    with caplog.at_level(logging.ERROR):
        client = RawClient(served.port)
        client.send(KEY, VERSION, {})
        assert client.is_closed_by_node()
    assert served.errors() == {"unhandled": 1}
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [KeyError]
    assert other.ask(KEY, VERSION, {}).error_code == 0
    served.stop()
    client.close()
    other.close()


@pytest.mark.parametrize(
    "refusing",
    [api(failing(Refused("no"))), api(failing_later(Refused("no")), is_async=True)],
    ids=["handler", "async handler"],
)
def test_an_expected_error_out_of_a_handler_ends_its_connection_without_a_traceback(
    node: LiveNode, refusing: Api, caplog: pytest.LogCaptureFixture
) -> None:
    served = Served(node, refusing)
    client = RawClient(served.port)
    client.send(KEY, VERSION, {})
    assert client.is_closed_by_node()
    assert served.errors() == {"Refused": 1}
    assert not [record for record in caplog.records if record.exc_info]
    served.stop()
    client.close()


def test_a_bug_behind_answered_requests_does_not_take_their_answers_away(node: LiveNode) -> None:
    calls = iter(range(10))

    def third_time(_: object, __: object, reply: Any) -> None:
        if next(calls) == 2:
            raise KeyError("a bug")
        reply({"error_code": 0, "api_keys": []})

    served = Served(node, api(third_time))
    client = RawClient(served.port)
    for _ in range(3):
        client.send(KEY, VERSION, {})
    assert client.receive(KEY, VERSION).error_code == 0
    assert client.receive(KEY, VERSION).error_code == 0
    assert client.is_closed_by_node()
    served.stop()
    client.close()


def test_an_api_that_is_not_in_the_table_ends_the_connection(node: LiveNode) -> None:
    client = node.connect()
    client.send_body(ApiKey.WRITE_TXN_MARKERS, 1, b"")
    assert client.is_closed_by_node()
    client.close()


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_api_versions_of_an_unknown_version_is_answered_in_version_0(
    node: LiveNode, version: int
) -> None:
    client = node.connect()
    client.send_body(KEY, version, b"")
    frame = client.receive_frame()
    assert int.from_bytes(frame[4:6], "big") == 35
    assert int.from_bytes(frame[6:10], "big") == len(load_apis()) - len(WITH_CLIENT_METRICS)
    client.close()


def test_a_frame_too_short_for_a_header_ends_the_connection(node: LiveNode) -> None:
    client = node.connect()
    client.send_bytes(b"\0\0\0\x0a" + bytes([0, 18, 0, 2, 0, 0, 0, 1, 0x7F, 0xFF]))
    assert client.is_closed_by_node()
    assert node.call(lambda: sum(node.broker.stats.request_errors.values())) == 1
    client.close()
