"""The page about all nodes of a machine: what it makes of theirs, in pieces and as a whole."""

import asyncio
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import generate_latest

from harness.ports import free_port
from penstock.cli.machine import pages as machine_pages
from penstock.cli.machine.http_get import NO_ANSWER, Answer, get
from penstock.cli.machine.pages import MachinePages, Scraped, merged
from penstock.runtime.io.http_server import TEXT, HttpServer, Page

ODD = 'a "quoted" \\ name\nof two lines'


def page_of_all_kinds() -> str:
    registry = CollectorRegistry()
    Counter("requests", 'Of "all" kinds \\.', ["api"], registry=registry).labels(ODD).inc(3)
    Gauge("connections", "Open.", registry=registry).set(2.5)
    Histogram("seconds", "Time.", registry=registry, buckets=(0.5, 1)).observe(0.7)
    Info("build", "Which.", registry=registry).info({"version": "1"})
    return generate_latest(registry).decode()


def series(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)


def test_every_series_of_a_node_is_there_once_with_its_node() -> None:
    own = page_of_all_kinds()
    page = merged([Scraped(1, 1, own), Scraped(2, 4, own)]).decode()
    found = series(page)
    for name, value in series(own).items():
        bare, brace, labels = name.partition("{")
        for node in ("1", "2"):
            every = sorted([*filter(None, [labels.removesuffix("}")]), f'node="{node}"'])
            assert found.pop(bare + "{" + ",".join(every) + "}") == value, brace
    assert found == {
        'penstock_node_up{node="1"}': "1.0",
        'penstock_node_up{node="2"}': "1.0",
        'penstock_node_starts_total{node="1"}': "1.0",
        'penstock_node_starts_total{node="2"}': "4.0",
    }


def test_a_family_is_described_once_as_the_nodes_describe_it() -> None:
    own = page_of_all_kinds()
    page = merged([Scraped(1, 1, own), Scraped(2, 1, own)]).decode()
    told = [line for line in page.splitlines() if line.startswith("#")]
    assert len(set(told)) == len(told)
    assert {line for line in own.splitlines() if line.startswith("#")} <= set(told)


@pytest.mark.parametrize("text", ["", "no metrics at all{", '# TYPE a counter\na{x="1 2\n'])
def test_a_node_without_a_page_is_down_and_takes_nobody_with_it(text: str) -> None:
    found = series(merged([Scraped(1, 1, text), Scraped(2, 1, "some 1\n")]).decode())
    assert found['penstock_node_up{node="1"}'] == "0.0"
    assert found['some{node="2"}'] == "1.0"


class FakeNode:
    """What the pages ask of a node."""

    def __init__(self, broker_id: int, status: int, *, is_new: bool = False) -> None:
        self.broker_id = broker_id
        self.starts = 1
        self.failures = 0
        self.is_running = True
        self.may_be_silent = is_new
        self.asked = 0
        self._status = status

    async def page(self, _: str) -> Answer:
        self.asked += 1
        await asyncio.sleep(0)
        return Answer(self._status, b'{"phase": "ready"}') if self._status else NO_ANSWER


def health_of(*nodes: FakeNode) -> tuple[int, str]:
    page = asyncio.run(MachinePages(nodes, lambda: "none yet").health())  # type: ignore[arg-type]
    return page.status, page.body.decode()


def test_all_are_healthy_or_the_page_says_who_is_not() -> None:
    assert health_of(FakeNode(1, 200), FakeNode(2, 200))[0] == 200
    for status in (503, 0):
        code, body = health_of(FakeNode(1, 200), FakeNode(2, status))
        assert code == 503
        assert '"wrong": [2]' in body


def test_a_node_that_has_only_just_started_may_be_silent_but_not_ill() -> None:
    assert health_of(FakeNode(1, 0, is_new=True))[0] == 200
    assert health_of(FakeNode(1, 503, is_new=True))[0] == 503


def test_whoever_asks_while_a_page_is_made_gets_that_one() -> None:
    node = FakeNode(1, 200)

    async def ask() -> None:
        page = MachinePages([node], lambda: "").pages["/metrics"]  # type: ignore[list-item]
        await asyncio.gather(*(page() for _ in range(20)))
        assert node.asked == 1
        await page()
        assert node.asked == 2

    asyncio.run(ask())


def served(pages: dict[str, Callable[[], Page]], path: str, **bounds: float) -> Answer:
    async def ask() -> Answer:
        server, port = HttpServer(pages), free_port()
        await server.start("127.0.0.1", port)
        try:
            return await get(("127.0.0.1", port), path, **{"seconds": 5, "bytes_max": 10, **bounds})  # type: ignore[arg-type]
        finally:
            server.stop()
            await asyncio.sleep(0.05)  # both ends of the connection close in the loop

    return asyncio.run(ask())


def test_a_page_is_fetched_within_its_bounds() -> None:
    pages = {
        "/small": lambda: Page(200, TEXT, b"x" * 10),
        "/large": lambda: Page(200, TEXT, b"x" * 11),
        "/ill": lambda: Page(503, TEXT, b"no"),
    }
    assert served(pages, "/small") == (200, b"x" * 10)
    assert served(pages, "/large") == NO_ANSWER
    assert served(pages, "/ill") == (503, b"no")


def test_who_does_not_answer_is_not_waited_for() -> None:
    async def ask() -> None:
        port = free_port()
        assert await get(("127.0.0.1", port), "/", seconds=5, bytes_max=10) == NO_ANSWER
        for answer in (b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"):

            async def serve(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: bytes = answer
            ) -> None:
                writer.write(answer)
                if not answer:
                    await reader.read()
                writer.close()

            async with await asyncio.start_server(serve, "127.0.0.1", port):
                got = await get(("127.0.0.1", port), "/", seconds=0.2, bytes_max=10)
                assert got == NO_ANSWER
            await asyncio.sleep(0.05)  # both ends of the connection close in the loop

    asyncio.run(ask())


def test_the_pages_bounds_are_below_those_of_a_request() -> None:
    from penstock.cli.machine.supervised_node import Patience
    from penstock.runtime.io.http_server import REQUEST_TIMEOUT_S

    assert Patience().page_s < REQUEST_TIMEOUT_S / 2
    assert machine_pages.LABEL == "node"
