"""Errors of the access room."""

from penstock.base.errors import PlatformError


class AccessError(PlatformError):
    """Root of the room."""


class MalformedToken(AccessError):
    """A token of a SASL exchange that its mechanism does not allow."""


class MalformedKeys(AccessError):
    """A set of public keys that can not be used."""


class MalformedName(AccessError):
    """A certificate whose subject can not be read."""


class NoPrincipal(AccessError):
    """No rule says who the subject of a certificate is."""
