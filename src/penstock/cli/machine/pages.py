"""The pages of a machine: /metrics, /health and /ready for all its nodes, made from theirs.

    scrape of /metrics ─► every node's page concurrently, each with bounds
                       ─► parsed, each series gets the label node="<broker id>" ─► one page

A request while a page is being made gets that page, so scrapers can not queue up work. Parsing and
formatting run on a thread, so that signals and restarts do not wait for them. A node whose page is
missing or invalid has `penstock_node_up` 0 and no other series.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from penstock.cli.machine.supervised_node import SupervisedNode
from penstock.runtime.io.http_server import Page, json_page

OK = 200
UNAVAILABLE = 503
LABEL = "node"


class Scraped(NamedTuple):
    """The metrics page of one node."""

    broker_id: int
    starts: int
    text: str
    """The page; empty if there is none."""


class MachinePages:
    """The pages, by path in `pages`."""

    def __init__(self, nodes: Sequence[SupervisedNode], rolling: Callable[[], str]) -> None:
        """`rolling` returns how far a rolling restart is, or how the last one ended."""
        self._nodes = nodes
        self._rolling = rolling
        self._making: dict[str, asyncio.Task[Page]] = {}

    @property
    def pages(self) -> Mapping[str, Callable[[], Awaitable[Page]]]:
        """Return the pages by path, for the HTTP server."""
        return {
            "/metrics": lambda: self._shared("/metrics", self._metrics),
            "/health": lambda: self._shared("/health", self.health),
            "/ready": lambda: self._shared("/ready", self._ready),
        }

    def _shared(self, path: str, make: Callable[[], Coroutine[Any, Any, Page]]) -> Awaitable[Page]:
        """Return the page that is being made, or begin one; a cancelled request does not end it."""
        making = self._making.get(path)
        if making is None or making.done():
            making = self._making[path] = asyncio.create_task(make())
        return asyncio.shield(making)

    async def _metrics(self) -> Page:
        answers = await asyncio.gather(*(node.page("/metrics") for node in self._nodes))
        scraped = [
            Scraped(
                node.broker_id,
                node.starts,
                answer.body.decode("utf-8", "replace") if answer.status == OK else "",
            )
            for node, answer in zip(self._nodes, answers, strict=True)
        ]
        return Page(OK, CONTENT_TYPE_LATEST, await asyncio.to_thread(merged, scraped))

    async def health(self) -> Page:
        """Return 200 if all nodes are healthy, else 503; the body names those that are not."""
        return await self._about_all("/health", lambda node: node.may_be_silent)

    async def _ready(self) -> Page:
        return await self._about_all("/ready", lambda _: False)

    async def _about_all(self, path: str, is_excused: Callable[[SupervisedNode], bool]) -> Page:
        answers = await asyncio.gather(*(node.page(path) for node in self._nodes))
        found, wrong = {}, []
        for node, answer in zip(self._nodes, answers, strict=True):
            is_good = answer.status == OK or (not answer.status and is_excused(node))
            found[str(node.broker_id)] = {
                "ok": is_good,
                "runs": node.is_running,
                "failures": node.failures,
                "page": _document(answer.body),
            }
            wrong += [] if is_good else [node.broker_id]
        document = {"ok": not wrong, "wrong": wrong, "rolling": self._rolling(), "nodes": found}
        return json_page(document, UNAVAILABLE if wrong else OK)


def _document(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return None


def merged(scraped: Sequence[Scraped]) -> bytes:
    """Return one page of Prometheus text from those of several nodes."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Merged(scraped))
    return generate_latest(registry)


class _Merged(Collector):
    def __init__(self, scraped: Sequence[Scraped]) -> None:
        self._scraped = scraped

    def describe(self) -> Iterator[Metric]:
        """Return nothing: the registry serves one page only and need not check names."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield every family once, with the series of all nodes."""
        up = GaugeMetricFamily(
            "penstock_node_up", "1 where the node answers with its metrics.", labels=["node"]
        )
        starts = CounterMetricFamily(
            "penstock_node_starts",
            "Times that the supervisor of the machine started the node.",
            labels=["node"],
        )
        families: dict[str, Metric] = {}
        for broker_id, count, text in self._scraped:
            own = _families(text)
            up.add_metric([str(broker_id)], int(bool(own)))
            starts.add_metric([str(broker_id)], count)
            for family in own:
                _add(families, family, str(broker_id))
        yield from (up, starts, *families.values())


def _families(text: str) -> list[Metric]:
    """Return the metrics of a page; none if it can not be parsed."""
    try:
        return list(text_string_to_metric_families(text))
    except (ValueError, KeyError, IndexError):
        return []


def _add(families: dict[str, Metric], family: Metric, node: str) -> None:
    known = families.get(family.name)
    if known is None:
        known = Metric(family.name, family.documentation, family.type)
        families[family.name] = known
    for sample in family.samples:
        known.add_sample(sample.name, {**sample.labels, LABEL: node}, sample.value)
