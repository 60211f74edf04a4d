"""Planted bugs of a cluster's secret while it is replaced."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

SECRETS = ("tests/net/test_peer_secrets.py",)
FILES = ("tests/node/test_peer_files.py",)

MUTANTS = (
    plant(
        "peer-secret-listener-answers-with-its-own",
        "Links",
        "a listener answers with its own secret and not with the one that the dialer has used",
        (
            "net/peer_auth.py",
            "_mac(self.key, _LISTENER_LABEL, covered)",
            "_mac(self._keys[0], _LISTENER_LABEL, covered)",
        ),
        kind=Kind.STALE,
        near=SECRETS,
    ),
    plant(
        "peer-secret-last-of-all-counts",
        "Links",
        "only the last of the accepted secrets decides",
        (
            "net/peer_auth.py",
            "                self.key = key\n        if not self.key:",
            '                self.key = key\n            else:\n                self.key = b""\n        if not self.key:',
        ),
        kind=Kind.ORDER,
        near=SECRETS,
    ),
    plant(
        "peer-secret-let-go-in-a-handshake",
        "Links",
        "a handshake that began before its secret was let go opens a link",
        (
            "net/peer_auth.py",
            "        if key not in self._keys:\n            link.close(_OVER)",
            "        if not key:\n            link.close(_OVER)",
        ),
        kind=Kind.STALE,
        near=SECRETS,
    ),
    plant(
        "peer-secret-keys-of-before",
        "Links",
        "other credentials are known, and links are made with the keys of before",
        (
            "net/peer_auth.py",
            "        self._credentials = credentials\n        self._keys = credentials.keys\n\n    def keep",
            "        self._credentials = credentials\n\n    def keep",
        ),
        kind=Kind.STALE,
        near=SECRETS,
    ),
    plant(
        "peer-secret-links-counted-for-ever",
        "Links",
        "a link of another secret counts after its end",
        (
            "net/peer_listener.py",
            "        self._security.forget(link)\n",
            "",
        ),
        kind=Kind.CLEARED,
        near=SECRETS,
    ),
    plant(
        "peer-secret-old-is-not-looked-at",
        "Links",
        "the secret of before is no longer accepted once the new one is used",
        (
            "node/settings/cluster_config.py",
            'OTHER_SECRETS = (".next", ".old")',
            'OTHER_SECRETS = (".next",)',
        ),
        kind=Kind.RANGE,
        near=FILES,
    ),
    plant(
        "peer-secret-looked-at-once",
        "Links",
        "files are looked at a second after the start and never again",
        (
            "node/peers.py",
            "        self._timer = self._scheduler.call_later(_LOOK_MS, self._look)\n\n\ndef peer_security",
            "\n\ndef peer_security",
        ),
        kind=Kind.CLEARED,
        near=FILES,
    ),
)
