"""The port to a housekeeper, as the node uses it: a process beside it, or work in a simulation.

Source: docs/adr/0104.
"""

from collections.abc import Callable
from typing import Protocol

from penstock.housekeeper.messages import Answer, Job


class Housekeeper(Protocol):
    """Does jobs one at a time. Used on the loop."""

    @property
    def starts(self) -> int:
        """How often the process was started."""

    def submit(self, job: Job, done: Callable[[Answer], None]) -> None:
        """Do a job; `done(answer)` is called on the loop. The job before has been answered.

        A housekeeper that dies, or does not answer in its time, is an answer too: Failed. What it
        was writing may be left, under the unfinished name.
        """

    def set_rate(self, bytes_per_second: int) -> None:
        """Read and write so fast from now on; 0 is no bound."""

    async def stop(self) -> None:
        """End it, wherever its work stands; nothing is called any more."""
