import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "reference.py"


def test_the_reference_pages_are_what_the_code_says():
    done = subprocess.run(
        [sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
