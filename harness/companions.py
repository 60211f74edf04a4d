"""What goes along with the writers and the reader of a workload, and adds to its history."""

from typing import Protocol

from simulator.history import History


class Companion(Protocol):
    """Clients with a thread or more of their own, from a workload's start to its end."""

    def start(self) -> None:
        """Begin; the topic is there."""

    def stop(self) -> None:
        """End; the writers have ended, and no fault is left."""

    def history(self) -> History:
        """Return what they noted; after `stop`."""

    def problems(self) -> list[str]:
        """Return what no judge sees; after `stop`."""
