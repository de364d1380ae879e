"""main.py: the words of an actor-learner platform, and the settings that they stand for."""

import json
from pathlib import Path

import pytest

from argument_parser import make_parser, resolve_settings
from interreplay.errors import UsageError
from interreplay.experiments.commands import actor_learner, evaluate, train
from interreplay.experiments.commands.actor_learner import FIXED, GAMES, IGNORED, OTHERS, SAME, read, translate

ROOT = Path(__file__).resolve().parents[3]
ELITE = (
    '[{"type":"queue","capacity":1,"sample_ratio":0.5},{"type":"custom","capacity":100,"sample_ratio":0.5,'
    '"dist_function":"ln_norm","sample_strategy":"elite_sampling","lambda_batch_multiplier":6}]'
)


def settings(*words):
    return resolve_settings(make_parser().given(translate(read(words))))


def test_missing_settings_have_the_platforms_defaults():
    made = settings()
    assert (made.trainer, made.env, made.total_env_steps) == ("IMPALA", "AtlantisNoFrameskip-v4", 15_000_000)
    assert (made.train_batch_size, made.rollout_fragment_length, made.num_envs_per_worker) == (100, 10, 35)
    assert (made.optimizer, made.optimizer_eps, made.grad_clip, made.hiddens) == ("RMSprop", 0.01, 40.0, [512])
    assert (made.policy_cloning, made.value_cloning, made.relevance_bound) == (0.05, 0.005, None)
    assert made.env_args == {"reward_clipping": "sign"}
    assert made.caching and made.checkpoint_freq == 500  # 1,000 updates of 500 new env steps, in iterations of 1,000


def test_flags_of_games_without_effect_are_reported(capsys):
    settings("--env=CartPole-v1", "--skipped_frames=2", "--clip_rewards=True")
    assert "--skipped_frames, --clip_rewards has no effect: CartPole-v1 is not an Atari game" in capsys.readouterr().out
    settings("--env=CartPole-v1")
    settings("--env=PongNoFrameskip-v4", "--clip_rewards=True")
    assert "has no effect" not in capsys.readouterr().out


def test_without_a_seed_a_random_one_is_drawn():
    drawn = {settings().seed, settings().seed, settings("--preset=actor-learner").seed}
    assert len(drawn) == 3 and settings("--seed=0").seed == 0


@pytest.mark.parametrize("words", [["--preset=actor-learner"], ["--caching=False"]])
def test_caching_is_off_on_request_and_with_a_preset(words):
    assert not settings("--env=CartPole-v1", *words).caching
    assert settings("--env=CartPole-v1", "--preset=actor-learner", "--caching=True").caching


def test_the_learning_rate_falls_over_so_many_updates_as_its_square():
    made = settings("--lr=1e-3", "--lr_end_value=1e-4", "--lr_scheduler_steps=1000", "--batch_size=20")
    steps = 1000 * 10 * 10  # half of each batch is fresh, of 10 steps each
    assert made.lr[0] == [0, 1e-3] and made.lr[-1] == [steps, 1e-4]
    assert made.lr[8] == [steps // 2, pytest.approx(1e-4 + 9e-4 / 4)]


def test_a_share_that_changes_over_the_run_counts_with_its_mean():
    mix = [{"type": "queue", "share": [1, 0.5]}, {"type": "uniform", "share": [0, 0.5]}]
    made = settings("--lr_scheduler_steps=1000", "--batch_size=20", f"--replay_parameters={json.dumps(mix)}")
    assert made.lr[-1][0] == 1000 * 0.75 * 20 * 10


def test_presets_apply_only_if_they_are_named():
    plain, tuned = settings("--env=CartPole-v1"), settings("--env=CartPole-v1", "--preset=actor-learner", "--lr=1e-3")
    assert (plain.preset, plain.loss, plain.hiddens, plain.activation) == ("none", "sum", [512], "relu")
    assert (tuned.preset, tuned.loss, tuned.hiddens, tuned.activation) == ("actor-learner", "mean", [64, 64], "tanh")
    assert tuned.lr[0] == [0, 1e-3] and tuned.policy_cloning == 0.0 and tuned.num_envs_per_worker == 8


def test_workers_are_processes_if_there_are_cpus(monkeypatch, capsys):
    words = ["--env=CartPole-v1", "--worker_count=2", "--envs_per_worker=3"]
    monkeypatch.setattr(actor_learner, "count_cpus", lambda: 3)
    made = settings(*words)
    assert (made.num_workers, made.num_envs_per_worker) == (2, 3) and capsys.readouterr().out == ""
    monkeypatch.setattr(actor_learner, "count_cpus", lambda: 2)
    made = settings(*words)
    assert (made.num_workers, made.num_envs_per_worker) == (0, 6)
    assert "2 workers and the learner need 3 CPUs, available: 2" in capsys.readouterr().out


MEANINGS = {
    "--policy_cloning_loss_weight=.1": {"policy_cloning": 0.1, "value_cloning": 0.005},
    "--use-policy-cloning-loss=False": {"policy_cloning": 0.0, "value_cloning": 0.005},
    "--use_value_cloning_loss=False": {"policy_cloning": 0.05, "value_cloning": 0.0},
    "--save_model_period=100 --device=cpu --output_dir=runs": {"checkpoint_freq": 50, "output_dir": "runs"},
    "--env=CartPole-v1 --worker_count=2 --envs_per_worker 3": {"num_envs_per_worker": 6},
    "--optimizer=adam --seed=5": {"optimizer": "Adam", "seed": 5},
    "--use_kl_mask=True --kl_div_threshold=.2": {"relevance_bound": 0.2, "relevance_of": "behavior"},
    "--rho-const=2 --c_const=3": {"vtrace_rho": 2.0, "vtrace_pg_rho": 3.0, "vtrace_c": 1.0},
    "--clip_rewards=False --episodic_life=False": {"env_args": {"reward_clipping": None, "lives_terminate": False}},
    "--noop_threshold=5": {"env_args": {"reward_clipping": "sign", "noops": 5}},
    "--reward_clipping_method=abs_one_clamp": {"env_args": {"reward_clipping": "clamp"}},
    "--caching=False --caching_threads=2 --frame_scale_resolution=84,84": {"caching": False},
}


def test_flags_keep_their_meaning():
    for line, expected in MEANINGS.items():
        made = vars(settings(*line.split()))
        assert {name: made[name] for name in expected} == expected, line


def test_stores_wait_until_they_are_filled_to_its_share():
    queue, store = settings(f"--replay_parameters={ELITE}", "--training_fill_in_factor=.3").buffer_args["parameters"]
    assert "fill_in" not in queue and (store["type"], store["fill_in"], store["multiplier"]) == ("elite", 0.3, 6)


def test_resuming_and_testing_call_our_commands(monkeypatch):
    called = []
    monkeypatch.setattr(train, "main", called.append)
    monkeypatch.setattr(evaluate, "main", called.append)
    monkeypatch.setattr(actor_learner, "has_screen", lambda: True)
    for name in ("environment_max_steps", "total_env_steps"):  # the second is the name in our messages
        actor_learner.act(f"--op_mode=train_w_load --load_model_url=runs/a --{name}=9".split())
    assert called.pop() == called[0]
    actor_learner.act("--op_mode=test --load_model_url runs/a --test_episode_count=3 --render=True".split())
    actor_learner.act("--op_mode=test --load_model_url runs/a".split())
    monkeypatch.setattr(actor_learner, "has_screen", lambda: False)
    actor_learner.act("--op_mode=test --load_model_url runs/a".split())
    assert called[:2] == [["--resume", "runs/a", "--total_env_steps=9"], ["runs/a", "--episodes", "3", "--render"]]
    assert called[2:] == [["runs/a", "--episodes", "1000", "--render"], ["runs/a", "--episodes", "1000"]]
    with pytest.raises(UsageError, match="use --render=False, or .* interreplay evaluate runs/a --video FILE.gif"):
        actor_learner.act("--op_mode=test --load_model_url=runs/a --render=True".split())


def test_the_documentation_has_every_flag():
    page = (ROOT / "docs/migration.md").read_text()
    for name in {*SAME, *GAMES, *OTHERS, *FIXED, *IGNORED}:
        assert f"`--{name}`" in page, name


def test_without_arguments_it_prints_its_flags(capsys):
    assert actor_learner.act([]) == 2
    assert capsys.readouterr().out.startswith("usage: main.py --op_mode=train|test|train_w_load")
