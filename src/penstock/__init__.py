"""Penstock: a replicated log and message platform for stock Kafka clients and Spark.

Start reading at ARCHITECTURE.md; each room below has one line in its package docstring.
"""

from typing import Final

__version__: Final = "0.1.0"
