"""Replay methods and their parts check their arguments at construction, and the message names the argument."""

import inspect
import math

import numpy as np
import pytest

from interreplay import ReplayBuffer, Storage
from interreplay.buffer.device_nmer import DeviceNMER
from interreplay.errors import check_number
from interreplay.experiments.flags.replay_flags import CATALOGUE as METHODS
from interreplay.neighborhood import KNN, ClusterCenter, HindsightGoals
from interreplay.selection import (
    Attentive,
    Combined,
    Elite,
    EmphasizedRecent,
    EventTables,
    Faded,
    LargeBatch,
    MixedSelection,
    Prioritized,
    SampleWeightDecay,
    TruncatedGeometric,
    Uniform,
)
from interreplay.synthesis import AdaptiveMixup, Mixup
from interreplay.synthesis.coefficient import Beta
from interreplay.synthesis.gaussian_process import Fit, Form, HoldOut, Schedule
from replay_buffers import HER, LA3P, LAP, LCER, NMER, S4RL, Noise, ReLo
from replay_buffers import Uniform as Method

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


N_STEP = "expected an integer of 1 or more, or two, the smaller one first"
INVALID = [
    (Storage, {"capacity": 0}, "capacity is 0"),
    (Storage, {"capacity": 2**31}, "capacity is 2147483648"),
    (Storage, {"capacity": 10, "gamma": 1.1}, "gamma is 1.1"),
    (ReplayBuffer, {"capacity": 10, "n_step": 0}, "n_step is 0"),
    (ReplayBuffer, {"capacity": 10, "n_step": (0, 3)}, N_STEP),
    (ReplayBuffer, {"capacity": 10, "n_step": (4, 2)}, N_STEP),
    (ReplayBuffer, {"capacity": 10, "n_step": (1, 2.5)}, N_STEP),
    (ReplayBuffer, {"capacity": 10, "seed": -1}, "seed is -1; expected an integer of 0 or more, or None"),
    (ReplayBuffer, {"capacity": 10, "seed": "a"}, "seed is 'a'; expected an integer of 0 or more, or None"),
    (ReplayBuffer, {"capacity": 10, "selector": Method()}, "selector is Uniform("),
    (
        ReplayBuffer,
        {"capacity": 10, "selector": "Prioritized"},
        "selector is 'Prioritized'; expected an object of a class derived from Selector",
    ),
    (
        ReplayBuffer,
        {"capacity": 10, "neighborhood": Uniform()},
        "expected an object of a class derived from Neighborhood",
    ),
    (ReplayBuffer, {"capacity": 10, "synthesizer": Uniform}, "expected an object of a class derived from Synthesizer"),
    (ReplayBuffer, {"capacity": 10, "synthesizer": Mixup()}, "neighborhood is None and Mixup blends each row"),
    (HER, {"neighborhood": Method()}, "the neighborhood is Uniform("),
    (HER, {"neighborhood": KNN(), "blend": "Mixup"}, "blend is 'Mixup'; expected an object of a class derived from"),
    (HER, {"neighborhood": KNN(), "blend": Mixup(termination_fn="never")}, "the blend has a termination_fn"),
    (HER, {"blend": Mixup()}, "without a neighborhood"),
    (HER, {"k": -1}, "k is -1"),
    (HER, {"compute_reward": 0.5}, "compute_reward is 0.5; expected a function such as env.unwrapped.compute_reward"),
    (HER, {"n_step": 3}, "n_step is 3"),
    (DeviceNMER, {"n_step": 3}, "n_step is 3; expected 1, or NMER instead of DeviceNMER"),
    (DeviceNMER, {"n_step": (1, 3)}, "n_step is (1, 3); expected 1"),
    (DeviceNMER, {"k": 0}, "k is 0"),
    (DeviceNMER, {"alpha": 0.0}, "alpha is 0.0"),
    (KNN, {"k": 0}, "k is 0; expected"),
    (KNN, {"draw": 0}, "draw is 0; expected"),
    (KNN, {"k": 3, "draw": 4}, "draw is 4; expected"),
    (KNN, {"draw": "all"}, "draw is 'all'; expected"),
    (ClusterCenter, {"n_clusters": 0}, "n_clusters is 0"),
    (ClusterCenter, {"refresh_every": 2.5}, "refresh_every is 2.5"),
    (ClusterCenter, {"noise": -1}, "noise is -1"),
    (LCER, {"variant": "mean"}, "variant is 'mean'; expected one of 'center', 'member'"),
    (HindsightGoals, {"strategy": "past"}, "strategy is 'past'; expected one of 'future', 'final', 'episode'"),
    (Prioritized, {"alpha": -0.1}, "alpha is -0.1; expected a number of 0 or more"),
    (Prioritized, {"beta": 1.5}, "beta is 1.5; expected a number from 0 to 1"),
    (Prioritized, {"eps": 0.0}, "eps is 0.0; expected a number above 0"),
    (LAP, {"alpha": -1.0}, "alpha is -1.0; expected a number of 0 or more"),
    (LA3P, {"alpha": 2.0}, "alpha is 2.0; expected a number from 0 to 1"),
    (LA3P, {"uniform_share": 1.5}, "uniform_share is 1.5; expected a number from 0 to 1"),
    (ReLo, {"beta": 3.0}, "beta is 3.0; expected a number from 0 to 1"),
    (LargeBatch, {"multiplier": 0.5}, "multiplier is 0.5; expected a number of 1 or more"),
    (Attentive, {"multiplier": 0.5}, "multiplier is 0.5; expected a number of 1 or more"),
    (Attentive, {"distance": "kl"}, "distance is 'kl'; expected one of cosine, ln"),
    (Elite, {"strategy": 5}, "strategy is 5; expected 1, 2, 3 or 4"),
    (Elite, {"distance": "euclid"}, "distance is 'euclid'; expected one of ln, cosine, kl"),
    (Elite, {"alpha": 0}, "alpha is 0; expected a number above 0"),
    (Elite, {"norm": 0}, "norm is 0; expected a number above 0"),
    (EmphasizedRecent, {"eta": 0.0}, "eta is 0.0; expected a number above 0 and at most 1"),
    (EmphasizedRecent, {"final_eta": 2.0}, "final_eta is 2.0"),
    (EmphasizedRecent, {"c_min": 0}, "c_min is 0; expected an integer of 1 or more"),
    (TruncatedGeometric, {"mean_age": 0.6}, "mean_age is 0.6; expected a number above 0 and at most 0.5"),
    (EventTables, {"events": ["reward"]}, "the event is 'reward'; expected 'reward > 0'"),
    (EventTables, {"events": ["reward > 1.2.3"]}, "the event is 'reward > 1.2.3'"),
    (EventTables, {"events": []}, "events are []; expected at least one event"),
    (EventTables, {"history": -1}, "history is -1"),
    (EventTables, {"shares": [0.5]}, "shares are [0.5]; expected one share >= 0 for each of 2 events"),
    (
        EventTables,
        {"shares": [0.8, 0.4]},
        "shares are [0.8, 0.4]; expected one share >= 0 for each of 2 events, at most",
    ),
    (EventTables, {"shares": [-0.1, 0.4]}, "shares: a share is -0.1; expected a number from 0 to 1"),
    (EventTables, {"default_share": 1.2}, "default_share is 1.2; expected a number from 0 to 1"),
    (Combined, {"inner": Method()}, "the inner selector is Uniform("),
    (MixedSelection, {"selectors": {"a": Method()}}, "selector 'a' is Uniform("),
    (Faded, {"selector": Method()}, "selector is Uniform("),
    (Combined, {"inner": Elite()}, "the inner selector is Elite; expected one that knows_probabilities"),
    (Combined, {"inner": MixedSelection({"a": Uniform()})}, "the inner selector is MixedSelection, which composes"),
    (
        MixedSelection,
        {"selectors": {"a": Uniform(), "b": MixedSelection({"c": Uniform()})}},
        "selector 'b' is a MixedSelection; expected its selectors themselves",
    ),
    (MixedSelection, {"selectors": {}}, "selectors are {}; expected at least one"),
    (MixedSelection, {"selectors": {"a": Uniform()}, "shares": {"b": 0.5}}, "there is no source 'b'"),
    (SampleWeightDecay, {"horizon": 0}, "horizon is 0; expected a number above 0"),
    (SampleWeightDecay, {"floor": 0}, "floor is 0; expected a number above 0 and at most 1"),
    (Faded, {"rate": 1.5}, "rate is 1.5; expected a number above 0 and at most 1"),
    (Faded, {"floor": 2}, "floor is 2; expected a number above 0 and at most 1"),
    (Faded, {"selector": LargeBatch()}, "selector is LargeBatch, which composes whole batches"),
    (NMER, {"prob_interpolation": 1.1}, "prob_interpolation is 1.1"),
    (NMER, {"interp_decay": -1.0}, "interp_decay is -1.0"),
    (NMER, {"n_step": 3, "termination_fn": "never"}, "n_step is 3"),
    (Beta, {"alpha": 0}, "alpha is 0"),
    (AdaptiveMixup, {"threshold": 0.0}, "threshold is 0.0"),
    (AdaptiveMixup, {"lr": -1.0}, "lr is -1.0"),
    (Noise, {"sigma": -0.1}, "sigma is -0.1; expected a number of 0 or more"),
    (Noise, {"action_low": 2.0}, "action_low is 2.0; expected less than action_high, 1.0"),
    (S4RL, {"augmentation": "blur"}, "augmentation is 'blur'; expected one of mixup, gaussian"),
    (S4RL, {"views": 0}, "views is 0; expected an integer of 1 or more"),
    (S4RL, {"strength": 0.0}, "strength is 0.0; expected a number above 0"),
    (S4RL, {"augmentation": "dropout", "strength": 0.7}, "strength is 0.7; expected None, because dropout has no"),
    (Form, {"kernel": "rfb"}, "is 'rfb'; expected one of"),
    (Form, {"mean": "none"}, "is 'none'; expected one of"),
    (Form, {"nu": 2.0}, "is 2.0; expected one of"),
    (Schedule, {"kind": "globl"}, "'globl'; expected one of monte_carlo"),
    (Schedule, {"kind": "rows", "size": 1}, "train_size is 1"),
    (Schedule, {"kind": "monte_carlo", "size": 0}, "train_size is 0"),
    (Schedule, {"every": 0}, "retrain_interval is 0"),
    (Fit, {"epochs": 0}, "epochs is 0"),
    (Fit, {"method": "sgd"}, "'sgd'"),
    (Fit, {"lr": 0}, "lr is 0"),
    (HoldOut, {"split": 0.0}, "holdout_split is 0.0"),
    (HoldOut, {"every": 0}, "every is 0"),
]


def test_invalid_arguments_are_rejected():
    wrong = []
    for kind, arguments, message in INVALID:
        try:
            kind(**arguments)
            wrong.append((kind.__name__, arguments, "accepted"))
        except ValueError as error:
            if message not in str(error):
                wrong.append((kind.__name__, arguments, str(error)))
    assert not wrong


def test_selectors_without_priorities_raise_an_error():
    for selector in (Uniform(), Combined(), Elite()):
        assert not selector.supports_priorities
        with pytest.raises(NotImplementedError, match=f"{type(selector).__name__} has no priorities"):
            selector.priorities(None)
