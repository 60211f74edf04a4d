"""kio without what it would load for tests."""

import subprocess
import sys

IMPORTS = """
import sys
import penstock.node.node
print("hypothesis" in sys.modules, "kio.index" in sys.modules)
import hypothesis
from penstock.protocol import kio_names
from kio.static.primitive import i16
print(hypothesis.__version__ != "", isinstance(7, i16), isinstance(1 << 15, i16))
"""


def test_a_node_loads_no_hypothesis_and_leaves_it_to_be_imported_later() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False True\nTrue True False\n"
