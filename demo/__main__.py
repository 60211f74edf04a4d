"""`python -m demo [INPUT]`."""

from demo.main import main
from penstock.cli.exit_codes import end_with

if __name__ == "__main__":
    end_with(main)
