"""Questions about what survives, one module each, answered by breaking real processes.

`python -m reliability` asks them all; `python -m reliability NAME --quick` asks one. Every question
prints a table and writes JSON with the machine's description to `reliability/results/`.
"""

from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
