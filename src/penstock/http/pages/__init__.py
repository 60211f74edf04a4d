"""Pages about this process: its health, its metrics, and what it offers."""

from penstock.http.pages.about import api_page, openapi
from penstock.http.pages.state import health, metrics_page

__all__ = ["api_page", "health", "metrics_page", "openapi"]
