"""A mix of sources in RLlib: arguments, diagnostics by source, checkpoints, rejected settings."""

import pytest

from interreplay import Mix
from interreplay.rllib import SACConfig
from replay_buffers import NMER
from tests.rllib.small_runs import config, continued, same, weights


def mixed(mix=None):
    if mix is None:
        mix = Mix({"near": {"type": "NMER", "k": 3}, "hard": "PER"}, {"hard": (0.5, 0.1)})
    made = config()
    made.replay(mix, capacity=1_000)
    return made.training(anneal_steps=200)


@pytest.mark.slow
def test_learning_from_a_mix_and_resuming_it(tmp_path):
    straight, resumed = continued(lambda: mixed().build_algo(), tmp_path / "c")
    results = [algorithm.train() for algorithm in (straight, resumed)]
    assert same(weights(straight), weights(resumed))
    assert type(straight).from_checkpoint(tmp_path / "c").config.replay_buffer_config["shares"] == {"hard": (0.5, 0.1)}
    statistics = results[-1]["replay_buffer"]
    assert (
        statistics["near/neighbor_distance"] > 0
        and statistics["hard/weight_ess"] > 0
        and "neighbor_distance" not in statistics
    )
    assert straight.replay_buffer.shares.current == pytest.approx({"near": 0.9, "hard": 0.1})
    assert statistics["hard/replays_per_row"] < statistics["near/replays_per_row"]


def test_arguments_of_mixes_and_rejections():
    by_name = SACConfig().replay("Mix", sources={"near": "NMER"}, shares={"near": 1.0}).replay_buffer_config
    assert by_name == {"type": "Mix", "sources": {"near": "NMER"}, "shares": {"near": 1.0}}
    with pytest.raises(ValueError, match="Mix takes no argument 'share'"):
        SACConfig().replay("Mix", sources={"near": "NMER"}, share={"near": 1.0})
    with pytest.raises(ValueError, match="cannot be blended; expected floats among"):
        mixed(Mix({"near": "LCER"})).environment("FrozenLake-v1").build_algo()


def test_a_mix_object_is_used_with_its_sources():
    buffer = NMER(capacity=500, k=2, seed=0)
    algorithm = mixed(Mix({"only": buffer})).build_algo()
    algorithm.train()
    assert algorithm.replay_buffer.capacity == 500
