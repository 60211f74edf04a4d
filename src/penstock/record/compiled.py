"""What every produced batch goes through: compiled if built, else in Python.

Source: ours, ADR 0021.
"""

try:
    from penstock.record._batch import check_batch
    from penstock.record._plain import check_plain
except ImportError:  # no C compiler at installation
    from penstock.record.batch import check_batch
    from penstock.record.plain import check_plain

__all__ = ["check_batch", "check_plain"]
