"""`python -m demo [INPUT]`."""

import sys

from demo.main import main

if __name__ == "__main__":
    sys.exit(main())
