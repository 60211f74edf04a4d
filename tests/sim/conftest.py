"""What tests of whole simulated clusters share."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def quiet() -> Iterator[None]:
    """Keep what dozens of simulated processes log out of the way: it takes longer than the runs."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
