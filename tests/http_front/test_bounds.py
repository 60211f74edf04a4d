"""Bounds: clients that send too much, too slowly, too many at a time, or read nothing."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from harness.http_front import TOKEN, TOKENS, HttpProcess, value_of
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.http.limits import Held

pytestmark = pytest.mark.process
CONNECTIONS, WAITS, LOOKS = 20, 4, 5
NODE_REQUESTS = "penstock_http_node_requests"
OTHER = "a-token-of-somebody-else-0123456789"
TWO = TOKENS + TOKENS.replace(TOKEN, OTHER).replace('name = "tests"', 'name = "other"')
CHUNK = b"10000\r\n" + bytes(65536) + b"\r\n"


@pytest.fixture
def narrow(
    served: tuple[object, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HttpProcess]:
    options = ["--connections", str(CONNECTIONS), "--waits", str(WAITS)]
    directory = tmp_path_factory.mktemp("narrow")
    with HttpProcess(directory, [served[1]], tokens=TWO, options=options) as front:
        yield front
        assert "Traceback" not in front.log(), front.log()


def all_that_comes(raw: socket.socket) -> bytes:
    data = b""
    while part := raw.recv(65536):
        data += part
    return data


def test_a_connection_too_many_is_told_so_and_a_place_that_is_free_is_taken(
    narrow: HttpProcess,
) -> None:
    with closing(narrow.connection()) as asking:
        # Who has asked before may not have gone yet; from here on there is the asking one alone.
        assert wait_until(lambda: _connections(asking) == 1, UNTIL_SECONDS)
        others = [narrow.connection() for _ in range(CONNECTIONS - 1)]
        for number, known in enumerate(others):
            _connections(known, TOKEN if number % 2 else OTHER)
        with narrow.raw() as raw:
            refused = all_that_comes(raw)
    assert refused.startswith(b"HTTP/1.1 503 ")
    document = json.loads(refused.partition(b"\r\n\r\n")[2])
    assert document["code"] == "too-many-connections"
    assert wait_until(lambda: _status(narrow) == 200, UNTIL_SECONDS)
    for known in others:
        known.close()
    assert wait_until(lambda: narrow.metric("penstock_http_connections") == 1, UNTIL_SECONDS)
    assert narrow.metric("penstock_http_connections_refused_total") >= 1


def test_who_has_shown_no_token_gives_way_the_longest_there_first(narrow: HttpProcess) -> None:
    with closing(narrow.connection()) as known:
        assert wait_until(lambda: _connections(known) == 1, UNTIL_SECONDS)
        strangers = [narrow.raw() for _ in range(CONNECTIONS - 1)]
        assert wait_until(lambda: _connections(known) == CONNECTIONS, UNTIL_SECONDS)
        with closing(narrow.connection()) as another:
            assert _connections(another) == CONNECTIONS
            assert strangers[0].recv(1) == b""
            strangers[0].close()
            assert _connections(known) == CONNECTIONS, "who is known stays"
        for one in strangers:
            one.close()
    assert narrow.metric("penstock_http_connections_refused_total") >= 1


def test_a_token_that_has_more_than_its_part_of_places_gives_way(narrow: HttpProcess) -> None:
    with closing(narrow.connection()) as other:
        assert wait_until(lambda: _connections(other, OTHER) == 1, UNTIL_SECONDS)
        crowd = [narrow.connection() for _ in range(CONNECTIONS - 1)]
        for number, one in enumerate(crowd):
            assert _connections(one) == number + 2
        with closing(narrow.connection()) as another:
            assert _connections(another, OTHER) == CONNECTIONS
            assert crowd[0].sock.recv(1) == b"", "the longest there"
            assert _connections(other, OTHER) == CONNECTIONS
            assert _connections(crowd[1]) == CONNECTIONS
        for one in crowd:
            one.close()


def test_a_token_leaves_memory_for_bodies_of_others() -> None:
    held = Held(bytes_max=100)
    assert held.take(75, "one")
    assert not held.take(1, "one")
    assert held.take(25, "two")
    assert not held.take(1, "two")
    held.give_back(75, "one")
    assert held.take(50, "two")
    held.give_back(75, "two")
    assert held.bytes_now == 0
    assert held.take(75, "one")


def _connections(asking: http.client.HTTPConnection, token: str = TOKEN) -> float:
    """Return how many connections there are, as one of them that stays open is told."""
    asking.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
    return value_of(asking.getresponse().read(), "penstock_http_connections")


def _status(front: HttpProcess) -> int:
    with front.raw() as raw:
        raw.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return int(all_that_comes(raw)[9:12])


def test_a_token_waits_so_often_at_a_time_and_no_more(narrow: HttpProcess, topic: str) -> None:
    statuses: list[int] = []

    def wait() -> None:
        statuses.append(narrow.receive(topic, wait_seconds=30).status)

    waiting = [threading.Thread(target=wait) for _ in range(WAITS)]
    for one in waiting:
        one.start()
    assert wait_until(lambda: narrow.metric("penstock_http_waiting") == WAITS, UNTIL_SECONDS)
    answer = narrow.receive(topic, wait_seconds=30)
    assert (answer.status, answer.document["code"]) == (429, "too-many-waits")
    assert answer.headers["retry-after"] == "1"
    stream = narrow.ask("GET", f"/v1/topics/{topic}/groups/g/stream")
    assert stream.status == 429
    # One question to the node is enough for all of them, once each has looked for itself.
    seen: list[float] = []

    def is_one_question() -> bool:
        """For a while: several questions end one after another."""
        seen.append(narrow.metric(NODE_REQUESTS))
        return seen[-LOOKS:] == [1] * LOOKS

    assert wait_until(is_one_question, UNTIL_SECONDS), seen[-100:]
    for _ in range(3 * WAITS):
        narrow.produce(topic, "x")
    for one in waiting:
        one.join(UNTIL_SECONDS)
    assert statuses == [200] * WAITS


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(
    front: HttpProcess, topic: str
) -> None:
    head = _head(topic, f"Content-Length: {5 << 20}\r\nExpect: 100-continue\r\n")
    with front.raw() as raw:
        raw.sendall(head)
        answer = all_that_comes(raw)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "too-large"


def test_a_body_that_grows_too_large_is_cut(front: HttpProcess, topic: str) -> None:
    with front.raw() as raw:
        raw.sendall(_head(topic, "Transfer-Encoding: chunked\r\n"))
        with pytest.raises(ConnectionError):
            raw.sendall(CHUNK * 2000)
    assert wait_until(lambda: front.metric("penstock_http_held_bytes") == 0, UNTIL_SECONDS)


def test_an_upload_without_a_token_is_not_read_on(front: HttpProcess, topic: str) -> None:
    with front.raw() as raw:
        head = _head(topic, "Transfer-Encoding: chunked\r\n").replace(TOKEN.encode(), b"wrong")
        raw.sendall(head)
        assert raw.recv(12) == b"HTTP/1.1 401"
        with pytest.raises(ConnectionError):
            raw.sendall(CHUNK * 2000)


def test_headers_that_are_too_large_are_refused(front: HttpProcess) -> None:
    with front.raw() as raw:
        raw.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 70_000)
        answer = all_that_comes(raw)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "bad-http"


def test_a_body_that_is_cut_off_holds_nothing(front: HttpProcess, topic: str) -> None:
    with front.raw() as raw:
        raw.sendall(_head(topic, "Content-Length: 100000\r\n") + b"x" * 50_000)
    assert wait_until(lambda: front.metric("penstock_http_held_bytes") == 0, UNTIL_SECONDS)


def _head(topic: str, more: str) -> bytes:
    return (
        f"POST /v1/topics/{topic}/messages HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {TOKEN}\r\n{more}\r\n"
    ).encode()
