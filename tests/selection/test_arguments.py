"""Selectors reject arguments that are out of range; the message names the argument, the value and what is accepted."""

import pytest

from interreplay.selection import (
    ActorPrioritized,
    Attentive,
    Combined,
    Elite,
    EmphasizedRecent,
    EventTables,
    Faded,
    LargeBatch,
    MixedSelection,
    Prioritized,
    TruncatedGeometric,
    Uniform,
)
from replay_buffers import LA3P, LAP, ReLo
from replay_buffers import Uniform as Method

INVALID = [
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
    (EmphasizedRecent, {"c_min": 99.5}, "c_min is 99.5; expected an integer"),
    (TruncatedGeometric, {"mean_age": 0.6}, "mean_age is 0.6; expected a number above 0 and at most 0.5"),
    (EventTables, {"events": ["reward"]}, "the event is 'reward'; expected 'reward > 0'"),
    (EventTables, {"events": ["reward > 1.2.3"]}, "the event is 'reward > 1.2.3'"),
    (EventTables, {"events": []}, "events are []; expected at least one event"),
    (EventTables, {"history": -1}, "history is -1"),
    (EventTables, {"history": 2.5}, "history is 2.5; expected an integer"),
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
    (Combined, {"inner": ActorPrioritized()}, "the inner selector is ActorPrioritized; expected one that knows"),
    (Combined, {"inner": MixedSelection({"a": Uniform()})}, "the inner selector is MixedSelection, which composes"),
    (
        MixedSelection,
        {"selectors": {"a": Uniform(), "b": MixedSelection({"c": Uniform()})}},
        "selector 'b' is a MixedSelection; expected its selectors themselves",
    ),
    (MixedSelection, {"selectors": {}}, "selectors are {}; expected at least one"),
    (MixedSelection, {"selectors": {"a": Uniform()}, "shares": {"b": 0.5}}, "there is no source 'b'"),
]


def test_invalid_arguments_are_rejected():
    wrong = []
    for kind, arguments, message in INVALID:
        try:
            kind(**arguments)
            wrong.append((kind.__name__, arguments, "accepted"))
        except ValueError as error:
            if not str(error).startswith(message):
                wrong.append((kind.__name__, arguments, str(error)))
    assert not wrong


def test_selectors_without_priorities_raise_an_error():
    for selector in (Uniform(), Combined(), Elite()):
        assert not selector.supports_priorities
        with pytest.raises(NotImplementedError, match=f"{type(selector).__name__} has no priorities"):
            selector.priorities(None)
