"""The state of a node, as on `/health` and `/ready`.

    /health   200 while the process does its work; 503 once a log is fenced: restart it
    /ready    200 when clients are answered; 503 with the phase and its progress before that

Readiness and health are apart because a node that recovers a large log is healthy: an orchestrator
that restarts it for not being ready would make it start over forever (strimzi#5263).
"""

from penstock.runtime.io.http_server import Page, json_page


class Readiness:
    """The phase a node is in; changed by the composition root and by fenced logs."""

    def __init__(self) -> None:
        self.phase = "starting"
        self.progress: dict[str, int] = {}
        self.is_ready = False
        self.fenced: dict[str, str] = {}

    def enter(self, phase: str, **progress: int) -> None:
        """Enter a phase of the start; `progress` are counts, such as bytes done and in total.

        A node that is ready stays ready while it opens another log.
        """
        if self.is_ready:
            return
        self.phase = phase
        self.progress = progress

    def ready(self) -> None:
        """Enter the phase in which clients are answered."""
        self.enter("ready")
        self.is_ready = True

    def stop(self) -> None:
        """Enter the phase in which the node stops."""
        self.is_ready = False
        self.enter("stopping")

    def fence(self, part: str, reason: str) -> None:
        """Note that a part of the node is out of service until the node is restarted."""
        self.fenced[part] = reason

    def health_page(self) -> Page:
        """The answer of /health."""
        return self._page(200 if not self.fenced else 503)

    def ready_page(self) -> Page:
        """The answer of /ready."""
        return self._page(200 if self.is_ready else 503)

    def _page(self, status: int) -> Page:
        state = {
            "phase": self.phase,
            "progress": self.progress,
            "ready": self.is_ready,
            "fenced": self.fenced,
        }
        return json_page(state, status)
