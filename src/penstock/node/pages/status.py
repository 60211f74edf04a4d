"""`/cluster` on the metrics port: the cluster's status as this process knows it, as JSON.

The same as `penstock cluster status -o json`, for a node alone and for dashboards. Only the active
controller has everything; others know the metadata and who lives.
"""

from dataclasses import asdict

from penstock.base.ids import RequestId
from penstock.node.control_plane import ControlPlane
from penstock.runtime.io.http_server import JSON, Page, json_page


def status_page(plane: ControlPlane) -> Page:
    """Return the page; 503 while the metadata is still being read."""
    if not plane.is_open:
        return Page(503, JSON, b"{}\n")
    document = asdict(plane.brain.status(RequestId(0)))
    document.pop("request_id")
    document.pop("error")
    return json_page(document)
