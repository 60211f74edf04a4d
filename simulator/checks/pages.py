"""Reads the page of metrics of every process now and then, as Prometheus does, whatever it goes
through just then.

A page is made at any time between the start and the end of a process, has no value twice, and what
a broker counts of requests and of its loop does not fall while the process lives. What a log, a
group or an active controller counts begins anew with it. The port itself is closed in a simulated
node.
"""

from collections.abc import Callable, Iterable

from simulator.run.server import Server

LOOK_SECONDS = 2.5
MACHINE = ("process_", "python_")
"""Of the real process that the simulation runs in."""
COUNTED = ("_total", "_count", "_bucket", "_sum")
OF_THE_PROCESS = ("penstock_loop_delay_seconds", "penstock_request", "penstock_fetched_bytes")


class Pages:
    """Looks at all processes every few seconds of virtual time."""

    def __init__(self, now_s: Callable[[], float], tell: Callable[[str], None]) -> None:
        self._now_s = now_s
        self._tell = tell
        self._next_s = LOOK_SECONDS
        self._known: dict[str, tuple[int, dict[str, float]]] = {}
        """Host -> how often it was started, and its counters at the last look."""

    def look(self, servers: Iterable[Server]) -> None:
        """Read all pages, if it is time."""
        if self._now_s() < self._next_s:
            return
        self._next_s = self._now_s() + LOOK_SECONDS
        for server in servers:
            node = server.node
            if node is None or server.is_paused:
                continue
            self.read(server.name, server.starts, node.metrics_page().body.decode())

    def read(self, name: str, starts: int, text: str) -> None:
        """Take one page of the process that was started for the `starts`th time."""
        values: dict[str, float] = {}
        for line in text.splitlines():
            if line.startswith(("#", *MACHINE)):
                continue
            key, _, text_of_value = line.rpartition(" ")
            if key in values:
                self._tell(f"{name} tells {key} twice on one page")
            values[key] = float(text_of_value)
        counters = {key: value for key, value in values.items() if _is_counter(key)}
        known_starts, known = self._known.get(name, (0, {}))
        if known_starts == starts:
            for key, value in counters.items():
                if value < known.get(key, 0.0):
                    self._tell(f"{name}: counter {key} fell from {known[key]} to {value}")
        self._known[name] = starts, counters


def _is_counter(key: str) -> bool:
    return key.startswith(OF_THE_PROCESS) and key.partition("{")[0].endswith(COUNTED)
