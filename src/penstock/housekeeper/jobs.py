"""Doing jobs: what a job asks for, on the disk that it is given.

    job ─► room on the disk? ─► split_segments ─► Made,       or Failed with the reason
                             ─► clean_extents  ─► Cleaned
                             ─► shrink_file    ─► Made

Every failure of the disk or of data is an answer: other logs' jobs go on.

Source: docs/adr/0104, docs/adr/0108, docs/adr/0130. What a file means is the node's
business: it takes it over.
"""

import errno

from penstock.base.errors import PlatformError
from penstock.base.ids import Position
from penstock.base.ports import Disk
from penstock.housekeeper.messages import Answer, CleanJob, Failed, Job, Made, ShrinkJob, SplitJob
from penstock.storage.commit_log.segments import segment_path
from penstock.storage.errors import CorruptFrame, ExtentDamaged
from penstock.storage.index.lookup import ClosedSegment
from penstock.storage.second_level.cleaning import Cleaned, clean_extents
from penstock.storage.second_level.shrinking import shrink_file
from penstock.storage.second_level.split import split_segments


def run_job(disk: Disk, job: Job) -> Answer:
    """Do a job in the data directory `disk`. Waits for the disk."""
    try:
        if isinstance(job, CleanJob):
            return _clean(disk, job)
        return _shrink(disk, job) if isinstance(job, ShrinkJob) else _split(disk, job)
    except CorruptFrame as error:
        return Failed(str(error), error.position)
    except ExtentDamaged as error:
        return Failed(str(error), damaged_file=error.file_number)
    except (PlatformError, OSError) as error:
        return Failed(str(error))
    except MemoryError:
        return Failed("the memory of the process does not suffice")


def _check_room(disk: Disk, batch_bytes: int, reserve_bytes: int) -> None:
    """Raise OSError unless so much can be written and the reserve stays free."""
    free = disk.free_bytes()
    if free - batch_bytes < reserve_bytes:
        needed = f"{batch_bytes} bytes are to be written and log.reserve_bytes keeps"
        raise OSError(errno.ENOSPC, f"{needed} {reserve_bytes} free; {free} are available")


def _clean(disk: Disk, job: CleanJob) -> Cleaned:
    order = job.order
    _check_room(disk, sum(one.batch_bytes for one in order.extents), job.reserve_bytes)
    identity = job.cluster_id, job.replica_set_id
    return clean_extents(disk, job.directory, order, unfinished=job.unfinished, identity=identity)


def _shrink(disk: Disk, job: ShrinkJob) -> Made:
    _check_room(disk, job.batch_bytes, job.reserve_bytes)
    batch_bytes = shrink_file(
        disk,
        job.directory,
        job.file_number,
        job.kept,
        unfinished=job.unfinished,
        identity=(job.cluster_id, job.replica_set_id),
    )
    return Made(len(job.kept.numbers), batch_bytes)


def _split(disk: Disk, job: SplitJob) -> Made:
    _check_room(disk, job.batch_bytes, job.reserve_bytes)
    bases = [Position(base) for base in job.bases]
    segments = [ClosedSegment(base, segment_path(job.directory, base)) for base in bases]
    entries = split_segments(
        disk,
        job.directory,
        segments,
        dict(job.wanted).get,
        unfinished=job.unfinished,
        identity=(job.cluster_id, job.replica_set_id),
    )
    return Made(len(entries), sum(entry.batch_bytes for entry in entries))
