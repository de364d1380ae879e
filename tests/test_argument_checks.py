"""Replay methods and their parts check their arguments at construction, and the message names the argument."""

import inspect
import math
from functools import partial

import numpy as np
import pytest

from interreplay import ModelBased, ReplayBuffer, Storage
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


OUT_OF_RANGE = [
    (Storage, {"capacity": 0}),
    (Storage, {"capacity": 2**31}),
    (partial(Storage, 10), {"gamma": 1.1}),
    (partial(ReplayBuffer, 10), {"n_step": 0, "seed": -1, "selector": "Prioritized"}),
    (partial(ReplayBuffer, 10), {"n_step": (0, 3), "seed": "a"}),
    (partial(ReplayBuffer, 10), {"n_step": (4, 2)}),
    (partial(ReplayBuffer, 10), {"n_step": (1, 2.5)}),
    (HER, {"k": -1, "compute_reward": 0.5}),
    (partial(HER, neighborhood=KNN()), {"blend": "Mixup"}),
    (DeviceNMER, {"n_step": 3, "k": 0, "alpha": 0.0}),
    (DeviceNMER, {"n_step": (1, 3)}),
    (KNN, {"k": 0, "draw": 0}),
    (partial(KNN, k=3), {"draw": 4}),
    (KNN, {"draw": "all"}),
    (ClusterCenter, {"n_clusters": 0, "refresh_every": 2.5, "noise": -1}),
    (LCER, {"variant": "mean"}),
    (HindsightGoals, {"strategy": "past"}),
    (Prioritized, {"alpha": -0.1, "beta": 1.5, "eps": 0.0}),
    (LAP, {"alpha": -1.0}),
    (LA3P, {"alpha": 2.0, "uniform_share": 1.5}),
    (ReLo, {"beta": 3.0}),
    (LargeBatch, {"multiplier": 0.5}),
    (Attentive, {"multiplier": 0.5, "distance": "kl"}),
    (Elite, {"strategy": 5, "distance": "euclid", "alpha": 0, "norm": 0}),
    (EmphasizedRecent, {"eta": 0.0, "final_eta": 2.0, "c_min": 0}),
    (TruncatedGeometric, {"mean_age": 0.6}),
    (EventTables, {"history": -1, "default_share": 1.2}),
    (SampleWeightDecay, {"horizon": 0, "floor": 0}),
    (Faded, {"rate": 1.5, "floor": 2}),
    (NMER, {"prob_interpolation": 1.1, "interp_decay": -1.0}),
    (Beta, {"alpha": 0}),
    (AdaptiveMixup, {"threshold": 0.0, "lr": -1.0}),
    (Noise, {"sigma": -0.1, "action_low": 2.0}),
    (S4RL, {"augmentation": "blur", "views": 0, "strength": 0.0}),
    (partial(S4RL, augmentation="dropout"), {"strength": 0.7}),
    (Form, {"kernel": "rfb", "mean": "none", "nu": 2.0}),
    (Fit, {"epochs": 0, "method": "sgd"}),
    (ModelBased, {"patience": 0, "holdout": 1.0, "dropout": 1.0, "elites": 8, "model_batch_size": 0}),
    (ModelBased, {"fit_every": 0, "fit_rows": 1, "keep_fits": 0, "rollouts": 0, "action_noise": -1.0}),
    (ModelBased, {"model_learning_rate": 0.0, "model_hiddens": 200, "recorded": "results", "termination_fn": 0.2}),
]
"""Arguments of which each alone is out of range."""
REJECTED = [
    (ReplayBuffer, {"capacity": 10, "selector": Method()}, "selector is Uniform("),
    (ReplayBuffer, {"capacity": 10, "neighborhood": Uniform()}, "object of a class derived from Neighborhood"),
    (ReplayBuffer, {"capacity": 10, "synthesizer": Uniform}, "expected an object of a class derived from Synthesizer"),
    (ReplayBuffer, {"capacity": 10, "synthesizer": Mixup()}, "neighborhood is None and Mixup blends each row"),
    (HER, {"neighborhood": Method()}, "the neighborhood is Uniform("),
    (HER, {"neighborhood": KNN(), "blend": Mixup(termination_fn="never")}, "the blend has a termination_fn"),
    (HER, {"blend": Mixup()}, "without a neighborhood"),
    (HER, {"n_step": 3}, "n_step is 3"),
    (EventTables, {"events": ["reward"]}, "the event is 'reward'; expected 'reward > 0'"),
    (EventTables, {"events": ["reward > 1.2.3"]}, "the event is 'reward > 1.2.3'"),
    (EventTables, {"events": []}, "events are []; expected at least one event"),
    (EventTables, {"shares": [0.5]}, "shares are [0.5]; expected one share >= 0 for each of 2 events"),
    (EventTables, {"shares": [0.8, 0.4]}, "shares are [0.8, 0.4]; expected one share >= 0 for each of 2 events"),
    (EventTables, {"shares": [-0.1, 0.4]}, "shares: a share is -0.1; expected a number from 0 to 1"),
    (Combined, {"inner": Method()}, "the inner selector is Uniform("),
    (MixedSelection, {"selectors": {"a": Method()}}, "selector 'a' is Uniform("),
    (Faded, {"selector": Method()}, "selector is Uniform("),
    (Combined, {"inner": Elite()}, "the inner selector is Elite; expected one that knows_probabilities"),
    (Combined, {"inner": MixedSelection({"a": Uniform()})}, "the inner selector is MixedSelection, which composes"),
    (MixedSelection, {"selectors": {"b": MixedSelection({"c": Uniform()})}}, "selector 'b' is a MixedSelection"),
    (MixedSelection, {"selectors": {"a": Uniform()}, "shares": {"b": 0.5}}, "there is no source 'b'"),
    (Faded, {"selector": LargeBatch()}, "selector is LargeBatch, which composes whole batches"),
    (NMER, {"n_step": 3, "termination_fn": "never"}, "n_step is 3"),
    (Schedule, {"kind": "globl"}, "'globl'; expected one of monte_carlo"),
    (Schedule, {"kind": "rows", "size": 1}, "train_size is 1"),
    (Schedule, {"kind": "monte_carlo", "size": 0}, "train_size is 0"),
    (Schedule, {"every": 0}, "retrain_interval is 0"),
    (HoldOut, {"split": 0.0}, "holdout_split is 0.0"),
]


def test_invalid_arguments_are_rejected():
    cases = REJECTED.copy()
    for kind, arguments in OUT_OF_RANGE:
        cases += [(kind, {name: value}, f"{name} is {value!r}; expected") for name, value in arguments.items()]
    wrong = []
    for kind, arguments, message in cases:
        try:
            kind(**arguments)
            wrong.append((kind, arguments, "accepted"))
        except ValueError as error:
            if message not in str(error):
                wrong.append((kind, arguments, str(error)))
    assert not wrong


def test_selectors_without_priorities_raise_an_error():
    for selector in (Uniform(), Combined(), Elite()):
        assert not selector.supports_priorities
        with pytest.raises(NotImplementedError, match=f"{type(selector).__name__} has no priorities"):
            selector.priorities(None)
