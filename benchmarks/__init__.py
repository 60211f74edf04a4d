"""Questions about speed, one module each, answered by measuring real processes.

`python -m benchmarks` asks them all; `python -m benchmarks NAME --quick` asks one. Every question
prints a table and writes JSON with the machine's description to `benchmarks/results/`.
"""

from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
