"""A log that is filled until its disk has no space left."""

from harness.log_world import append
from penstock.storage.errors import OutOfSpace


def fill(world, log, partition, batches=2000):
    """Append until the log refuses; return how many went in."""
    for number in range(batches):
        try:
            append(log, partition, size=1000, fill=number)
        except OutOfSpace:
            return number
        world.run()
    raise AssertionError("the disk never filled")
