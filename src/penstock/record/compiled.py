"""`check_batch`, which every produced batch goes through: compiled if built, else in Python.

Source: ours, ADR 0021.
"""

try:
    from penstock.record._batch import check_batch
except ImportError:  # no C compiler at installation
    from penstock.record.batch import check_batch

__all__ = ["check_batch"]
