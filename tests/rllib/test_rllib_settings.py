"""RLlib's own settings on our algorithms: each is read, rejected by name, or listed as harmless."""

import failing_envs
import gymnasium as gym
import numpy as np
import pytest
import torch
from ray import tune
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.tune.registry import register_env
from ray.tune.search.variant_generator import generate_variants

from interreplay.rllib import SACConfig
from interreplay.rllib.algorithms.rllib_settings import TABLE
from interreplay.rllib.env_runner.env_creation import make_one
from interreplay.rllib.host import minor_version
from tests.rllib import small_runs
from tests.rllib.small_runs import restored, rows_of, trained

READ, REFUSED = set(TABLE["read"]), set(TABLE["refused"])
HARMLESS = {name for names in TABLE["harmless"].values() for name in names}
RETIRED = -1
NEW_SETTINGS = {
    "custom_resources_for_main_process": (2, 56),
    "custom_resources_per_learner": (2, 56),
    "evaluation_error_after_n_consecutive_skips": (2, 56),
    "evaluation_unhealthy_workers_timeout_s": (2, 56),
    "env_runner_state_server_max_concurrency": (2, 57),
    "use_env_runner_state_server": (2, 57),
}
"""Settings that RLlib has had since these versions of Ray."""


def config(trainer="SAC", env="Pendulum-v1"):
    made = small_runs.config(env, trainer=trainer).training(hiddens=(16, 16), train_batch_size_per_learner=16)
    return made.training(num_steps_sampled_before_learning_starts=20, steps_per_iteration=40)


def rates(algorithm):
    return {n: o.param_groups[0]["lr"] for n, o in algorithm.learner.update_rule.optimizers.items()}


def test_every_setting_of_rllib_is_in_one_table():
    settings = {name for name, value in vars(AlgorithmConfig()).items() if type(value) is not int or value != RETIRED}
    expected = {name for name in READ | REFUSED | HARMLESS if minor_version() >= NEW_SETTINGS.get(name, (0, 0))}
    if minor_version() < (2, 55):
        expected |= {"logger_config", "logger_creator"}
    assert settings == expected
    assert len(READ | REFUSED | HARMLESS) == len(READ) + len(REFUSED) + len(HARMLESS), "no setting is in two of them"


def test_settings_that_would_be_ignored_are_rejected_by_name_and_defaults_are_not():
    for trainer in small_runs.CONFIGS:
        config(trainer).validate()
    for name in REFUSED:
        made = config()
        plain = getattr(AlgorithmConfig(), name, None)
        setattr(made, name, not plain if isinstance(plain, bool) else "other")
        with pytest.raises(ValueError, match=f"{name.lstrip('_')} is .*; SAC does not read it: "):
            made.validate()


def test_a_learner_on_a_gpu_is_rejected_by_name_without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="num_gpus_per_learner is 1; expected 0, because PyTorch finds no GPU"):
        config().learners(num_gpus_per_learner=1).build_algo()


class Other(TorchRLModule):
    pass


BATCH_OF_8 = {"train_batch_size_per_learner": 8}
STACK = ("enable_rl_module_and_learner", "enable_env_runner_and_connector_v2")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.training(lr=-1), "lr is -1; expected a number above 0, or a schedule"),
        (lambda c: c.training(actor_lr=-1), "actor_lr is -1"),
        (lambda c: c.training(exploration="EpsilonGreedy"), "anneal_steps is None; .* EpsilonGreedy changes"),
        (lambda c: c.training(episode_table=True, collect=False), "episode_table is True and collect False"),
        (lambda c: c.training(replay_buffer_config={"type": "PERR"}), "did you mean PER"),
        (lambda c: c.replay("NMER", kk=3), "did you mean k"),
        (lambda c: c.replay("Uniform", capacity=8), "capacity is 8"),
        (lambda c: c.training(actor_lr=[[5, 0.1]]), r"actor_lr is \[\[5, 0.1\]\]; expected"),
        (lambda c: c.env_runners(num_env_runners=-1), "num_env_runners is -1; expected a whole number"),
        (lambda c: c.env_runners(num_envs_per_env_runner=2.5), "num_envs_per_env_runner is 2.5; expected a whole"),
        (lambda c: c.training(train_batch_size_per_learner=-1), "train_batch_size_per_learner is -1; expected a whole"),
        (lambda c: c.update_from_dict(BATCH_OF_8 | {"train_batch_size": 64}), "size is 64 and .* 8; expected one of"),
        (lambda c: c.training(n_step=(5, 2)), r"n_step is \(5, 2\); expected a whole number of at least 1, or two"),
        (lambda c: c.debugging(seed=-1), "seed is -1; expected a whole number from 0 to 2147483647"),
        (lambda c: c.evaluation(evaluation_interval=-1), "evaluation_interval is -1; expected a whole number"),
        (lambda c: c.training(reset_at=np.array([8, 9])), r"reset_at is array\(\[8, 9\]\); expected whole numbers"),
        (lambda c: c.training(grad_clip_by="norm"), "grad_clip_by is 'norm' and no grad_clip; expected a grad_clip"),
        (lambda c: c.training(critic_width=64), "critic_width is 64 and critic_blocks 0; expected critic_blocks of"),
        (lambda c: c.training(critic_target="mean", actor_target="first"), "'first' and critic_target 'mean'; expect"),
        (lambda c: c.env_runners(env_runner_cls=SingleAgentEnvRunner), "env_runner_cls is SingleAgentEnvRunner"),
        (lambda c: c.env_runners(create_local_env_runner=False), "create_local_env_runner is False"),
        (lambda c: c.fault_tolerance(restart_failed_env_runners=True), "restart_failed_env_runners is True; expected"),
        (lambda c: c.rl_module(rl_module_spec=RLModuleSpec(module_class=Other)), "the RLModule is Other; expected O"),
        (lambda c: c.evaluation(evaluation_duration="auto"), "evaluation_duration is 'auto'; expected a number"),
        (lambda c: c.rl_module(rl_module_spec=RLModuleSpec(model_config={"use_lstm": True})), "SAC has no 'use_lstm'"),
        (lambda c: c.rl_module(model_config={"fcnet_hidens": [8]}), "did you mean fcnet_hiddens"),
        (lambda c: c.rl_module(model_config={"fcnet_activation": "silu"}), "activation is .silu.; expected one of"),
        (lambda c: c.multi_agent(policies={"a", "b"}, policy_mapping_fn=lambda *_: "a"), "multi_agent"),
        (lambda c: c.api_stack(**dict.fromkeys(STACK, False)), "api_stack"),
    ],
)
def test_unsupported_settings_are_rejected_in_one_line(change, message):
    with pytest.raises(ValueError, match=message) as caught:
        change(config()).validate()
    assert "\n" not in str(caught.value)


def copies_of(made):
    """Return a configuration, its copies, and the configurations of its trials in Tune."""
    found = [made, made.copy(copy_frozen=False), type(made).from_dict(made.to_dict())]
    found += [type(made)().update_from_dict(settings) for _, settings in generate_variants(made.to_dict())]
    for each in found:
        each.validate()
    return found


AT_LEAST_50 = {"min_sample_timesteps_per_iteration": 50}
OF_64 = RLModuleSpec(model_config={"fcnet_hiddens": [64]})


@pytest.mark.parametrize(
    ("change", "name", "expected"),
    [
        (lambda c: c.training(train_batch_size=256), "train_batch_size_per_learner", 256),
        (lambda c: c.training(train_batch_size=64), "train_batch_size_per_learner", 64),
        (lambda c: c.training(train_batch_size=64).training(**BATCH_OF_8), "train_batch_size_per_learner", 8),
        (lambda c: c.reporting(**AT_LEAST_50).training(steps_per_iteration=20), "steps_per_iteration", 20),
        (lambda c: c.reporting(**AT_LEAST_50), "steps_per_iteration", 50),
        (lambda c: c.rl_module(model_config={"fcnet_hiddens": [64]}).training(hiddens=(32,)), "hiddens", (32,)),
        (lambda c: c.rl_module(rl_module_spec=OF_64).model(hiddens=(32,)), "hiddens", (32,)),
        (lambda c: c.rl_module(model_config={"fcnet_hiddens": [64]}), "hiddens", [64]),
    ],
)
def test_the_later_of_two_settings_with_one_meaning_is_used(change, name, expected):
    for each in copies_of(change(config())):
        assert getattr(each, name) == expected


def test_a_given_learning_rate_is_used_even_at_its_default():
    default = SACConfig().actor_lr
    found = copies_of(config().training(lr=0.02, actor_lr=default))
    found += copies_of(config().training(actor_lr=default).training(lr=0.02))
    for given in ({"lr": tune.choice([0.02]), "actor_lr": default}, {"lr": 0.02, "actor_lr": tune.choice([default])}):
        ((_, settings),) = generate_variants(config().training(**given).to_dict())
        found.append(SACConfig().update_from_dict(settings))
    for each in found:
        assert each.rates(0) == {"actor": default, "critic": 0.02, "alpha": 0.02}
    for each in copies_of(config().training(lr=0.02)):
        assert each.rates(0)["actor"] == 0.02
    assert SACConfig().update_from_dict({"lr": 0.02, "actor_lr": default}).rates(0)["actor"] == default


@pytest.mark.slow
def test_learning_rates_follow_their_schedules_over_env_steps_and_resumes(tmp_path):
    made = config("TD3").training(actor_lr=[[0, 1.0e-3], [100, 2.0e-4]], lr=[[0, 1e-3], [10, 1e-4]])
    algorithm = trained(made)
    # The last update of the iteration is that of step 40.
    assert rates(algorithm) == pytest.approx({"actor": 1e-3 - 0.4 * 8e-4, "critic": 1e-4})
    other = restored(made.copy(copy_frozen=False), algorithm.save_to_path(tmp_path / "c"))
    for one in (algorithm, other):
        one.train()
        assert rates(one)["actor"] == pytest.approx(1e-3 - 0.8 * 8e-4)


def test_explore_false_uses_the_mode():
    made = config().training(num_steps_sampled_before_learning_starts=0, updates_per_step=0).env_runners(explore=False)
    algorithm = trained(made)
    rows = rows_of(algorithm)
    module = algorithm.learner.single_module
    assert torch.allclose(rows.actions, module.policy.act(module.encode(rows.obs)), atol=1e-6)


class Recorded(failing_envs.Counting):
    """Environment that records its actions."""

    action_space = gym.spaces.Box(np.float32(-3.0), np.float32(0.5), (2,))

    def __init__(self, config=None):
        super().__init__(config)
        self.seen = []

    def step(self, action):
        self.seen.append(np.array(action))
        return super().step(action)


@pytest.mark.parametrize("normalized", [True, False])
def test_normalize_actions(normalized):
    algorithm = trained(config(env=Recorded).environment(normalize_actions=normalized))
    kept = rows_of(algorithm).actions.numpy()
    seen = np.array(algorithm.env_runner.env.unwrapped.envs[0].unwrapped.seen[:40])
    expected = -3.0 + (kept + 1.0) * 1.75 if normalized else np.clip(kept, -3.0, 0.5)
    assert np.allclose(seen, expected, atol=1e-5) and np.abs(kept).max() <= 1.0


@pytest.mark.slow
def test_observations_are_normalized_by_the_statistics_of_all_stored_ones(tmp_path):
    made = config().training(normalize_observations=True)
    algorithm = trained(made)
    stored = rows_of(algorithm).obs.double()
    module = algorithm.learner.single_module
    expected = ((stored - stored.mean(0)) / stored.std(0, correction=0)).clamp(-10, 10).float()
    assert torch.allclose(module.encode(stored.float()), expected, atol=1e-4)
    assert algorithm.env_runner.module is module, "it acts by the same statistics"
    algorithm.evaluate()
    assert module.nets.encoder.moments.count == 40, "evaluation leaves them alone"
    other = restored(made.copy(copy_frozen=False), algorithm.save_to_path(tmp_path / "c"))
    assert torch.equal(other.learner.single_module.encode(stored.float()), module.encode(stored.float()))


@pytest.mark.parametrize(
    "given", [{"fcnet_hiddens": [8, 4]}, DefaultModelConfig(fcnet_hiddens=[8, 4]), {"hiddens": [8, 4]}]
)
def test_rllibs_names_of_network_sizes(given):
    algorithm = config().rl_module(model_config=given).build_algo()
    assert algorithm.config.hiddens == [8, 4]
    widths = {tuple(p.shape) for p in algorithm.learner.single_module.nets.actor.parameters()}
    assert (1, 8, 4) in widths and (1, 16, 16) not in widths


def test_rates_and_arguments_of_the_configuration_override_a_checkpoint(tmp_path):
    """Tune's population-based training changes them in the middle of a trial."""
    saved = config().training(lr=1e-3, critic_l2=0.1).replay("NMER", capacity=500, k=5)
    changed = config().training(lr=1e-5, actor_lr=2e-5, critic_l2=0.2).replay("NMER", capacity=500, k=20)
    other = restored(changed, trained(saved).save_to_path(tmp_path / "c"))
    other.train()
    assert other.replay_buffer.neighborhood.k == 20
    assert rates(other) == {n: 2e-5 if n == "actor" else 1e-5 for n in rates(other)}
    assert other.learner.update_rule.optimizers["critic"].param_groups[0]["weight_decay"] == 0.2


class Arm(failing_envs.Counting):
    """Environment with keyword arguments, as in Gymnasium."""

    def __init__(self, size=0.5, render_mode=None):
        super().__init__()
        self.size = size


class OfMapping(Arm):
    """Environment with one mapping as its argument, as in RLlib."""

    def __init__(self, config=None):
        super().__init__(config.get("size", 0.25))


class OfKeywords(Arm):
    def __init__(self, **options):
        super().__init__(options.get("size", 0.75))


class OfRenderMode(Arm):
    """Environment whose first argument is the render mode, as in Gymnasium's tutorial."""

    def __init__(self, render_mode=None, size=0.6):
        super().__init__(size)
        assert render_mode is None, render_mode


class PassingOn(OfRenderMode):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


class PassingOnMapping(OfMapping):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


def arm(config):
    return Arm(config.get("size", 0.9))


class Several(MultiAgentEnv):
    """Environment with several agents."""


SIZES = {Arm: 0.5, OfMapping: 0.25, OfKeywords: 0.75, OfRenderMode: 0.6, PassingOn: 0.6, PassingOnMapping: 0.25}


@pytest.mark.parametrize(("env", "default"), [*SIZES.items(), (arm, 0.9)])
def test_classes_of_environments_receive_keywords_or_one_mapping_and_functions_one_mapping(env, default):
    for given, size in (({"size": 0.3}, 0.3), ({}, default)):
        algorithm = config(env=env).environment(env_config=given).build_algo()
        assert algorithm.env_runner.env.unwrapped.envs[0].unwrapped.size == size
        assert make_one(algorithm.config).size == size


@pytest.mark.parametrize(
    ("env", "given", "message"),
    [
        (Arm, {"sise": 0.3}, "env_config: Arm takes no argument 'sise'; did you mean size?"),
        (Several, {}, "the environment Several is a MultiAgentEnv: these algorithms train one policy for one agent"),
        ("Several", {}, "the environment Several is a MultiAgentEnv: these algorithms train one policy for one agent"),
    ],
)
def test_unsupported_environments_are_rejected_in_one_line(env, given, message):
    register_env("Several", lambda env_config: Several())
    with pytest.raises(ValueError, match=message) as caught:
        config(env=env).environment(env_config=given).build_algo()
    assert "\n" not in str(caught.value)
