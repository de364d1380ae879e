"""Configuration files: defaults, words, flags and their precedence, error messages, and the files of configs."""

import argparse
import contextlib
import json
import re
from pathlib import Path

import pytest
import yaml

from argument_parser import CATALOGUE, resolve_settings, settings_resumed
from custom_training import main
from interreplay.errors import UsageError
from interreplay.experiments.commands.preparation import prepare
from interreplay.experiments.commands.study import read_new
from interreplay.experiments.flags import config_files, presets
from interreplay.experiments.flags.run_flags import FLAGS
from interreplay.experiments.flags.values import format_value
from interreplay.learning.algorithms_table import VARIANTS
from tests.experiments.commands.command_lines import given, rejects
from tests.experiments.commands.command_lines import settings as settings_of_words
from tests.experiments.commands.command_lines import settings_of as settings

FILES = {
    "mine.yaml": "{defaults: [parts/small.yaml, cartpole/dqn], lr: 1e-3, hiddens: [32, 32], total-env-steps: 400}",
    "parts/small.yaml": "{defaults: smaller.yaml, train_batch_size: 16, capacity: 900, gamma: 0.5}",
    "parts/smaller.yaml": "{learning_starts: 100, buffer_size: 7, wandb: small}",
    "per.yaml": "{trainer: DQN, env: CartPole-v1, buffer: PER, buffer_args: {alpha: .5, beta: '1e-1'}}",
    "more.yaml": "{defaults: [per.yaml], buffer_arg: {alpha: 0.7}}",
    "other.yaml": "{defaults: [per.yaml], buffer: ERE}",
    "blend.yaml": "{knn_baseline: true, kneighbors: 3, env: Pendulum-v1}",
    "rates.yaml": "{actor_lr: [[0, 3e-4], [1000, 1e-5]], huber_delta: null, target_entropy: -1, env: Pendulum-v1}",
    "redq.yaml": "{preset: redq, env: Ant-v5}",
    "game.yaml": "{defaults: [atari/dqn], env_args: {sticky: .1, frameskip: 4}}",
    "wrong.yaml": "{defaults: [per.yaml], gamma: 2}",
}

NAMES = "rbf zero cpu float32 Gaussian mean tanh min Adam auto none gae behavior orthogonal success norm x".split()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_later_files_replace_earlier_ones_and_the_file_replaces_its_defaults():
    made = settings("--config mine.yaml")
    assert (made.trainer, made.env) == ("DQN", "CartPole-v1"), "of the folder configs"
    assert (made.learning_starts, made.buffer_size, made.train_batch_size, made.gamma) == (1_000, 100_000, 64, 0.99)
    assert (made.lr, made.hiddens, made.total_env_steps, made.wandb) == (1e-3, [32, 32], 400, "small")


def test_words_replace_the_file_and_flags_replace_both_wherever_they_stand():
    line = "lr=.1 --gamma .7 gamma=.8 --config mine.yaml tau=.5 --tau .25 hiddens=8,8 --quiet learning-starts=5"
    made = settings(line)
    assert (made.lr, made.gamma, made.tau, made.hiddens, made.learning_starts) == (0.1, 0.7, 0.25, [8, 8], 5)
    assert made.quiet and made.total_env_steps == 400


def test_words_alone_are_flags():
    words = settings("env=CartPole-v1 trainer=DQN seed=3")
    assert vars(words) == vars(settings("--env CartPole-v1 --trainer DQN --seed 3"))
    assert settings("--buffer NMER --buffer_arg k=3 alpha_lr=.5").buffer_args == {"k": 3}, "a flag's own word"


METHODS = {
    "--config per.yaml": ("PER", {"alpha": 0.5, "beta": 0.1}),
    "--config more.yaml": ("PER", {"alpha": 0.7, "beta": 0.1}),
    "--config more.yaml buffer_arg.beta=.2": ("PER", {"alpha": 0.7, "beta": 0.2}),
    "--config more.yaml buffer_arg.beta=.2 --buffer_arg beta=.3": ("PER", {"alpha": 0.7, "beta": 0.3}),
    "--config more.yaml buffer_arg.alpha=1 buffer_arg.eps=1 --buffer PER": ("PER", {"alpha": 1, "beta": 0.1, "eps": 1}),
    "--config other.yaml": ("ERE", {}),
    "--config other.yaml buffer_arg.c_min=2000": ("ERE", {"c_min": 2000}),
    "--config per.yaml --buffer Uniform": ("Uniform", {}),
    "--config blend.yaml": ("NMER", {"k": 3}),
    "--config blend.yaml --ct_baseline": ("ContinuousTransition", {}),
    "--config blend.yaml buffer=LCER buffer_arg=n_clusters=5": ("LCER", {"n_clusters": 5}),
}
ENVIRONMENTS = {
    "--config game.yaml": {"sticky": 0.1, "frameskip": 4},
    "--config game.yaml env_args.sticky=.3": {"sticky": 0.3, "frameskip": 4},
    "--config game.yaml env_arg.noops=1 --env_args sticky=.3 frameskip=3": {"sticky": 0.3, "frameskip": 3, "noops": 1},
    "--env_args sticky=.3 noops=2 --seed 1 gamma=.5": {"sticky": 0.3, "noops": 2},
    "env_args=sticky=.3 --env_args=noops=2": {"sticky": 0.3, "noops": 2},
}


def test_arguments_by_name_are_merged_and_belong_to_their_method():
    for line, expected in METHODS.items():
        made = settings(line)
        assert (made.buffer, made.buffer_args, made.prioritized) == (*expected, None), line
    for line, arguments in ENVIRONMENTS.items():
        assert settings(line).env_args == arguments, line


def test_values_are_read_as_flags_read_them():
    made = settings("--config rates.yaml")
    assert made.huber_delta is None and made.target_entropy == -1.0
    flags = settings("--env Pendulum-v1 --target_entropy -1 --actor_lr 0:3e-4,1000:1e-5")
    assert made.actor_lr == flags.actor_lr
    assert flags.actor_lr == settings("--env Pendulum-v1 --actor_lr [[0,3e-4],[1000,1e-5]]").actor_lr
    assert settings("--config redq.yaml").target_entropy == -4.0, "a preset that the file names"


def accepted(flag):
    """Return a value that a flag accepts, as in a file."""
    for value in (True, 1, 64, 0.5, [8, 8], [-1, 1], "2h", *NAMES):
        with contextlib.suppress(argparse.ArgumentTypeError):
            return value, flag.type(format_value(value))
    raise AssertionError(f"{flag.name} takes none of them")


def test_every_flag_is_a_key(folder):
    for name in FLAGS.keys() - config_files.INVOKED - {*config_files.ARGUMENTS}:
        value, expected = accepted(FLAGS[name])
        if FLAGS[name].repeat:
            expected = [expected]
        (folder / "one.yaml").write_text(json.dumps({name: value}))
        from_file, from_word = given("--config one.yaml"), given(f"{name}={format_value(value)}")
        dashes = given(f"--{name.replace('_', '-')}={format_value(value)}")
        assert from_file[name] == from_word[name] == expected == given(f"--{name}={format_value(value)}")[name], name
        assert dashes == {name: expected}


REJECTED = {
    "{defaults: [per.yaml, a.yaml]}": "a.yaml: its defaults form a cycle: a.yaml -> a.yaml",
    "{gama: 1}": "configuration a.yaml: unknown key 'gama'; did you mean gamma?",
    "{batch_size: 1}": "unknown key 'batch_size'; use --train_batch_size",
    "{restore_path: x}": "a.yaml: unknown key 'restore_path'; --resume continues from",
    "{resume: x}": "resume is not a setting of a run; give it as --resume on the command line",
    "{gamma: [1, 2]}": "a.yaml: gamma must be a number of at least 0, at most 1, got '1,2'",
    "{env: [1]}": "a.yaml: env must be a name, got [1]",
    "{buffer_arg: 3}": "a.yaml: buffer_arg must look like k=10, got '3'",
    "{buffer_size: 1, capacity: 2}": "a.yaml contains buffer_size twice, the second time as 'capacity'",
    "{defaults: 3}": "a.yaml: defaults is 3; expected a list of files",
    "{defaults: [aa.yaml]}": "a.yaml: defaults: there is no configuration 'aa.yaml'; did you mean a.yaml?",
    "{defaults: [cartpole/dqnn]}": "no configuration 'cartpole/dqnn'; did you mean cartpole/dqn?",
    "": "configuration a.yaml is not a mapping",
    "a: [": "configuration a.yaml cannot be read",
}


def test_settings_that_files_reject(folder):
    for contents, message in REJECTED.items():
        (folder / "a.yaml").write_text(contents)
        with pytest.raises(UsageError) as caught:
            given("--config a.yaml")
        assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_included_twice_is_not_a_cycle(folder):
    (folder / "left.yaml").write_text("{defaults: [base.yaml], gamma: .3}")
    (folder / "right.yaml").write_text("defaults: [base.yaml]")
    (folder / "base.yaml").write_text("gamma: .1")
    (folder / "top.yaml").write_text("defaults: [left.yaml, right.yaml]")
    assert settings("--config top.yaml").gamma == 0.1, "the later one brings it again"


def test_a_run_prints_its_files():
    lines = prepare(given("--config mine.yaml"), [], None).lines
    assert lines[0].startswith("configuration mine.yaml over parts/smaller.yaml, parts/small.yaml, ")


def test_a_resumed_run_takes_what_may_change_from_the_file():
    saved = vars(settings("--config more.yaml"))
    assert settings_resumed(saved, given("--config more.yaml total_env_steps=99")).total_env_steps == 99
    with pytest.raises(UsageError, match="made with buffer_args"):
        settings_resumed(saved, given("--config per.yaml"))


def test_an_inputs_file_may_name_one(folder):
    (folder / "inputs.txt").write_text("--config more.yaml lr=.5\n4 CartPole-v1 True A 1 out DQN\n")
    (run,) = read_new({"inputs": Path("inputs.txt")})[0].runs
    made = resolve_settings(run.given())
    assert (made.buffer, made.buffer_args, made.lr, made.seed) == ("PER", {"alpha": 0.7, "beta": 0.1}, 0.5, 4)


def test_a_project_of_null_is_none(folder, capsys):
    (folder / "quiet.yaml").write_text("{env: CartPole-v1, trainer: DQN, wandb: null, mlflow: null}")
    made = settings("--config quiet.yaml")
    assert (made.wandb, made.mlflow) == (None, None)
    rejects(capsys, main, ["--config", "quiet.yaml", "wandb="], "wandb must be a name, got ''")


def test_presets_and_configurations_read_values_equally(folder):
    (folder / "p.yaml").write_text("everywhere: {actor_lr: [[0, 3e-4], [1000, 1e-5]], hiddens: [8], huber_delta: null}")
    made = settings("--preset p.yaml")
    assert (made.hiddens, made.huber_delta) == ([8], None)
    assert made.actor_lr == settings("--config rates.yaml").actor_lr
    assert presets.FOLDER.is_dir() and config_files.folder().is_dir() and CATALOGUE


ROOT = Path(__file__).resolve().parents[3]
BASES = ("base", "unrolls", "continuous")
SHIPPED = [name for name in config_files.names() if name.split("/")[1] not in BASES]


def shown(*words):
    return vars(settings_of_words(*words))


def test_every_file_names_its_sources():
    for name in config_files.names():
        text = (config_files.folder() / f"{name}.yaml").read_text()
        head = text[: text.index("\n", text.rindex("\n#"))] if "\n#" in text else text.split("\n")[0]
        assert text.startswith("#") and re.search(r"Source|arXiv|20\d\d|presets/", head), name


def test_a_run_has_the_settings_of_its_file():
    for name in SHIPPED:
        stated = yaml.safe_load((config_files.folder() / f"{name}.yaml").read_text())
        made = shown("--config", name)
        assert made["trainer"] == stated.pop("trainer") and stated.pop("defaults")
        arguments = stated.pop("buffer_arg", {})
        assert arguments.items() <= made["buffer_args"].items()
        for key, value in stated.items():
            assert made[key] == (None if value == "none" else value), (name, key)


def test_no_file_contradicts_the_presets():
    """The settings equal those of the same algorithm and environment without the file, which come from presets."""
    for name in SHIPPED:
        if name.startswith("atari/"):
            continue
        made = shown("--config", name)
        named = ["--preset", made["preset"]] if made["preset"] in ("redq", "droq") else []
        plain = shown("--trainer", made["trainer"], "--env", made["env"], *named)
        same = {"encoder": {"auto"}, "atoms": {"auto"}, "preset": {"values", plain["preset"]}}
        different = {key for key in made if made[key] != plain[key] and plain[key] not in same.get(key, ())}
        free = {"total_env_steps", "num_workers"} if plain["preset"] == "none" else set()
        assert different <= free, name


def test_the_files_of_the_discrete_groups_are_the_whole_of_it():
    for name in SHIPPED:
        made = shown("--config", name)
        assert made["preset"] == "none" or made["trainer"] not in VARIANTS


def test_atari_files_have_the_published_numbers():
    dqn, rainbow = shown("--config", "atari/dqn"), shown("--config", "atari/rainbow_dqn")
    assert (dqn["optimizer"], dqn["lr"], dqn["optimizer_eps"]) == ("RMSprop", 2.5e-4, 0.01 / 32**2)
    assert (dqn["grad_clip"], dqn["huber_delta"], dqn["final_epsilon"]) == (None, 1.0, 0.1)
    c51, qrdqn = shown("--config", "atari/c51"), shown("--config", "atari/qrdqn")
    assert (c51["lr"], c51["optimizer_eps"], qrdqn["lr"], qrdqn["atoms"]) == (2.5e-4, 0.01 / 32, 5e-5, 200)
    assert (rainbow["lr"], rainbow["optimizer_eps"], rainbow["n_step"]) == (6.25e-5, 1.5e-4, 3)
    assert rainbow["buffer"] == "PER" and rainbow["double"] and rainbow["dueling"] and rainbow["noisy"]
    for made in (dqn, c51, qrdqn, rainbow):
        steps = made["target_update_period"] / made["updates_per_step"]
        assert steps == (8_000 if made is rainbow else 10_000), "dqn_zoo counts env steps"


def test_the_page_lists_all_files_and_its_commands_are_valid():
    page = (ROOT / "docs" / "configurations.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)/` \|.*?\|([^|]+)\|$", page, re.MULTILINE))
    listed = [f"{group}/{name}" for group, files in rows.items() for name in re.findall(r"`(\w+)`", files)]
    assert sorted(listed) == sorted(SHIPPED) and config_files.folder() == ROOT / "configs"
    lines = re.findall(r"^(?:python custom_training.py|interreplay train) (--config (?!mine).*)$", page, re.MULTILINE)
    assert len(lines) == 3 and all(shown(*line.split()) for line in lines)


def test_a_file_a_flag_and_words_name_layers(folder):
    network = {"q": {"fc1": {"layer": "Linear", "out_features": 16}, "act": "ReLU", "out": "Linear"}}
    (folder / "layers.yaml").write_text(json.dumps({"trainer": "DQN", "env": "CartPole-v1", "network": network}))
    assert shown("--config", "layers.yaml")["network"] == network
    flag = ("--trainer", "DQN", "--env", "CartPole-v1", f"--network={json.dumps(network)}")
    assert shown(*flag)["network"] == network and shown(*flag[:4])["network"] is None
    made = shown("--config", "layers.yaml", "network.q.fc1.out_features=32", "network.q.act=Tanh")["network"]["q"]
    assert made == {"fc1": {"layer": "Linear", "out_features": 32}, "act": "Tanh", "out": "Linear"}
