"""Who waits for the end of a transaction is told once, and no more wait than may."""

from penstock.transactions.ends import WAITING_MAX, Ends


def test_all_who_wait_for_an_id_are_told_once() -> None:
    ends, told = Ends(), list[str]()
    assert ends.wait("x", lambda: told.append("a"))
    assert ends.wait("x", lambda: told.append("b"))
    assert ends.wait("y", lambda: told.append("c"))
    ends.tell("x")
    ends.tell("x")
    assert sorted(told) == ["a", "b"]
    assert len(ends) == 1


def test_who_gives_up_is_not_told() -> None:
    ends, told = Ends(), list[str]()

    def tell() -> None:
        told.append("a")

    assert ends.wait("x", tell)
    ends.give_up("x", tell)
    ends.give_up("x", tell)
    ends.tell("x")
    assert not told
    assert not len(ends)


def test_no_more_wait_together_than_can_be_told_in_a_turn() -> None:
    ends = Ends()
    waiting = [lambda at=at: None for at in range(WAITING_MAX)]
    assert all(ends.wait("x", one) for one in waiting)
    assert not ends.wait("y", lambda: None)
    ends.give_up("x", waiting[0])
    assert ends.wait("y", lambda: None)
    ends.tell("x")
    assert len(ends) == 1
