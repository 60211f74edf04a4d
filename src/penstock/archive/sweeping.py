"""What runs that died have left: files that no entry names.

    below the start of its partition     a prune has named it, and was ended before it deleted it
    at or behind the end                 a run has put it, and was ended before its entry
    anything else                        nothing that an archive does: refused by name

The second kind is deleted only while the topic has the records still. Otherwise it may be that
the entry is what was lost, and the file is the only one that has them.

Source: docs/adr/0164.
"""

from collections.abc import Mapping

from penstock.archive.errors import ArchiveLies
from penstock.archive.files import OWN, SUFFIX, ArchiveFiles, parse_data_name
from penstock.archive.manifest import Manifest


def unnamed(files: ArchiveFiles, manifest: Manifest) -> list[str]:
    """Return the Parquet files that no entry names. Raises StoreError."""
    known = manifest.names()
    return sorted(
        name
        for name in files.names()
        if name.endswith(SUFFIX) and name not in known and not name.startswith(f"{OWN}/")
    )


def pruned_before(manifest: Manifest, names: list[str]) -> list[str]:
    """Return those that a prune has left."""
    return [name for name in names if _is_below(manifest, name)]


def sweep(files: ArchiveFiles, manifest: Manifest, starts: Mapping[int, int]) -> int:
    """Delete what is left over, and return how many files that were.

    `starts` are the first offsets that the topic has. Call it behind an entry of one's own: a run
    that still lives can then not commit what is deleted here. Raises ArchiveLies, StoreError.
    """
    left = unnamed(files, manifest)
    for name in left:
        if not _is_below(manifest, name) and not _can_be_copied_again(manifest, name, starts):
            raise ArchiveLies(
                name,
                "the manifest does not know it, and the topic does not have its records any more;"
                " if it is no longer wanted, move it elsewhere and run again",
            )
    files.delete(left)
    files.delete_half_written()
    return len(left)


def _is_below(manifest: Manifest, name: str) -> bool:
    found = parse_data_name(name)
    part = None if found is None else manifest.parts.get(found.partition)
    return found is not None and part is not None and found.end <= part.start


def _can_be_copied_again(manifest: Manifest, name: str, starts: Mapping[int, int]) -> bool:
    found = parse_data_name(name)
    if found is None or found.partition not in starts:
        return False
    part = manifest.parts.get(found.partition)
    is_behind = part is None or found.start >= part.end
    return is_behind and starts[found.partition] <= found.start
