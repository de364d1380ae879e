"""The text of --replay_parameters in the original schema and in our settings; each mistake is one line."""

import json

import pytest

from interreplay.errors import UsageError
from interreplay.selection import Attentive, Elite, Prioritized, Uniform
from interreplay.unrolls.mix_settings import STANDARD, TYPES, SourceSettings, make_mix
from interreplay.unrolls.schema import read
from interreplay.unrolls.storage import insertion

QUEUE = {"type": "queue", "capacity": 1, "sample_ratio": 0.5}
PLAIN = {"type": "standard", "capacity": 1000, "sample_ratio": 0.5}
CUSTOM = {"type": "custom", "capacity": 10000, "sample_ratio": 0.5, "dist_function": "ln_norm"}
FULL = CUSTOM | {
    "insert_strategy": "elite_insertion",
    "sample_strategy": "elite_sampling",
    "lambda_batch_multiplier": 6,
    "alfa_annealing_factor": 2.0,
    "elite_sampling_strategy": "strategy4",
    "elite_batch_size": 7,
    "p": 3,
}


OURS = {"type": "queue", "share": 0.5}


def error_of(entries: object) -> str:
    with pytest.raises(UsageError) as caught:
        read(entries if isinstance(entries, str) else json.dumps(entries), batch_size=10)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_default_of_the_original_is_ours():
    assert read(json.dumps([QUEUE, PLAIN]), 100) == [dict(entry) for entry in STANDARD]
    assert read(str([QUEUE, PLAIN]), 100) == read(json.dumps(list(STANDARD))) == read(list(STANDARD)) == list(STANDARD)


def test_every_key_of_the_original_is_used():
    mix = make_mix(read(json.dumps([QUEUE, FULL]), 10))
    replay = mix.sources["elite"]
    assert isinstance(replay.selector, Elite) and isinstance(replay.store.insertion, insertion.Elite)
    assert (replay.store.capacity, replay.store.insertion.candidates) == (10_000, 7)
    assert (replay.selector.multiplier, replay.selector.alpha, replay.selector.strategy) == (6, 2, 4)
    assert (replay.distance.kind, replay.distance.norm, replay.refresh) == ("ln", 3, 4)
    assert mix.shares.current == {"queue": 0.5, "elite": 0.5} and mix.queue.capacity == 1


@pytest.mark.parametrize(
    ("keys", "selector", "kept", "distance"),
    [
        ({}, Uniform, insertion.Fifo, None),
        ({"insert_strategy": "elite_insertion"}, Uniform, insertion.Elite, "kl"),
        ({"sample_strategy": "elite_sampling"}, Elite, insertion.Fifo, "kl"),
        ({"sample_strategy": "attentive_sampling"}, Attentive, insertion.Fifo, None),
    ],
)
def test_defaults_of_the_original(keys, selector, kept, distance):
    replay = list(make_mix(read([QUEUE, CUSTOM | {"dist_function": "kl_div"} | keys])).sources.values())[1]
    assert type(replay.selector) is selector and type(replay.store.insertion) is kept
    assert (replay.distance and replay.distance.kind) == distance
    if selector in (Elite, Attentive):
        assert (replay.selector.multiplier, replay.selector.alpha) == (1, 1)
    if selector is Elite:
        assert replay.selector.strategy == 3
    if selector is Attentive:
        assert replay.selector.distance_fn.distance.kind == "kl"
    if kept is insertion.Elite:
        assert replay.store.insertion.candidates == 20


def test_cosine_and_gaussian_distances():
    entries = read([QUEUE, CUSTOM | {"dist_function": "cos_dist", "sample_strategy": "elite_sampling"}])
    assert make_mix(entries).sources["elite"].distance.kind == "cosine"
    ours = [{"type": "queue", "share": 0.5}, {"type": "attentive", "share": 0.5}]
    assert make_mix(ours, gaussian=True).sources["attentive"].selector.distance_fn.distance.gaussian


def test_our_settings():
    prioritized = {"type": "prioritized", "capacity": 50, "share": 0.3, "alpha": 0.7, "beta": 0.5, "fill_in": 0.1}
    reservoir = {"type": "uniform", "capacity": 60, "share": 0.3, "insertion": "reservoir"}
    mix = make_mix(read([{"type": "queue", "share": 0.4, "capacity": 8}, prioritized, reservoir], batch_size=8))
    one, other = mix.sources["prioritized"], mix.sources["uniform"]
    assert isinstance(one.selector, Prioritized) and (one.selector.alpha, one.selector.beta) == (0.7, 0.5)
    assert one.fill_in == 0.1 and isinstance(other.store.insertion, insertion.Reservoir) and mix.queue.capacity == 8
    kinds = ("elite", "attentive")
    elite, attentive = (make_mix([OURS, {"type": kind, "share": 0.5}]).sources[kind] for kind in kinds)
    assert (elite.selector.multiplier, elite.selector.alpha, elite.store.capacity) == (6, 2, 1_000)
    assert (attentive.selector.multiplier, attentive.selector.alpha) == (3, 1)
    assert {name for names in TYPES.values() for name in names} | {"candidates"} == set(SourceSettings.__annotations__)


MISTAKES = [
    ("[{'type': 'queue', ", "replay_parameters is not JSON and not a Python literal: \"[{'type': 'queue',\"; expected"),
    ("", "replay_parameters is not JSON and not a Python literal: ''"),
    ("[" * 100_000, "replay_parameters is not JSON and not a Python literal"),
    ("{}", "replay_parameters is '{}'; expected a list of sources such as"),
    ([], "replay_parameters is '[]'; expected a list of sources such as"),
    ([QUEUE, 3], "source 2 of replay_parameters is '3'; expected a mapping such as"),
    ([QUEUE, PLAIN | {"type": "standart"}], "source 2 of replay_parameters has the type 'standart'; did you mean"),
    ([QUEUE, PLAIN | {"type": ["x"]}], "source 2 of replay_parameters has the type ['x']"),
    ([QUEUE, PLAIN | {"capasity": 3}], "standard, has no key 'capasity'; did you mean capacity?"),
    ([QUEUE, PLAIN | {"p": 2}], "source 2 of replay_parameters, standard, has no key 'p'; accepted: capacity"),
    ([QUEUE, PLAIN | {"capacity": 0}], "capacity of source 2 of replay_parameters, standard, must be a whole number"),
    ([QUEUE, PLAIN | {"capacity": 1.5}], "must be a whole number of at least 1, got 1.5"),
    ([QUEUE, PLAIN | {"sample_ratio": 0.4}], "the shares are {'queue': 0.5, 'uniform': 0.4}; expected them to add up"),
    ([QUEUE, PLAIN | {"sample_ratio": -0.5}], "sample_ratio of source 2 of replay_parameters, standard, must be"),
    ([QUEUE, PLAIN | {"sample_ratio": True}], "must be a number of at least 0, at most 1, got True"),
    ([QUEUE | {"sample_ratio": 0.25}, PLAIN | {"sample_ratio": 0.75}], "source 1, queue, is 2.5 of 10 unrolls; expect"),
    ([QUEUE | {"sample_ratio": 0}, PLAIN | {"sample_ratio": 1}], "the share of queue is 0; expected above 0"),
    ([PLAIN | {"sample_ratio": 1}], "a mix of uniform has no fresh unrolls; expected a queue"),
    ([QUEUE, QUEUE], "a mix has 2 queues"),
    ([{"type": "queue", "capacity": 1}, PLAIN], "source 1 of replay_parameters, queue, has no sample_ratio"),
    ([QUEUE, PLAIN | {"type": "custom"}], "custom, has no dist_function; expected one of"),
    ([QUEUE, CUSTOM | {"dist_function": "l2"}], "must be one of ln_norm, cos_dist, kl_div, got 'l2'"),
    ([QUEUE, FULL | {"elite_sampling_strategy": "strategy5"}], "must be one of strategy1, strategy2"),
    ([QUEUE, FULL | {"lambda_batch_multiplier": 0}], "lambda_batch_multiplier of source 2"),
    ([QUEUE, FULL | {"alfa_annealing_factor": 0}], "must be a number above 0, got 0"),
    ([QUEUE, FULL | {"elite_batch_size": 0}], "elite_batch_size of source 2"),
    ([QUEUE, FULL | {"p": 0}], "p of source 2 of replay_parameters, custom, must be a whole number of at least 1"),
    ([OURS, {"type": "elit", "share": 0.5}], "has the type 'elit'; did you mean elite?"),
    ([OURS, 7], "source 2 of the mix is 7; expected a mapping such as"),
    ([OURS | {"norm": 2}], "source 1 of the mix, queue, has no setting 'norm'; accepted: share"),
    ([OURS, {"type": "uniform", "share": 0.5, "distance": "ln"}], "no setting 'distance'"),
    ([OURS, {"type": "elite", "share": 0.5, "strategy": 5}], "must be a whole number from 1 to 4, got 5"),
    ([OURS | {"share": "half"}], "share of source 1 of the mix, queue, must be a number of at least 0"),
    ([OURS, {"type": "uniform"}], "source 2 of the mix, uniform, has no share"),
    ([OURS | {"share": [1, 0]}, {"type": "uniform", "share": [0, 1]}], "the share of queue is [1, 0]; expected"),
]


def test_each_mistake_is_reported_in_one_line():
    found = [(entries, error_of(entries), message) for entries, message in MISTAKES]
    assert not [(entries, error) for entries, error, message in found if message not in error]


def test_a_capacity_beyond_memory_is_rejected():
    with pytest.raises(UsageError, match="uniform, is 100000000000000; expected one that fits in memory"):
        make_mix([OURS, {"type": "uniform", "share": 0.5, "capacity": 10**14}])


def test_settings_that_are_not_a_list_are_rejected():
    for entries in ("queue", {"type": "queue", "share": 1}, 5):
        with pytest.raises(UsageError, match="a mix of unrolls is .*; expected a list of sources such as"):
            make_mix(entries)
