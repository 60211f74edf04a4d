"""A score for the tests: bugs planted on purpose, and which test finds each.

    python -m tools.mutants            plant what was not planted yet, write the table
    python -m tools.mutants --check    only see that every bug can still be planted

See `runner` for how one is planted and looked for, `report` for docs/mutation-score.md.
"""
