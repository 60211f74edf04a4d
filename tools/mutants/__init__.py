"""A score for the tests: bugs planted on purpose, and which test finds each.

    python -m tools.mutants            plant what was not planted yet, write the table
    python -m tools.mutants --check    only see that every bug can still be planted
    python -m tools.mutants --kind order --seeds 1..20      those of a kind, with the simulator
    python -m tools.mutants --directed --survivors          what no seed found, with its schedules
    python -m tools.mutants --directed --survivors --seconds 20         a slice of them at a time

See `runner` for how one is planted and looked for, `choice` for which schedules are
tried first, `report` for docs/mutation-score.md.

To add bugs: a module called `<what>_bugs.py` in this package, with a tuple `MUTANTS` made of
`plant(...)`. It is found by its name. A file of five lines is enough:

    from .mutant import Kind, plant

    MUTANTS = (
        plant(
            "confirm-by-an-older-view", "Confirm position",
            "the confirm position is counted over the members that were in step before the change",
            ("replication/confirm.py", "exact old text, once in the file", "text in its place"),
            kind=Kind.STALE, near=("tests/replication/test_confirm.py",),
        ),
    )

Write it by reading the code for what a careful person could get wrong, not beside the test that
finds it; then `--check --only NAME`, and `--only NAME --no-clean` to see who finds it. What nothing
finds is a gap: write the test. `python -m tools.mutants.edges` makes the small ones of a room by
rule, and lists those that no test sees. `excuses` is for bugs that provably change nothing.
"""
