"""The secret of a cluster is replaced while its links stand."""

import pytest

from penstock.net.peer import Credentials, PeerLink, PeerRefused, PeerSecurity
from penstock.net.peer_auth import DialerHandshake, Identity
from tests.net.peering import DIALER, End, Port, drained, peer_port, raw
from tests.net.serving import run

OLD, NEW, NEWEST = b"the old secret", b"the new secret", b"the newest secret"
FRAME_BYTES_MAX = 1 << 20


def knows(*secrets: bytes) -> PeerSecurity:
    return PeerSecurity(Credentials(secrets[0], secrets[1:]))


async def _talks(port: Port, security: PeerSecurity) -> tuple[PeerLink, End]:
    number = len(port.ends)
    link = await port.dial(security=security)
    end = await port.end(number)
    link.send(b"hello")
    await end.until(lambda: end.frames == [b"hello"])
    return link, end


@pytest.mark.parametrize("dialed_with", [OLD, NEW, NEWEST])
def test_a_dialer_may_prove_itself_with_any_secret_that_is_accepted(dialed_with: bytes) -> None:
    async def scenario() -> None:
        async with peer_port(knows(OLD, NEW, NEWEST)) as port:
            await _talks(port, knows(dialed_with))

    run(scenario())


def test_a_dialer_proves_itself_with_the_first_of_its_secrets_only() -> None:
    async def scenario() -> None:
        async with peer_port(knows(OLD)) as port:
            await _talks(port, knows(OLD, NEW))
            with pytest.raises(PeerRefused, match="wrong secret"):
                await port.dial(security=knows(NEW, OLD))

    run(scenario())


def test_links_stay_when_their_secret_is_let_go_and_it_opens_no_new_ones() -> None:
    async def scenario() -> None:
        listening, dialing = knows(OLD, NEW), knows(OLD)
        async with peer_port(listening) as port:
            link, end = await _talks(port, dialing)
            listening.use(Credentials(NEW))
            dialing.use(Credentials(NEW))
            link.send(b"again")
            await end.until(lambda: end.frames == [b"hello", b"again"])
            await _talks(port, dialing)
            with pytest.raises(PeerRefused, match="wrong secret"):
                await port.dial(security=knows(OLD))

    run(scenario())


def test_links_by_other_secrets_are_counted_at_both_ends_until_they_end() -> None:
    async def scenario() -> None:
        listening, dialing = knows(OLD, NEW), knows(OLD)
        async with peer_port(listening) as port:
            link, _ = await _talks(port, dialing)
            assert (listening.links_of_others, dialing.links_of_others) == (0, 0)
            for one in (listening, dialing):
                one.use(Credentials(NEW, (OLD,)))
            assert (listening.links_of_others, dialing.links_of_others) == (1, 1)
            link.close("done")
            await drained()
            assert (listening.links_of_others, dialing.links_of_others) == (0, 0)

    run(scenario())


def test_a_handshake_that_began_before_its_secret_was_let_go_comes_to_nothing() -> None:
    async def scenario() -> None:
        listening = knows(OLD)
        async with peer_port(listening) as port:
            reader, writer = await raw(port)
            identity = Identity(DIALER, FRAME_BYTES_MAX)
            dialer = DialerHandshake(identity, Credentials(OLD).keys[0], bytes(32))
            writer.write(_framed(dialer.start()))
            size = int.from_bytes(await reader.readexactly(4), "big")
            proof = dialer.step(await reader.readexactly(size)).answer
            listening.use(Credentials(NEW))
            writer.write(_framed(proof))
            await reader.read()  # the end of the connection
            assert port.ends == []
            assert port.listener.link_count == 0
            writer.close()

    run(scenario())


def test_an_empty_secret_is_refused_among_others_too() -> None:
    with pytest.raises(Exception, match="the secret that peers share is empty"):
        Credentials(OLD, (b"",))


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body
