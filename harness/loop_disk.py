"""Small ext4 disks that can be full, lose power, or lie about fsync. Needs root.

A disk is a sparse file on a loop device. Power is cut by the file system's own shutdown ioctl
without a journal flush: everything that was not synced is gone after the next mount, as after a
real power cut. The lying disk keeps its file on a full tmpfs, so that writes into the page cache
succeed and fsync reports the error.
"""

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

_EXT4_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2
_UNMOUNT_SECONDS = 10.0


def why_not() -> str | None:
    """Return why loop disks can not be used here, or None when they can."""
    if os.geteuid() != 0:
        return "loop devices need root"
    missing = [tool for tool in ("losetup", "mkfs.ext4", "mount", "umount") if not _which(tool)]
    if missing:
        return f"{', '.join(missing)} not installed"
    if not Path("/dev/loop-control").exists():
        return "the kernel has no loop devices"
    return None


class LoopDisk:
    """One ext4 file system on a loop device, mounted at `directory`/mount."""

    def __init__(self, directory: Path, *, size_mib: int, journal: bool = True) -> None:
        """Make the file and the file system; `with` mounts it and always takes it away."""
        self.mount_point = directory / "mount"
        self._image = directory / "image"
        self._device = ""
        self._is_mounted = False
        self._is_place_bound = False
        self.mount_point.mkdir(parents=True, exist_ok=True)
        with self._image.open("wb") as file:
            file.truncate(size_mib << 20)
        features = [] if journal else ["-O", "^has_journal"]
        options = ["-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,nodiscard", *features]
        _run("mkfs.ext4", *options, str(self._image))

    def __enter__(self) -> "LoopDisk":
        self._device = _run("losetup", "-f", "--show", str(self._image)).strip()
        try:
            self._tell_namespaces()
            self.mount()
        except subprocess.CalledProcessError:
            self._detach()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self.unmount()
        self._detach()

    def _tell_namespaces(self) -> None:
        """Let an unmount here be one in mount namespaces that were made meanwhile: they begin with
        copies of all mounts, and one that is left keeps a disk without power from coming back.
        """
        place = str(self.mount_point)
        _run("mount", "--bind", place, place)
        self._is_place_bound = True
        _run("mount", "--make-shared", place)

    def mount(self) -> None:
        """Mount the disk; after a power cut this replays its journal."""
        _run("mount", self._device, str(self.mount_point))
        self._is_mounted = True

    def unmount(self) -> None:
        """Unmount the disk; a process that just died may hold it for a moment."""
        deadline = time.monotonic() + _UNMOUNT_SECONDS
        while self._is_mounted:
            try:
                _run("umount", str(self.mount_point))
                self._is_mounted = False
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def cut_power(self) -> None:
        """Forget everything that was not synced; every later access fails until a new mount."""
        handle = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, _EXT4_IOC_SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(handle)

    def _detach(self) -> None:
        if self._is_place_bound and not self._is_mounted:
            with contextlib.suppress(subprocess.CalledProcessError):  # the device goes all the same
                _run("umount", str(self.mount_point))
            self._is_place_bound = False
        if self._device:
            _run("losetup", "-d", self._device)
            self._device = ""


@contextlib.contextmanager
def lying_disk(directory: Path, *, room_mib: int, size_mib: int) -> Iterator[LoopDisk]:
    """Yield a disk of `size_mib` whose medium takes only `room_mib`: then fsync fails."""
    backing = directory / "backing"
    backing.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={room_mib}m", "none", str(backing))
    try:
        with LoopDisk(backing, size_mib=size_mib, journal=False) as disk:
            yield disk
    finally:
        _run("umount", str(backing))


@contextlib.contextmanager
def tiny_tmpfs(directory: Path, *, size_mib: int) -> Iterator[Path]:
    """Yield a memory file system of `size_mib`, where a full disk is quick to reach."""
    directory.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "none", str(directory))
    try:
        yield directory
    finally:
        _run("umount", str(directory))


def _which(tool: str) -> str | None:
    return shutil.which(tool) or shutil.which(tool, path="/sbin:/usr/sbin")


def _run(tool: str, *arguments: str) -> str:
    command = [_which(tool) or tool, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout
