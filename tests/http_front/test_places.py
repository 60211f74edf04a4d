"""Who has a place, and who gives way, beside a model in lists."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.http.places import Places

MOST = 4
CLIENTS = st.integers(0, 6)


class Client:
    """A connection that knows whether it was ended."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.has_given_way = False

    def give_way(self) -> None:
        self.has_given_way = True


class Slow:
    """The same in lists: numbers, and what they have shown."""

    def __init__(self) -> None:
        self.there: list[tuple[int, str]] = []
        """The longest there first; those that show another token count from then."""

    def take(self, number: int) -> tuple[bool, int | None]:
        ended = None
        if len(self.there) == MOST:
            of = [token for _, token in self.there]
            wanted = (
                "" if "" in of else next((one for one in of if of.count(one) > MOST * 3 // 4), None)
            )
            if wanted is None:
                return False, None
            ended = self.there.pop(of.index(wanted))[0]
        self.there.append((number, ""))
        return True, ended

    def shows(self, number: int, token: str) -> None:
        for one in self.there:
            if one[0] == number and one[1] != token:
                self.there.remove(one)
                self.there.append((number, token))
                return

    def leave(self, number: int) -> None:
        self.there = [one for one in self.there if one[0] != number]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("take"), CLIENTS, st.just("")),
            st.tuples(st.just("shows"), CLIENTS, st.sampled_from(["a", "a", "a", "b"])),
            st.tuples(st.just("leave"), CLIENTS, st.just("")),
        ),
        min_size=20,
        max_size=80,
    )
)
def test_the_longest_there_of_strangers_or_of_a_greedy_token_gives_way(
    steps: list[tuple[str, int, str]],
) -> None:
    places, slow = Places(MOST), Slow()
    clients: dict[int, Client] = {}
    for step, number, token in steps:
        if step == "take" and number not in clients:
            client = Client(number)
            is_in, ended = slow.take(number)
            assert places.take(client) is is_in
            if ended is not None:
                assert clients.pop(ended).has_given_way
            if is_in:
                clients[number] = client
        elif step == "shows" and number in clients:
            slow.shows(number, token)
            places.shows(clients[number], token)
        elif step == "leave" and number in clients:
            slow.leave(number)
            places.leave(clients.pop(number))
        assert len(places) == len(slow.there) == len(clients)
        assert not any(one.has_given_way for one in clients.values())


def test_where_all_are_known_and_no_token_has_more_than_its_part_nobody_gives_way() -> None:
    places, there = Places(MOST), [Client(number) for number in range(MOST)]
    for number, one in enumerate(there):
        assert places.take(one)
        places.shows(one, "ab"[number % 2])
    assert not places.take(Client(MOST))
    assert len(places) == MOST
    assert not any(one.has_given_way for one in there)


def test_the_longest_there_of_a_token_with_more_than_its_part_gives_way() -> None:
    places, there = Places(MOST), [Client(number) for number in range(MOST)]
    for one in there:
        assert places.take(one)
        places.shows(one, "a")
    assert places.take(Client(MOST))
    assert [one.has_given_way for one in there] == [True, False, False, False]


def test_who_has_given_way_takes_no_place_by_showing_a_token() -> None:
    places, gone = Places(MOST), Client(0)
    places.take(gone)
    for number in range(MOST):
        assert places.take(Client(1 + number))
    assert gone.has_given_way
    places.shows(gone, "a")
    assert len(places) == MOST
