"""Presets: flags accept every file, specific settings override general ones, and flags override both."""

import itertools
import json
from pathlib import Path

import gymnasium as gym
import pytest

from argument_parser import CATALOGUE, TRAINERS, get_preset_settings, preset_summary, resolve_settings
from custom_training import main
from interreplay.environments import registration
from interreplay.errors import UsageError
from interreplay.experiments.flags import presets, training_flags
from interreplay.learning.algorithms_table import ALGORITHMS
from tests.experiments.commands.command_lines import given
from tests.experiments.commands.command_lines import settings_of as settings


def test_flags_accept_every_value():
    for loaded in map(presets.load, presets.names()):
        for trainer, known in itertools.product(loaded.trainers, [*loaded.environments, "Unheard"]):
            env = known.replace("*", "x-y") + "-v5"
            line = {"preset": loaded.name, "trainer": trainer, "env": env}
            made = resolve_settings(line | dict.fromkeys(loaded.needs, "somewhere"))
            assert made.buffer_size >= made.learning_starts and made.total_env_steps >= made.learning_starts, line
            row = ALGORITHMS[trainer]
            expected = (loaded.buffer, loaded.buffer_args) if loaded.buffer else (row.buffer, row.buffer_args)
            assert (made.buffer, made.buffer_args) == expected, line
            values = loaded.settings(trainer, env)
            assert values.items() <= vars(made).items(), line
            if row.defaults.get("noisy"):
                assert made.initial_epsilon == made.final_epsilon == 0, line


def test_every_file_names_its_source_and_environments_that_exist():
    registration.register("interreplay/Catch-v0")
    registered = {key.rsplit("-v", 1)[0]: spec for key, spec in gym.registry.items()}
    for name in presets.names():
        text = (presets.FOLDER / f"{name}.yaml").read_text()
        loaded = presets.load(name)
        assert text.startswith("#") and "Source" in text and loaded.about
        assert set(loaded.trainers) <= TRAINERS.keys()
        assert loaded.buffer is None or loaded.buffer in CATALOGUE
        for env, values in loaded.environments.items():
            if "*" not in env and not env.startswith(("dm_control/", "Fetch")):
                assert env in registered
                assert values.get("horizon") in (None, registered[env].max_episode_steps)


CHOSEN = {
    "InvertedPendulum-v5": "mujoco",
    "Swimmer-v5": "mujoco",
    "Pendulum-v0": "classic-control",
    "MountainCarContinuous": "classic-control",
    "dm_control/cheetah-run-v0": "dm-control",
    "dm_control/ball_in_cup-catch": "dm-control",
    "FetchReach-v1": "robotics",
    "my.module:Hopper-v3": "mujoco",
    "CartPole-v1": "values",
    "FrozenLake-v1": "none",
}


def test_the_environment_chooses():
    for env, name in CHOSEN.items():
        assert settings(f"--env {env}").preset == name
        assert settings(f"--env {env} --preset none").preset == "none"


def test_no_environment_has_two_presets():
    automatic = [preset for preset in map(presets.load, presets.names()) if preset.automatic]
    claimed = [(trainer, env) for preset in automatic for trainer in preset.trainers for env in preset.environments]
    assert len(claimed) == len(set(claimed))


def test_every_continuous_task_of_the_suites_has_one():
    modules = ("gymnasium.envs.mujoco", "gymnasium.envs.classic_control")
    of_suites = [key for key, spec in gym.registry.items() if str(spec.entry_point).startswith(modules)]
    continuous = [key for key in of_suites if key.endswith(("-v5", "Pendulum-v1", "Continuous-v0"))]
    assert [key for key in continuous if presets.find_automatic(key, "SAC").name == "none"] == []


def test_specific_settings_override_general_ones_and_flags_override_all():
    hopper = settings("--preset nmer-paper --env Hopper-v5")
    assert (hopper.actor_l2, hopper.huber_delta, hopper.learning_starts) == (0.02, 1.0, 10_000)
    assert (hopper.buffer, hopper.buffer_args) == ("NMER", {"k": 10, "alpha": 0.75})
    reacher = settings("--preset nmer-paper --env Reacher-v2 --trainer TD3")
    assert (reacher.learning_starts, reacher.horizon, reacher.actor_l2, reacher.hiddens) == (1_500, 50, 0.0, [400, 300])
    mine = settings("--preset nmer-paper --env Hopper-v5 --actor_l2 .5 --kneighbors 3 --learning_starts 7")
    assert (mine.actor_l2, mine.learning_starts, mine.huber_delta) == (0.5, 7, 1.0)
    assert mine.buffer_args == {"k": 3, "alpha": 0.75}
    assert "learning_starts" not in get_preset_settings(given("--env Hopper-v5 --learning_starts 7"))


def test_flags_about_replay_change_a_presets_method():
    for line, expected in {
        "--buffer Uniform": ("Uniform", {}, None),
        "--custom_replay_buffer False --prioritized_replay": ("PER", {}, None),
        "--naive_mixup_baseline": ("NaiveMixup", {}, None),
        "--prioritized_replay": ("NMER", {"k": 10, "alpha": 0.75}, {}),
        "--smote_interpolation": ("NMER", {"k": 10, "alpha": 1.0}, None),
        "--buffer_arg k=4": ("NMER", {"k": 4, "alpha": 0.75}, None),
    }.items():
        made = settings(f"--preset nmer-paper --env Hopper-v5 {line}")
        assert (made.buffer, made.buffer_args, made.prioritized) == expected, line


@pytest.mark.parametrize("possible", [True, False])
def test_presets_compile_updates_if_the_machine_can(possible, monkeypatch):
    monkeypatch.setattr(training_flags, "can_compile", lambda: possible)
    line = "--preset sample-efficient --env Hopper-v5"
    assert settings(line).torch_compile is possible
    assert settings(f"{line} --torch_compile true").torch_compile is True  # training reports that it is impossible
    assert settings("--preset nmer-layer-norm --env Hopper-v5").torch_compile is False


def test_another_kind_of_noise_comes_with_its_own_scale():
    line = "--trainer TD3 --env MountainCarContinuous-v0"
    assert settings(line).exploration_sigma == 0.5
    assert settings(f"{line} --exploration Gaussian").exploration_sigma == 0.1


def test_settings_of_a_preset_that_a_flag_makes_useless_do_not_apply():
    line = "--env CartPole-v1 --trainer"
    assert (settings(f"{line} C51").value_range, settings(f"{line} C51").final_epsilon) == ([0, 100], 0.04)
    quantiles = settings(f"{line} C51 --distribution quantiles")
    assert quantiles.value_range == [-10.0, 10.0] and quantiles.final_epsilon == 0.04
    assert settings(f"{line} QRDQN --distribution mean").atoms == "auto"
    greedy = settings(f"{line} DQN --exploration Greedy")
    assert (greedy.final_epsilon, greedy.epsilon_steps, greedy.tau) == (0.05, 10_000, 0.01)


@pytest.mark.parametrize("env", ["HalfCheetah-v5", "dm_control/cheetah-run-v0"])
@pytest.mark.parametrize("preset", ["nmer-layer-norm", "sample-efficient"])
def test_the_presets_that_were_measured_here_are_the_arm_of_their_study(preset, env):
    runs = Path(__file__).parents[3] / "benchmarks/data/sac_stable_critic"
    kept = json.loads((runs / f"SAC_{env.replace('/', '-')}_NMER-LN_s0" / "params.json").read_text())
    made = vars(settings(f"--preset {preset} --env {env}"))
    assert made.pop("total_env_steps") == {"nmer-layer-norm": 12_000, "sample-efficient": 25_000}[preset]
    upkeep = "preset buffer_size evaluation_interval evaluation_num_episodes steps_per_iteration"
    upkeep += " checkpoint_freq keep_checkpoints torch_compile"
    different = {flag for flag, value in made.items() if flag in kept and kept[flag] != value}
    assert different <= set(upkeep.split()) and {"hiddens", "updates_per_step", "critic_layer_norm"} <= set(kept)


def test_lcer_is_sacs_alone():
    assert settings("--preset lcer-rm").buffer_args == {"variant": "member", "n_clusters": 1000}
    with pytest.raises(UsageError, match="preset lcer-cc is for SAC, not for TD3"):
        settings("--preset lcer-cc --trainer TD3")


def test_changed_defaults_are_printed():
    expected = "defaults for this environment: --total_env_steps 1000000 --learning_starts 10000"
    assert preset_summary(given("--env Hopper-v5")) == expected
    printed = preset_summary(given("--preset nmer-paper --trainer TD3 --env Reacher-v5 --learning_starts 2"))
    assert printed.startswith("preset nmer-paper: ") and "--hiddens 400,300" in printed
    assert "learning_starts" not in printed
    assert preset_summary(given("--env Hopper-v5 --preset none")) == "" == preset_summary(given("--env CartPole-v1"))


def test_presets_are_listed(capsys):
    assert main(["--list-presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*presets.names(), "none"]
    assert {"nmer-paper", "lcer-cc", "lcer-rm"} <= set(presets.names())


WRONG = {
    "[1]": ["is not a mapping", "environments"],
    "a: [": ["cannot be read"],
    "everywere: {}": ["'everywere'", "did you mean everywhere?"],
    "everywhere: 3": ["everywhere is 3"],
    "everywhere: {SAC: 3}": ["everywhere is {'SAC': 3}"],
    "everywhere: {learning_start: 3}": ["'learning_start'", "did you mean learning_starts?"],
    "everywhere: {seed: x}": ["seed must be a whole number", "'x'"],
    "everywhere: {kneighbors: 3}": ["'kneighbors'"],
    "buffer: NMR": ["'NMR'", "did you mean NMER?"],
    "{buffer: NMER, buffer_args: {kk: 3}}": ["'kk'", "did you mean k?"],
    "everywhere: {target_noise_clip: 3}": ["--target_noise_clip is a setting of TD3"],
    "everywhere: {target_subset: 3}": ["--target_subset is 3; expected at most n_critics, 2"],
}


def test_an_invalid_preset_of_a_user(tmp_path):
    path = tmp_path / "mine.yaml"
    for text, parts in WRONG.items():
        path.write_text(text)
        with pytest.raises(UsageError) as caught:
            resolve_settings({"preset": str(path)})
        assert all(part in str(caught.value) for part in parts), caught.value


def test_a_preset_of_a_user(tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text("everywhere: {tau: 0.5}\nenvironments: {Hop*: {tau: 0.25}}\nbuffer: CER\n")
    assert resolve_settings({"preset": str(path)}).tau == 0.5
    made = resolve_settings({"preset": str(path), "env": "Hopper-v5"})
    assert (made.tau, made.buffer, made.preset) == (0.25, "CER", str(path))
    for wrappers in ("my_envs:Scaled factor=2", "[{my_envs:Scaled: {factor: 2}}]"):
        path.write_text(f"everywhere: {{wrapper: {wrappers}}}")
        assert resolve_settings({"preset": str(path)}).wrapper == [{"type": "my_envs:Scaled", "factor": 2}]
