"""Bugs of the tier's store over HDFS: its fence, what is durable, and whom it asks."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "HDFS"
STORE = "runtime/io/hdfs_store.py"
ERRORS = "runtime/io/hdfs_errors.py"
PLACE = "tier/hdfs_place.py"
NAMES = ("tests/tier/test_hdfs.py",)
ANSWERS = ("tests/tier/test_hdfs_errors.py",)
SETTINGS = ("tests/tier/test_config.py",)

MUTANTS = (
    plant(
        "hdfs-deletes-the-name-first",
        AREA,
        "a put of a deposed master gets its name between the two deletes, and stays",
        (
            STORE,
            "        await self._take(name, self._path(name) + PUTTING, recursive=True)\n        await self._take(name, self._path(name), recursive=False)\n",
            "        await self._take(name, self._path(name), recursive=False)\n        await self._take(name, self._path(name) + PUTTING, recursive=True)\n",
        ),
        kind=Kind.ORDER,
        near=NAMES,
    ),
    plant(
        "hdfs-makes-a-deleted-directory-again",
        AREA,
        "a master that was deposed puts into a directory that its successor has deleted",
        (
            STORE,
            "await self._mkdirs(name, directory, with_parents=False)",
            "await self._mkdirs(name, directory, with_parents=True)",
        ),
        kind=Kind.GUARD,
        near=NAMES,
    ),
    plant(
        "hdfs-knows-what-it-has-deleted",
        AREA,
        "the put behind the last object of a directory fails, since this process itself has deleted it",
        (STORE, "            self._known.pop(parent, None)\n", ""),
        kind=Kind.CLEARED,
        near=NAMES,
    ),
    plant(
        "hdfs-deletes-directories-with-all-in-them",
        AREA,
        "with one object go all of its mastership",
        (
            STORE,
            "            await self._take(name, directory, recursive=False)\n",
            "            await self._take(name, directory, recursive=True)\n",
        ),
        kind=Kind.GUARD,
        near=NAMES,
    ),
    plant(
        "hdfs-syncs-no-block-but-the-last",
        AREA,
        "the first blocks of a large object are in the memory of DataNodes when it is said to be there",
        (STORE, "ends=size % block_bytes == 0", "ends=False"),
        kind=Kind.GUARD,
        near=NAMES,
    ),
    plant(
        "hdfs-closes-without-a-sync",
        AREA,
        "an object is said to be there that a power loss takes",
        (
            STORE,
            "        async with self._writing(name):\n            await writer.hsync()\n        async with",
            "        async with",
        ),
        kind=Kind.GUARD,
        near=NAMES,
    ),
    plant(
        "hdfs-replaces-what-has-the-name",
        AREA,
        "of two puts if absent both are done",
        (STORE, "overwrite = condition is Plain.ALWAYS", "overwrite = condition is not None"),
        kind=Kind.GUARD,
        near=NAMES,
    ),
    plant(
        "hdfs-lists-what-is-being-put",
        AREA,
        "half an object is listed, under a name that nobody gave",
        (STORE, "            elif not status.path.endswith(PUTTING):\n", "            else:\n"),
        kind=Kind.GUARD,
        near=NAMES,
    ),
    plant(
        "hdfs-names-a-short-file",
        AREA,
        "an object has a name and fewer bytes than were put",
        (STORE, "        if status.length != size:\n", "        if status.length > size:\n"),
        kind=Kind.GUARD,
        near=NAMES,
    ),
    plant(
        "hdfs-ends-a-list-at-a-directory-that-goes",
        AREA,
        "objects of other masterships are not listed, and count as lost",
        (
            STORE,
            "        with suppress(ObjectNotFound):\n            async with self._asking(prefix):\n",
            "        with suppress(KeyError):\n            async with self._asking(prefix):\n",
        ),
        kind=Kind.GUARD,
        near=NAMES,
    ),
    plant(
        "hdfs-holds-the-loop-for-a-put",
        AREA,
        "a node does nothing else while it writes an object",
        (
            STORE,
            "        await asyncio.sleep(0)  # a write that finds room does not give the loop away\n",
            "",
        ),
        kind=Kind.GUARD,
        near=NAMES,
    ),
    plant(
        "hdfs-pauses-in-the-library",
        AREA,
        "a NameNode that is away makes the library panic, past every handler of errors",
        (STORE, "str(len(name_nodes) - 1)", "str(len(name_nodes))"),
        kind=Kind.RANGE,
        near=ANSWERS,
    ),
    plant(
        "hdfs-stays-with-a-silent-name-node",
        AREA,
        "the other NameNode is never asked while the machine of the first is gone",
        (
            STORE,
            "            self._name_nodes = (*others, first)\n",
            "            self._name_nodes = (first, *others)\n",
        ),
        kind=Kind.STALE,
        near=ANSWERS,
    ),
    plant(
        "hdfs-asks-as-another-user",
        AREA,
        "a store of one user asks over the connection of another",
        (STORE, 'key = os.environ.get(USER_VARIABLE, ""), call_ms', 'key = "", call_ms'),
        kind=Kind.STALE,
        near=ANSWERS,
    ),
    plant(
        "hdfs-drops-its-clients",
        AREA,
        "a client is dropped behind an answer, and the process stands still",
        (STORE, "    if key not in _CLIENTS:\n", "    if True:\n"),
        kind=Kind.CLEARED,
        near=ANSWERS,
    ),
    plant(
        "hdfs-throttled-by-safe-mode",
        AREA,
        "safe mode is told as too many requests",
        (
            ERRORS,
            "    if kind == _ASK_LATER and _SAFE_MODE not in told.lower():\n",
            "    if kind == _ASK_LATER:\n",
        ),
        kind=Kind.GUARD,
        near=ANSWERS,
    ),
    plant(
        "hdfs-refusals-are-outages",
        AREA,
        "wrong permissions are told as a store that is away",
        (ERRORS, "    if kind in _CREDENTIALS:\n", "    if kind in ():\n"),
        kind=Kind.GUARD,
        near=ANSWERS,
    ),
    plant(
        "hdfs-takes-a-name-for-an-address",
        AREA,
        "a name without NameNodes is taken, and nothing is ever copied",
        (
            PLACE,
            "return bool(parts.hostname and parts.port) and parts.netloc == text",
            "return bool(parts.hostname) and parts.netloc == text",
        ),
        kind=Kind.GUARD,
        near=SETTINGS,
    ),
)
