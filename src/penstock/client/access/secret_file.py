"""Files that have one secret: a password, a token, or what a provider knows a client by."""

from pathlib import Path
from typing import Final

from penstock.client.errors import FileUnusable

SECRET_BYTES_MAX: Final = 64 << 10
"""What is longer is another file."""


def read_secret(name: str, path: str) -> str:
    """Return the secret that a file has, without space around it; errors name the setting.

    Raises FileUnusable.
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(SECRET_BYTES_MAX + 1).decode().strip()
    except OSError as error:
        raise FileUnusable(f"{name} {path} can not be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise FileUnusable(f"{name} {path} is no text") from None
    if not text:
        raise FileUnusable(f"{name} {path} is empty")
    if len(text) > SECRET_BYTES_MAX:
        raise FileUnusable(f"{name} {path} is too long to have one secret")
    return text
