"""What is wrong with a table of the index.

Source: ours.
"""

from penstock.base.errors import PlatformError


class DamagedTable(PlatformError):
    """The bytes are not those that were written; the table can be made anew from the log."""
