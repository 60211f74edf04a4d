"""What each client takes of a broker: bytes in and out and time of the loop, by API.

    request ─► measure.received(size) ─► handler ─► measure.handled(time) ─► measure.answered(size)
                  │
                  ├─ nobody asks: the counters of the API alone (`ApiStats`)
                  └─ somebody does: the client's counters as well (`ApiUsage`)

Fronts note what they see to one `Measure` for each request, so the totals on the metrics page and
what a client is charged for are counted at the same places, once. Counters only rise: rates over
windows, and what is done about them, are for whoever reads them.

    produce quota    bytes in of Produce          KIP-13
    fetch quota      bytes out of Fetch           KIP-13
    request quota    time of the loop, all APIs   KIP-124

Time is that of handlers and of the slices of long requests; what a coroutine takes between them,
and reading from and writing to the socket, is not in it. Clients are known by principal, client id
and host; the one that was seen last longest ago makes room.

Source: Kafka `ClientQuotaManager`, `ClientRequestQuotaManager`; KIP-13, KIP-124.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from penstock.broker.access import Requester
from penstock.broker.api_stats import NOT_TIMED, ApiStats

CLIENTS_MAX = 10_000
"""With some APIs each, a few hundred bytes an API: 20 MB."""

CLIENT_ID_CHARACTERS_MAX = 255
"""Those whose client ids begin with the same characters count as one: a name may be 32 KiB long."""


class Client(Requester, Protocol):
    """Whose requests are counted together."""

    @property
    def client_id(self) -> str | None: ...


class ClientKey(NamedTuple):
    """By what a client is known."""

    principal: str
    client_id: str | None
    host: str


class ApiUsage:
    """What one client takes by one API; what is noted here is noted of the API, too (`Measure`)."""

    __slots__ = ("_total", "bytes_in", "bytes_out", "loop_us", "requests")
    times_all = True

    def __init__(self, total: ApiStats) -> None:
        self._total = total
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.loop_us = 0

    def received(self, size: int, count: int = 1) -> None:
        """So many requests came, of so many bytes together."""
        self._total.received(size, count)
        self.requests += count
        self.bytes_in += size

    def answered(self, size: int, waited_us: int = NOT_TIMED) -> None:
        """An answer, or those of a run, leaves; nothing was taken while it waited."""
        self._total.answered(size, waited_us)
        self.bytes_out += size

    def handled(self, microseconds: int) -> None:
        """A handler has returned."""
        self._total.handled(microseconds)
        self.loop_us += microseconds

    def took_turn(self, microseconds: int) -> None:
        """A part of a request held the loop."""
        self._total.took_turn(microseconds)
        self.loop_us += microseconds


class ClientUsages:
    """The clients that were seen last; put into `BrokerStats.clients` by whoever asks."""

    __slots__ = ("_by_client", "_clients_max")

    def __init__(self, clients_max: int = CLIENTS_MAX) -> None:
        self._clients_max = clients_max
        self._by_client: OrderedDict[ClientKey, dict[str, ApiUsage]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_client)

    def __iter__(self) -> Iterator[ClientKey]:
        return iter(self._by_client)

    def measure(self, client: Client, total: ApiStats) -> ApiUsage:
        """Return where a request of this client is noted."""
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
        """Return what a client took, by the names of APIs."""
        return self._by_client.get(key, {})
