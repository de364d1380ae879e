"""Configurations and the Algorithms that they build."""

import pytest

from interreplay import rllib
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.rllib import SAC, SACConfig


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_configuration_builds_its_algorithm(name):
    made, kind = getattr(rllib, ALGORITHMS[name].config)(), getattr(rllib, name)
    assert made.algo_class is kind and type(kind.get_default_config()) is type(made)


def test_user_subclasses_are_built_only_if_requested():
    class MyConfig(SACConfig):
        pass

    class Mine(SAC):
        config_class = MyConfig

    class Similar(SAC):
        pass

    class AlsoSAC(SAC):
        config_class = SACConfig

    assert MyConfig().algo_class is Mine and SACConfig().algo_class is SAC
    assert SACConfig(algo_class=Similar).algo_class is Similar and SACConfig(AlsoSAC).algo_class is AlsoSAC


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_setting_of_an_algorithm_rejects_values_of_other_types_by_its_name(name):
    config = getattr(rllib, ALGORITHMS[name].config)
    for setting in config.own_settings():
        made = config().environment("CartPole-v1").training(**{setting: ...})
        shown = setting.removeprefix("num_steps_sampled_before_").removeprefix("exploration_")  # the names in messages
        with pytest.raises(ValueError, match=f"{shown} is Ellipsis; expected "):
            made.validate()
