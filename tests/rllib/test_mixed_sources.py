"""A mix of sources in RLlib: arguments and rejected settings; test_offline_runs trains and resumes one."""

import pytest

from interreplay import Mix
from interreplay.rllib import SACConfig
from replay_buffers import NMER
from tests.rllib.small_runs import config


def test_arguments_of_mixes_and_rejections():
    by_name = SACConfig().replay("Mix", sources={"near": "NMER"}, shares={"near": 1.0}).replay_buffer_config
    assert by_name == {"type": "Mix", "sources": {"near": "NMER"}, "shares": {"near": 1.0}}
    with pytest.raises(ValueError, match="Mix takes no argument 'share'"):
        SACConfig().replay("Mix", sources={"near": "NMER"}, share={"near": 1.0})
    with pytest.raises(ValueError, match="cannot be blended; expected floats among"):
        config("FrozenLake-v1").replay(Mix({"near": "LCER"}), capacity=1_000).build_algo()


def test_a_mix_object_is_used_with_its_sources():
    buffer = NMER(capacity=500, k=2, seed=0)
    algorithm = config().replay(Mix({"only": buffer}), capacity=1_000).build_algo()
    algorithm.train()
    assert algorithm.replay_buffer.capacity == 500
