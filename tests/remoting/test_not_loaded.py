"""A node without a port for remoting clients pays nothing for them."""

import subprocess
import sys

NAMES = "[name for name in sys.modules if name.startswith('penstock.remoting')]"


def test_a_node_without_the_port_loads_nothing_of_the_front() -> None:
    program = f"import sys, penstock.node.main, penstock.node.node; print({NAMES})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, encoding="utf-8"
    )
    assert done.stdout.strip() == "['penstock.remoting', 'penstock.remoting.config']"
