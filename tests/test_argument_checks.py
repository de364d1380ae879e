"""Replay methods check their numbers at construction, and the message names the argument."""

import inspect
import math

import numpy as np
import pytest

from interreplay.errors import check_number
from interreplay.experiments.flags.replay_flags import CATALOGUE as METHODS

NO_NUMBERS = {"seed", "real_share"}  # real_share is a schedule


def numbers_of(method):
    for parameter in inspect.signature(METHODS[method]).parameters.values():
        default = parameter.default
        is_number = isinstance(default, int | float) and not isinstance(default, bool)
        if (is_number or parameter.name == "capacity") and parameter.name not in NO_NUMBERS:
            yield parameter.name


def test_arguments_that_are_not_finite_numbers_are_rejected():
    wrong = []
    for method, recipe in METHODS.items():
        required = {"events": ["terminated"]} if method == "EventTables" else {}
        for name in numbers_of(method):
            for value in (math.nan, "x", "1e6"):
                try:
                    recipe(**required, **{"capacity": 100, name: value})
                    wrong.append((method, name, value, "accepted"))
                except ValueError as error:
                    message = str(error)
                    expected = f"{name} is {value!r}; expected"
                    if not message.startswith(expected) or "\n" in message:
                        wrong.append((method, name, value, message))
    assert not wrong


def test_bounds():
    for value, bounds, accepted in (
        (0, {"low": 0}, None),
        (0, {"low": 0, "above_low": True}, "a number above 0"),
        (np.float32(2), {"low": 0, "high": 1}, "a number from 0 to 1"),
        (1, {"low": 0, "high": 1, "below_high": True}, "a number from 0 and below 1"),
        (1.0, {"low": 0, "high": 1, "above_low": True}, None),
        (2, {"low": 0, "high": 1, "above_low": True}, "a number above 0 and at most 1"),
        (np.int64(3), {"low": 1, "whole": True}, None),
        (3.0, {"low": 1, "whole": True}, "an integer of 1 or more"),
        (True, {"low": 1, "whole": True}, "an integer of 1 or more"),
        (-math.inf, {}, "a number"),
    ):
        if accepted is None:
            check_number("k", value, **bounds)
        else:
            with pytest.raises(ValueError) as caught:
                check_number("k", value, **bounds)
            assert str(caught.value) == f"k is {value!r}; expected {accepted}"
