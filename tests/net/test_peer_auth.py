"""The handshake as bytes: every bit of it counts, and nothing of the secret is in it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import ConfigError
from penstock.net.peer_auth import (
    HANDSHAKE_BYTES_MAX,
    Credentials,
    DialerHandshake,
    Identity,
    ListenerHandshake,
    PeerHello,
    Progress,
    decode_identity,
    encode_identity,
    looks_like_handshake,
)
from penstock.net.peer_errors import ADDRESSES_MAX, REASONS_MAX, PeerRefused, RefusalLog

SECRET = b"a secret of the tests"
KEY = Credentials(SECRET).keys[0]
DIALER = Identity(PeerHello(b"raft", "cluster", 2, 22), 1 << 20)
LISTENER = Identity(PeerHello(b"", "cluster", 1, 11), 2 << 20)

identities = st.builds(
    Identity,
    st.builds(
        PeerHello,
        st.binary(min_size=1, max_size=16),
        st.text(st.characters(codec="ascii", categories=("L", "N")), max_size=128),
        st.integers(-(1 << 63), (1 << 63) - 1),
        st.integers(-(1 << 63), (1 << 63) - 1),
    ),
    st.integers(0, (1 << 32) - 1),
)


class Talk:
    """A handshake, frame by frame, with each frame in `frames` as it was sent."""

    def __init__(self, *, key: bytes = KEY, nonces: tuple[bytes, bytes] = (b"d" * 32, b"l" * 32)):
        self.dialer = DialerHandshake(DIALER, key, nonces[0])
        self.listener = ListenerHandshake(LISTENER, (KEY,), nonces[1], lambda purpose: True)
        self.hello = self.dialer.start()
        self.challenge = self.listener.step(self.hello).answer
        self.proof = self.dialer.step(self.challenge).answer

    @property
    def frames(self) -> list[bytes]:
        return [self.hello, self.challenge, self.proof]


def test_both_sides_learn_who_the_other_is() -> None:
    talk = Talk()
    accepted = talk.listener.step(talk.proof)
    assert accepted.peer == DIALER
    assert talk.dialer.step(accepted.answer) == Progress(peer=LISTENER)
    frames = [*talk.frames, accepted.answer]
    assert all(len(frame) <= HANDSHAKE_BYTES_MAX for frame in frames)
    assert not any(SECRET in frame or KEY in frame for frame in frames)


@given(st.data())
def test_a_handshake_with_any_bit_changed_on_the_way_is_not_accepted(data: st.DataObject) -> None:
    dialer = DialerHandshake(DIALER, KEY, b"d" * 32)
    listener = ListenerHandshake(LISTENER, (KEY,), b"l" * 32, lambda purpose: True)
    changed_frame = data.draw(st.integers(0, 3))
    bit = data.draw(st.integers(0, 8 * HANDSHAKE_BYTES_MAX))

    def carried(frame: bytes, number: int) -> bytes:
        if number != changed_frame:
            return frame
        damaged = bytearray(frame)
        damaged[bit // 8 % len(frame)] ^= 1 << bit % 8
        return bytes(damaged)

    final = Progress()
    with contextlib.suppress(PeerRefused):
        challenge = listener.step(carried(dialer.start(), 0)).answer
        proof = dialer.step(carried(challenge, 1)).answer
        accepted = listener.step(carried(proof, 2))
        assert changed_frame == 3 or accepted.peer is None
        final = dialer.step(carried(accepted.answer, 3))
    assert final.peer is None


def test_wrong_secret_is_refused_by_the_listener() -> None:
    talk = Talk(key=Credentials(b"another").keys[0])
    refused = talk.listener.step(talk.proof)
    assert refused.peer is None
    assert "wrong secret" in refused.refusal
    assert "wrong secret" in talk.dialer.step(refused.answer).refusal


def test_recorded_proof_does_not_fit_another_challenge() -> None:
    recorded = Talk()
    later = ListenerHandshake(LISTENER, (KEY,), b"other nonce".ljust(32), lambda purpose: True)
    later.step(recorded.hello)
    assert "wrong secret" in later.step(recorded.proof).refusal


def test_proof_can_not_be_reflected_as_an_acceptance() -> None:
    talk = Talk()
    reflected = talk.proof[:5] + b"\x04" + talk.proof[6:] + encode_identity(LISTENER)
    assert talk.dialer.step(reflected).peer is None


@pytest.mark.parametrize("number", [0, 1, 2])
def test_frames_out_of_turn_are_refused(number: int) -> None:
    talk = Talk()
    fresh = ListenerHandshake(LISTENER, (KEY,), b"l" * 32, lambda purpose: True)
    dialer = DialerHandshake(DIALER, KEY, b"d" * 32)
    with pytest.raises(PeerRefused, match="keep to the handshake"):
        (fresh if number else dialer).step(talk.frames[number])
    with pytest.raises(PeerRefused, match="keep to the handshake"):
        talk.dialer.step(talk.challenge)


@given(identities)
def test_identity_comes_out_as_it_went_in(identity: Identity) -> None:
    assert decode_identity(encode_identity(identity)) == identity


@given(st.binary(max_size=HANDSHAKE_BYTES_MAX))
def test_any_bytes_are_an_identity_or_refused(data: bytes) -> None:
    with contextlib.suppress(PeerRefused):
        assert encode_identity(decode_identity(data)) == data


@given(st.binary(max_size=HANDSHAKE_BYTES_MAX), st.booleans())
def test_any_frame_is_answered_or_refused(data: bytes, is_dialer: bool) -> None:
    side: DialerHandshake | ListenerHandshake = ListenerHandshake(
        LISTENER, (KEY,), b"l" * 32, lambda purpose: True
    )
    if is_dialer:
        side = DialerHandshake(DIALER, KEY, b"d" * 32)
    with contextlib.suppress(PeerRefused):
        assert side.step(data).peer is None
    with contextlib.suppress(PeerRefused):
        assert side.step(b"PNPL\x01" + data).peer is None


def test_refusal_of_a_stranger_reads_as_one_line() -> None:
    refusal = b"PNPL\x01\x05" + "line\none \x1b[31m é".encode()
    reason = DialerHandshake(DIALER, KEY, b"d" * 32).step(refusal).refusal
    assert reason.isprintable()
    assert reason.isascii()


def test_first_bytes_tell_a_handshake_from_everything_else() -> None:
    hello = DialerHandshake(DIALER, KEY, b"d" * 32).start()
    framed = len(hello).to_bytes(4, "big") + hello
    assert all(looks_like_handshake(framed[:length]) for length in range(len(framed)))
    for start in (b"G", b"GET ", b"\x16\x03", b"\0\0\0\x40X", b"\0\0\x02\x01", b"SSH-"):
        assert not looks_like_handshake(start)


def test_secret_is_not_shown() -> None:
    assert "tests" not in repr(Credentials(SECRET))
    with pytest.raises(ConfigError, match="set the same one everywhere"):
        Credentials(b"")


def test_one_refusal_is_logged_once_in_a_while_and_the_memory_is_bounded() -> None:
    log = RefusalLog()
    assert log.note("a", "from a", "why", 0.0)
    assert not log.note("a", "from a", "why", 29.9)
    assert log.note("a", "from a", "other", 0.0)
    assert log.note("a", "from a", "why", 30.0)
    logged = sum(log.note(f"{number}", "from it", "why", 31.0) for number in range(1_000))
    assert logged == ADDRESSES_MAX - 1
    assert log.note("late", "from late", "why", 100.0)


def test_an_address_that_names_another_peer_or_reason_each_time_fills_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = RefusalLog()
    for number in range(1_000):
        log.note("a", f"from a peer={number}", "wrong secret", 1.0)
        log.note("b", "from b", f"belongs to cluster {number}", 1.0)
    assert len(caplog.records) == 1 + REASONS_MAX
    assert log.note("a", "from a peer=7", "wrong secret", 40.0)
    assert "from a peer=7 refused: wrong secret (999 more before)" in caplog.text
