"""The simulated disk keeps the contract of the real one, and forgets what it should forget."""

from random import Random

import pytest

from penstock.sim.disk import SimDisk
from tests.storage.disk_contract import DiskContract


class TestSimDisk(DiskContract):
    @pytest.fixture
    def disk(self):
        return SimDisk(Random(1))
