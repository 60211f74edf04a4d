"""Planted bugs of what strangers at the ports can hold: all of them were in the source."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

PAGES = ("tests/runtime/test_http_server.py",)

FRAMES = ("tests/net/test_receive_buffers.py", "tests/net/test_pinned_memory.py")

MUTANTS = (
    plant(
        "health-has-no-place-of-its-own",
        "Metrics port",
        "nobody learns whether a node is well while connections hold answers that they do not read",
        (
            "runtime/io/http_server.py",
            "        if path in ALWAYS:\n            made = page()\n        elif self._has_place():",
            "        if self._has_place():",
        ),
        kind=Kind.GUARD,
        near=PAGES,
    ),
    plant(
        "untaken-pages-keep-their-place",
        "Metrics port",
        "connections that read no answer keep scrapers out",
        ("runtime/io/http_server.py", " or self._end_one(self._untaken(asked=True))", ""),
        kind=Kind.GUARD,
        near=PAGES,
    ),
    plant(
        "untaken-answers-are-kept-for-ever",
        "Metrics port",
        "what a client does not read keeps memory and a descriptor as long as it likes",
        (
            "runtime/io/http_server.py",
            "            if writer.transport.get_write_buffer_size():\n                writer.transport.abort()  # else what was not taken would be kept for ever\n",
            "",
        ),
        kind=Kind.CLEARED,
        near=PAGES,
    ),
    plant(
        "large-frames-leave-nothing",
        "Receive memory",
        "a few unfinished large frames starve everybody with a normal one",
        (
            "net/receive.py",
            "        return self.used + size <= most\n",
            "        return self.used + size <= self.limit\n",
        ),
        kind=Kind.GUARD,
        near=FRAMES,
    ),
    plant(
        "normal-frames-wait-for-larger-ones",
        "Receive memory",
        "who holds far more keeps it while a normal frame waits",
        (
            "net/shares.py",
            "        if worst is None:\n            return False\n        worst.end(CloseKind.MEMORY)\n",
            "        if worst is None or worst:\n            return False\n",
        ),
        kind=Kind.GUARD,
        near=FRAMES,
    ),
    plant(
        "many-parts-of-one-address-are-small",
        "Receive memory",
        "an address that holds all in many parts keeps it",
        (
            "net/shares.py",
            "        found[one.client_host] += one.received_bytes\n",
            "        found[one.client_host] = one.received_bytes\n",
        ),
        kind=Kind.STALE,
        near=FRAMES,
    ),
)
