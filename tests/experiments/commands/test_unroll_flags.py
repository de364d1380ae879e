"""Flags of algorithms that learn from unrolls: meaning, rejected values, and a run from start to evaluation."""

import shlex

import gymnasium as gym
import pytest

from argument_parser import make_parser, resolve_settings
from interreplay.environments.lookup import Environment
from interreplay.errors import UsageError
from interreplay.experiments.commands.preparation import build_mix, prepare, replay_bytes
from interreplay.experiments.flags.training_flags import settings_resumed
from interreplay.experiments.studies.grid import expand, make_environment
from interreplay.unrolls.replay import CachedReplay, UnrollReplay

ORIGINAL = (
    "[{'type':'queue','capacity':1,'sample_ratio':0.5},{'type':'custom','capacity':100,'sample_ratio':0.5,"
    "'dist_function':'kl_div','sample_strategy':'elite_sampling','elite_sampling_strategy':'strategy1'}]"
)


def settings(line, **flags):
    return resolve_settings(make_parser().given([*shlex.split(line), *(f"--{k}={v}" for k, v in flags.items())]))


def test_defaults_are_those_of_the_algorithm():
    made = settings("--trainer IMPALA --preset none")
    assert (made.buffer, made.buffer_args) == ("Fresh", {})
    assert (made.rollout_fragment_length, made.num_envs_per_worker) == (20, 32)
    assert (made.lr, made.optimizer, made.optimizer_eps) == (6e-4, "RMSprop", 0.01)
    assert (made.loss, made.grad_clip) == ("sum", 40)
    made = settings("--trainer A2C --preset none --num_envs_per_worker 8")
    assert (made.rollout_fragment_length, made.num_envs_per_worker, made.returns) == (5, 8, "gae")
    assert not made.caching
    clear, laser = (settings(f"--trainer {name} --preset none") for name in ("CLEAR", "LASER"))
    assert clear.buffer == laser.buffer == "UnrollMix" and clear.policy_cloning == 0.01 and laser.relevance_bound == 0.3
    assert [source["share"] for source in laser.buffer_args["parameters"]] == [0.25, 0.75]
    mixed = settings("--trainer IMPALA --preset none --buffer UnrollMix").buffer_args["parameters"]
    assert [source["type"] for source in mixed] == ["queue", "uniform"]
    assert settings("--trainer CLEAR --preset none --buffer Fresh").buffer_args == {}


def test_a_resumed_run_keeps_its_mix():
    saved = vars(settings("--trainer IMPALA --preset none", replay_parameters=ORIGINAL))
    assert settings_resumed(dict(saved), {"total_env_steps": 99}).total_env_steps == 99
    assert settings_resumed(dict(saved), {"replay_parameters": ORIGINAL}).buffer == "UnrollMix"
    with pytest.raises(UsageError, match="the checkpoint was made with"):
        settings_resumed(dict(saved), {"replay_parameters": ORIGINAL.replace("100", "200")})


def test_a_settings_file_equals_flags(tmp_path):
    path = tmp_path / "mine.yaml"
    sources = "[{type: queue, share: 0.5}, {type: attentive, share: 0.5}]"
    path.write_text(f"trainer: IMPALA\nreplay_parameters: {sources}\n")
    made = settings(f"--config {path}")
    assert made.buffer == "UnrollMix"
    assert [source["type"] for source in made.buffer_args["parameters"]] == ["queue", "attentive"]


def test_a_study_compares_replayed_sources():
    mix = [{"type": "queue", "share": 0.5}, {"type": "elite", "capacity": 100, "share": 0.5}]
    grid = {"trainers": ["IMPALA"], "envs": ["CartPole-v1"], "buffers": ["Fresh", {"UnrollMix": {"parameters": mix}}]}
    grid["buffers"].append({"UnrollMix": {"label": "elite 1", "parameters": [mix[0], mix[1] | {"strategy": 1}]}})
    fresh, third, first = expand(grid)
    assert fresh.label == "Fresh" and third.label.startswith("UnrollMix(") and first.label == "elite 1"
    assert resolve_settings(first.given()).buffer_args["parameters"][1]["strategy"] == 1


def test_the_memory_of_a_mix():
    def need(**flags):
        made = settings("--trainer IMPALA --env MinAtar/Breakout-v0 --rollout_fragment_length 20", **flags)
        environment = make_environment(made)
        return replay_bytes(made, environment, build_mix(made, environment))

    small, large = (need(replay_parameters=ORIGINAL.replace("100", n)) for n in ("1000", "4000"))
    # An unroll of 20 steps has 21 observations of 400 bytes, and smaller columns.
    assert 8_400 * 1_000 < small < 2 * 8_400 * 1_000 and large == pytest.approx(4 * small, rel=0.05)
    assert need() == 0


def test_the_replay_of_unrolls_is_printed():
    lines = prepare(make_parser().given(["--trainer", "CLEAR", "--env", "CartPole-v1"]), [], None).lines
    assert "CLEAR with UnrollMix" in lines[1] and "replay of unrolls of 20 steps: " in lines[2]


@pytest.mark.parametrize(("caching", "store"), [(False, UnrollReplay), (True, CachedReplay)])
def test_the_mix_of_a_run_is_cached_on_request(caching, store):
    made = settings("--trainer CLEAR --env CartPole-v1", caching=caching)
    _, replay = build_mix(made, make_environment(made)).sources.values()
    assert type(replay) is store


@pytest.mark.parametrize("gaussian", [True, False])
def test_distances_are_those_of_the_environments_actions(gaussian):
    made = settings("--trainer IMPALA", replay_parameters=ORIGINAL)
    torques = gym.spaces.Tuple([gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(-1, 1, (1,))])
    actions = torques if gaussian else gym.spaces.Discrete(3)
    mix = build_mix(made, Environment("Own-v0", gym.spaces.Box(-1, 1, (3,)), actions, ""))
    assert {source.distance.gaussian for source in mix.sources.values() if hasattr(source, "distance")} == {gaussian}
