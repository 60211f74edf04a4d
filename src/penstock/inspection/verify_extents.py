"""Checking the second level of a log: its manifest, and every byte of its extent files.

Only reads. A log without a second level has nothing to be found.

Source: docs/formats/extent-file.md; the checks of one file are extents/check.py.
"""

from collections.abc import Iterator

from penstock.base.errors import PlatformError
from penstock.base.ports import Disk
from penstock.extents.check import check_extent_file
from penstock.inspection.findings import Finding, Severity
from penstock.storage.second_level.manifest import (
    Manifest,
    decode_manifest,
    extent_path,
    manifest_path,
)


def second_level_findings(disk: Disk, directory: str) -> Iterator[Finding]:
    """Yield what is wrong with the manifest and the files that it names."""
    path = manifest_path(directory)
    try:
        manifest = _manifest(disk, path)
    except FileNotFoundError:
        return
    except PlatformError as error:
        yield Finding(Severity.ERROR, path, -1, str(error))
        return
    for file in manifest.files:
        path = extent_path(directory, file.number)
        try:
            _check(disk, path, file.size_bytes)
        except FileNotFoundError:
            yield Finding(Severity.ERROR, path, -1, "the extent file is missing")
        except PlatformError as error:
            yield Finding(Severity.ERROR, path, -1, str(error))


def _manifest(disk: Disk, path: str) -> Manifest:
    file = disk.open(path)
    try:
        return decode_manifest(path, file.read(0, file.size()))
    finally:
        file.close()


def _check(disk: Disk, path: str, size_bytes: int) -> None:
    file = disk.open(path)
    try:
        check_extent_file(path, size_bytes, file.read)
    finally:
        file.close()
