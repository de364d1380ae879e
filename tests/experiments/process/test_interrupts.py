"""Signals stop or save a run."""

import os
import signal

import pytest

from interreplay.experiments.process.signals import Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_requests_a_stop(number, capfd):
    before, calls = signal.getsignal(number), []
    with Interrupts(lambda: calls.append(1)) as interrupts:
        os.kill(os.getpid(), number)
        assert (interrupts.received, calls) == (number, [1])
    assert signal.getsignal(number) is before
    assert "Ctrl-C again" in capfd.readouterr().err


def test_a_second_ctrl_c_ends_at_once():
    with pytest.raises(KeyboardInterrupt), Interrupts(lambda: None):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)


def test_a_second_sigterm_changes_nothing(capfd):
    with Interrupts(lambda: None) as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.received == signal.SIGINT
    assert capfd.readouterr().err.count("Ctrl-C") == 1
