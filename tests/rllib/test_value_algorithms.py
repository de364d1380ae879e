"""DQN and its variants in RLlib: settings, training, rejections, and resumed runs."""

from dataclasses import fields

import numpy as np
import pytest
import torch

import interreplay.rllib as ours
from interreplay.experiments.evaluation import play
from interreplay.learning.networks.convolutions import ConvolutionBody
from interreplay.learning.value.implicit import Implicit
from interreplay.learning.value.value_heads import Categorical, Mean, Quantiles
from tests.rllib.small_runs import continued, trained, weights
from tests.rllib.spaces_envs import KINDS, Steps
from tests.rllib.test_checkpoints import assert_same_run

VARIANTS = ["DQN", "DDQN", "DuelingDQN", "NoisyDQN", "C51", "QRDQN", "IQN", "Rainbow"]


LATE = {"epsilon_steps": 10_000}
"""The default, which an exploration may replace."""
NARROW = {"matrix_dtype": "bfloat16"}
LINEAR = ["Linear"]
NOISY = ["NoisyLinear"]


def config(env="CartPole-v1", trainer="DQN", buffer=None, seed=0, env_config=None, **arguments):
    made = getattr(ours, f"{trainer}Config")().environment(env, env_config=env_config or {})
    recipe = dict(made.replay_buffer_config)
    kept = recipe.pop("type")
    made.replay(buffer or kept, **({"capacity": 2_000} | (arguments if buffer else recipe)))
    made.training(hiddens=(24, 16), train_batch_size=16, learning_starts=30, steps_per_iteration=60)
    return made.training(target_update_period=7, epsilon_steps=100).debugging(seed=seed)


def learned(algorithm, iterations=2):
    results = [algorithm.train() for _ in range(iterations)]
    found = results[-1]["learners"]["default_policy"]
    return all(np.isfinite(found[name]) for name in ("loss", "q_mean", "error_mean"))


NOISE = {"noisy", "initial_epsilon", "final_epsilon"}
DISTRIBUTION = {"distribution", "lr", "optimizer_eps"}
CHANGED = {"DQN": set(), "DDQN": {"double"}, "DuelingDQN": {"double", "dueling"}, "NoisyDQN": NOISE}
CHANGED |= {"C51": DISTRIBUTION, "QRDQN": DISTRIBUTION, "IQN": DISTRIBUTION}
CHANGED["Rainbow"] = {"double", "dueling", "n_step"} | NOISE | DISTRIBUTION


def test_each_is_dqn_with_other_defaults():
    plain = ours.DQNConfig()
    for trainer, expected in CHANGED.items():
        made = getattr(ours, f"{trainer}Config")()
        assert isinstance(made, ours.DQNConfig) and made.algo_class is getattr(ours, trainer)
        changed = {f.name for f in fields(made.settings_class) if getattr(made, f.name) != getattr(plain, f.name)}
        assert changed == expected, trainer
        assert made.replay_buffer_config["type"] == ("PER" if trainer == "Rainbow" else "Uniform")


@pytest.mark.slow
@pytest.mark.parametrize("trainer", VARIANTS)
def test_each_learns(trainer):
    algorithm = config(trainer=trainer).build_algo()
    before = weights(algorithm)
    assert learned(algorithm)
    after = weights(algorithm)
    assert any(not torch.equal(after[k], before[k]) for k in after if ".actor." in k)
    head = {"C51": Categorical, "Rainbow": Categorical, "QRDQN": Quantiles, "IQN": Implicit}.get(trainer, Mean)
    assert type(algorithm.learner.single_module.policy.head) is head
    assert algorithm.learner.updates == 91


def test_rainbow_without_its_parts_is_dqn_bit_for_bit():
    off = {name: getattr(ours.DQNConfig(), name) for name in CHANGED["Rainbow"]}
    rainbow = config(trainer="Rainbow").training(**off).replay("Uniform", capacity=2_000)
    assert_same_run(trained(rainbow, 2), trained(config(), 2))


@pytest.mark.parametrize(
    ("encoder", "width"),
    [("auto", 16 * 22 * 22), ("minatar", 16 * 22 * 22), ("flat", 24 * 24), ("shallow", 32 * 1 * 1)],
)
def test_encoders_by_name(encoder, width):
    module = config(Steps, env_config={"kind": "Image"}).training(encoder=encoder).build_algo().learner.single_module
    assert module.policy.layers.body.weights[0].shape[1] == width
    assert module.encode(torch.zeros(2, *KINDS["Image"][0].shape, dtype=torch.uint8)).shape == (2, width)


@pytest.mark.slow
def test_convolutions_in_bfloat16():
    made = config(Steps, env_config={"kind": "Image"}).training(conv_dtype="bfloat16", train_batch_size=16)
    algorithm = made.build_algo()
    bodies = [part for part in algorithm.learner.single_module.modules() if isinstance(part, ConvolutionBody)]
    assert len(bodies) == 2 and all(body.conv_dtype == torch.bfloat16 for body in bodies)
    assert learned(algorithm)


@pytest.mark.slow
def test_target_networks_share_the_statistics_of_images(tmp_path):
    made = lambda: config("interreplay/Catch-v0").training(normalize_observations=True).build_algo()
    trained, resumed = continued(made, tmp_path / "c")
    assert_same_run(trained, resumed)
    for algorithm in (trained, resumed):
        nets = algorithm.learner.single_module.nets
        mine, theirs = (dict(encoder.named_buffers()) for encoder in (nets.encoder, nets.target_encoder))
        factors = [name for name in mine if name.endswith("normalized.factor")]
        assert factors and all((mine[name] != 1).any() for name in factors)
        assert mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


RESUMED = [("Rainbow", {}), ("QRDQN", {"atoms": 8}), ("IQN", {"atoms": 8})]


@pytest.mark.parametrize(
    ("trainer", "settings"),
    [
        ("DQN", {"optimizer": "RMSprop", "tau": 0.5, "double": True}),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in RESUMED),
    ],
)
def test_resuming_equals_not_stopping(trainer, settings, tmp_path):
    """In the middle of a schedule of ε, of an episode, and of a period of 7 updates of the targets (31, 91 updates)."""
    made = lambda: config(trainer=trainer).training(anneal_steps=300, **settings).build_algo()
    straight, resumed = continued(made, tmp_path / "c", after=2)
    assert_same_run(straight, resumed)
    assert straight.learner.update_rule.since_copy == resumed.learner.update_rule.since_copy == 151 % 7
    assert straight.env_runner._state.exploration.epsilon == resumed.env_runner._state.exploration.epsilon


def test_a_checkpoint_is_loaded_without_trust_and_acts_without_noise(tmp_path):
    algorithm = config(trainer="Rainbow").training(optimizer="RMSprop", value_range=(-5, 50)).build_algo()
    algorithm.train()
    algorithm.save_to_path(tmp_path / "c")
    found = play.read_config(tmp_path / "c")
    assert type(found) is ours.RainbowConfig
    assert (found.optimizer, tuple(found.value_range), found.n_step) == ("RMSprop", (-5, 50), 3)
    again = play.build_algorithm(found)
    again.restore_from_path(tmp_path / "c")
    module, obs = again.get_module(), torch.randn(64, 4)
    mine = algorithm.learner.single_module
    actions = [m.forward_inference({"obs": obs})["actions"] for m in (module, module, mine)]
    assert torch.equal(actions[0], actions[1]) and torch.equal(actions[0], actions[2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"exploration": "Gaussian"} | LATE, "Gaussian and actions are discrete; expected EpsilonGreedy or Random"),
        ({"exploration": "Noisy"} | LATE, "the policy has no noisy layers"),
        ({"exploration": "Greedy"}, "epsilon_steps is 100 and an exploration is set; expected .*, or no epsilon_steps"),
        ({"kappa": 0.5}, "kappa is 0.5 and distribution 'mean'; expected distribution 'quantiles' or 'implicit'"),
        ({"value_range": [0, 5], "distribution": "quantiles"}, r"value_range is \(0, 5\) and distribution 'quantiles'"),
        ({"atoms": 9}, "atoms is 9 and distribution 'mean'; expected distribution 'categorical' or"),
        ({"huber_delta": None, "distribution": "implicit"}, "huber_delta is None and distribution 'implicit'; expect"),
        ({"sigma0": 0.1}, "sigma0 is 0.1 and noisy False; expected noisy True, or no sigma0"),
        ({"sigma0": 0.1, "network": {"q": NOISY}}, "network lists layers; expected sigma0 of NoisyLinear in network"),
        ({"dueling": True} | NARROW, "expected 'float32' with dueling"),
        ({"network": {"q": NOISY}} | NARROW, "expected 'float32' with dueling or noisy layers"),
        ({"distribution": "implicit"} | NARROW, "expected 'float32' with implicit quantiles"),
        ({"noisy": True, "network": {"q": LINEAR}}, "noisy is True and network lists no NoisyLinear; expected Noisy"),
        ({"dueling": True, "network": {"q": LINEAR}}, "dueling is True and network lists q; expected value and adv"),
    ],
)
def test_invalid_settings_are_rejected_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        config().training(**settings).build_algo()


@pytest.mark.parametrize("trainer", ["NoisyDQN", "Rainbow"])
def test_an_algorithm_without_its_noise_requires_epsilon(trainer):
    made = config(trainer=trainer).training(noisy=False)
    with pytest.raises(ValueError, match="noisy is False and epsilon is 0; expected noisy True, or an initial_epsilon"):
        made.validate()
    made.copy().training(exploration="Random", epsilon_steps=10_000).validate()
    made.training(initial_epsilon=1.0).validate()
