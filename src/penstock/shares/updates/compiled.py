"""What handed out and accepted records go through: compiled if built, else in Python.

Source: none; docs/adr/0021 for twins, docs/adr/0189 for hand-outs.
"""

try:
    from penstock.shares.updates._updates import held_first, runs_of, settle_lone, with_runs
except ImportError:  # no C compiler at installation
    from penstock.shares.runs import runs_of
    from penstock.shares.updates.plain import held_first, settle_lone, with_runs
try:
    from penstock.shares.updates._hand_out import hand_out_new
except ImportError:
    from penstock.shares.updates.plain import hand_out_new

__all__ = ["hand_out_new", "held_first", "runs_of", "settle_lone", "with_runs"]
