"""What every audited request goes through: compiled if built, else in Python.

Source: none; docs/adr/0021 for twins.
"""

try:
    from penstock.audit._counts import Counts, count_batches
except ImportError:  # no C compiler at installation
    from penstock.audit.counts import Counts, count_batches

__all__ = ["Counts", "count_batches"]
