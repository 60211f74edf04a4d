"""The frame of every appended batch: compiled where it was built, else as it stands in Python.

Source: ours, ADR 0021.
"""

try:
    from penstock.storage._frames import put_batch_frame
except ImportError:  # no C compiler at installation
    from penstock.storage.frames import put_batch_frame

__all__ = ["put_batch_frame"]
