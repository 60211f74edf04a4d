"""What each client uses of a broker: bytes in and out and time of the loop, by API.

    request ─► measure.received(size) ─► handler ─► measure.handled(time) ─► measure.answered(size)
                  │
                  ├─ not counted by client: the counters of the API alone (`ApiStats`)
                  └─ counted: the client's counters as well (`ApiUsage`)

Fronts report to one `Measure` for each request, so that the totals on the metrics page and the
usage of a client are counted in the same place, once. Counters only increase: rates over windows,
and reactions to them, are up to their readers.
windows, and what is done about them, are for whoever reads them.

    produce quota    bytes in of Produce          KIP-13
    fetch quota      bytes out of Fetch           KIP-13
    request quota    time of the loop, all APIs   KIP-124

Time is that of handlers and of the slices of long requests; time of coroutines between slices, and
of socket I/O, is not included. Clients are identified by principal, client id and host; when there
are too many, the least recently seen is dropped.

Source: Kafka `ClientQuotaManager`, `ClientRequestQuotaManager`; KIP-13, KIP-124.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from penstock.broker.access import Requester
from penstock.broker.api_stats import NOT_TIMED, ApiStats

CLIENTS_MAX = 10_000
"""With some APIs each, a few hundred bytes per API: 20 MB."""

CLIENT_ID_CHARACTERS_MAX = 255
"""Client ids are cut to so many characters, and may then coincide: an id may be 32 KiB long."""


class Client(Requester, Protocol):
    """A client whose requests are counted together."""

    @property
    def client_id(self) -> str | None: ...


class ClientKey(NamedTuple):
    """Identifies a client."""

    principal: str
    client_id: str | None
    host: str


class ApiUsage:
    """Usage of one API by one client; what is counted here is also counted for the API."""

    __slots__ = ("_total", "bytes_in", "bytes_out", "loop_us", "requests")
    times_all = True

    def __init__(self, total: ApiStats) -> None:
        self._total = total
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.loop_us = 0

    def received(self, size: int, count: int = 1) -> None:
        """Count `count` requests of `size` bytes together."""
        self._total.received(size, count)
        self.requests += count
        self.bytes_in += size

    def answered(self, size: int, waited_us: int = NOT_TIMED) -> None:
        """Count a sent answer, or those of a run; its wait used no resources."""
        self._total.answered(size, waited_us)
        self.bytes_out += size

    def handled(self, microseconds: int) -> None:
        """Count a handler that has returned."""
        self._total.handled(microseconds)
        self.loop_us += microseconds

    def took_turn(self, microseconds: int) -> None:
        """Count one slice of a request on the loop."""
        self._total.took_turn(microseconds)
        self.loop_us += microseconds

    def throttled(self, delay_ms: int) -> None:
        """Pass on the delay that the client was told."""
        self._total.throttled(delay_ms)


class ClientUsages:
    """The most recently seen clients; set as `BrokerStats.clients` if they are to be counted."""

    __slots__ = ("_by_client", "_clients_max")

    def __init__(self, clients_max: int = CLIENTS_MAX) -> None:
        self._clients_max = clients_max
        self._by_client: OrderedDict[ClientKey, dict[str, ApiUsage]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_client)

    def __iter__(self) -> Iterator[ClientKey]:
        return iter(self._by_client)

    def measure(self, client: Client, total: ApiStats) -> ApiUsage:
        """Return the counters for requests of this client."""
        name = client.client_id
        if name is not None and len(name) > CLIENT_ID_CHARACTERS_MAX:
            name = name[:CLIENT_ID_CHARACTERS_MAX]
        key = ClientKey(client.principal, name, client.host)
        by_api = self._by_client.get(key)
        if by_api is None:
            by_api = self._by_client[key] = {}
            if len(self._by_client) > self._clients_max:
                self._by_client.popitem(last=False)
        else:
            self._by_client.move_to_end(key)
        usage = by_api.get(total.name)
        if usage is None:
            usage = by_api[total.name] = ApiUsage(total)
        return usage

    def of(self, key: ClientKey) -> dict[str, ApiUsage]:
        """Return the usage of a client, by API name."""
        return self._by_client.get(key, {})
