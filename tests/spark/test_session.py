"""Ctrl-C while Spark starts is kept until there is a session to stop."""

import os
import signal
import threading

import pytest

from penstock.spark.session import interrupt_held


def test_an_interrupt_is_held_until_it_is_asked_for():
    with interrupt_held() as held:
        os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        held.check()


def test_without_an_interrupt_nothing_is_raised_and_the_handler_is_as_before():
    before = signal.getsignal(signal.SIGINT)
    with interrupt_held() as held:
        assert signal.getsignal(signal.SIGINT) != before
    held.check()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_thread_beside_the_main_one_leaves_signals_alone():
    found = []

    def hold():
        with interrupt_held():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGINT)]
