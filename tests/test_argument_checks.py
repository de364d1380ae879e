"""Numbers given to replay methods: each is checked where the method is made, and the message names the argument."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

from interreplay.argument_checks import check_number
from interreplay.experience.recipes import methods_and_models

METHODS = methods_and_models()
RENAMED = {"model_batch_size": "batch_size", "model_learning_rate": "learning_rate"}
NO_NUMBERS = {"seed", "queue_rings", "real_share"}  # queue_rings is read with queue alone, real_share is a schedule


def numbers_of(method):
    for parameter in inspect.signature(METHODS[method]).parameters.values():
        default = parameter.default
        is_number = isinstance(default, int | float) and not isinstance(default, bool)
        if (is_number or parameter.name == "capacity") and parameter.name not in NO_NUMBERS:
            yield parameter.name


@pytest.mark.parametrize("method", METHODS)
def test_arguments_that_are_not_finite_numbers_are_rejected_by_name(method):
    for name in numbers_of(method):
        for value in (math.nan, "x", "1e6"):
            required = {"events": ["terminated"]} if method == "EventTables" else {}
            with pytest.raises(ValueError, match=rf"^{RENAMED.get(name, name)} is {value!r}; expected") as caught:
                METHODS[method](**required, **{"capacity": 100, name: value})
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "bounds", "accepted"),
    [
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
    ],
)
def test_bounds(value, bounds, accepted):
    if accepted is None:
        check_number("k", value, **bounds)
    else:
        with pytest.raises(ValueError) as caught:
            check_number("k", value, **bounds)
        assert str(caught.value) == f"k is {value!r}; expected {accepted}"
