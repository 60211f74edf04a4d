"""The HTTP port of a process, with its pages."""

from collections.abc import Awaitable, Callable
from functools import partial

from penstock.broker.broker import Broker
from penstock.node.control_plane import ControlPlane
from penstock.node.pages.readiness import Readiness
from penstock.node.pages.reading import pages_access, without_rules
from penstock.node.pages.status import status_page
from penstock.node.pages.tier_status import tier_page
from penstock.node.settings.settings import NodeSettings
from penstock.runtime.io.http_server import HttpServer, Page


async def serve_pages(
    settings: NodeSettings,
    readiness: Readiness,
    plane: ControlPlane,
    metrics_page: Callable[[], Page],
    broker: Broker | None = None,
) -> HttpServer | None:
    """Open the port; None if the settings name none. Raises ConfigError."""
    node = settings.node
    if not node.metrics_port:
        return None
    pages: dict[str, Callable[[], Page | Awaitable[Page]]] = {
        "/metrics": metrics_page,
        "/health": readiness.health_page,
        "/ready": readiness.ready_page,
        "/cluster": partial(status_page, plane),
    }
    if broker is not None:
        pages["/tier"] = partial(tier_page, broker)
    strict = without_rules(settings.access)
    authoriser = (lambda: strict) if broker is None else (lambda: broker.authoriser)
    access = pages_access(settings.security, authoriser)
    server = HttpServer(pages, context=access.context, refuse=access.refuse)
    await server.start(node.metrics_host, node.metrics_port)
    return server
