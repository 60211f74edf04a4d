"""The hot functions of append and read: the compiled versions if built, else those in Python.

Source: ours, ADR 0021.
"""

try:
    from penstock.storage.commit_log._frames import put_batch_frame
except ImportError:  # no C compiler at installation
    from penstock.frames.frames import put_batch_frame

try:
    from penstock.storage.read._read_check import check_regions
except ImportError:
    from penstock.storage.read.read_check import check_regions

try:
    from penstock.storage.read._regions import choose
except ImportError:
    from penstock.storage.read.regions import choose

__all__ = ["check_regions", "choose", "put_batch_frame"]
