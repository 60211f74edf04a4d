"""What every accepted record goes through: compiled if built, else in Python.

Source: none; docs/adr/0021 for twins.
"""

try:
    from penstock.shares.updates._updates import held_first, runs_of, settle_lone, with_runs
except ImportError:  # no C compiler at installation
    from penstock.shares.runs import runs_of
    from penstock.shares.updates.plain import held_first, settle_lone, with_runs

__all__ = ["held_first", "runs_of", "settle_lone", "with_runs"]
