"""Errors of the quotas room."""

from penstock.base.errors import PlatformError


class QuotaError(PlatformError):
    """Root of the room."""


class InvalidQuota(QuotaError):
    """An entity, a key, a value or a filter that does not exist."""


class UnknownEntityKind(QuotaError):
    """A filter that asks for a kind of entity that there is not."""
