"""Types of the compiled twin."""

from penstock.base.ids import TopicPartition
from penstock.storage.read.regions import Region

def check_regions(
    regions: list[Region], found: list[memoryview], wanted: TopicPartition
) -> list[memoryview]: ...
