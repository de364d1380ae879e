"""The folder configs: flags accept every file, files agree with the presets, and the page lists them."""

import re
from pathlib import Path

import yaml

from interreplay.experiments.flags import config_files
from interreplay.learning.algorithms_table import VARIANTS
from tests.experiments.commands.command_lines import settings as settings_of_words

ROOT = Path(__file__).resolve().parents[3]
BASES = ("base", "unrolls", "continuous")
NAMES = [name for name in config_files.names() if name.split("/")[1] not in BASES]


def settings(*words):
    return vars(settings_of_words(*words))


def test_every_file_names_its_sources():
    for name in config_files.names():
        text = (config_files.folder() / f"{name}.yaml").read_text()
        head = text[: text.index("\n", text.rindex("\n#"))] if "\n#" in text else text.split("\n")[0]
        assert text.startswith("#") and re.search(r"Source|arXiv|20\d\d|presets/", head), name


def test_a_run_has_the_settings_of_its_file():
    for name in NAMES:
        stated = yaml.safe_load((config_files.folder() / f"{name}.yaml").read_text())
        made = settings("--config", name)
        assert made["trainer"] == stated.pop("trainer") and stated.pop("defaults")
        arguments = stated.pop("buffer_arg", {})
        assert arguments.items() <= made["buffer_args"].items()
        for key, value in stated.items():
            assert made[key] == (None if value == "none" else value), (name, key)


def test_no_file_contradicts_the_presets():
    """The settings equal those of the same algorithm and environment without the file, which come from presets."""
    for name in NAMES:
        if name.startswith("atari/"):
            continue
        made = settings("--config", name)
        named = ["--preset", made["preset"]] if made["preset"] in ("redq", "droq") else []
        plain = settings("--trainer", made["trainer"], "--env", made["env"], *named)
        same = {"encoder": {"auto"}, "atoms": {"auto"}, "preset": {"values", plain["preset"]}}
        different = {key for key in made if made[key] != plain[key] and plain[key] not in same.get(key, ())}
        free = {"total_env_steps", "num_workers"} if plain["preset"] == "none" else set()
        assert different <= free, name


def test_the_files_of_the_discrete_groups_are_the_whole_of_it():
    for name in NAMES:
        made = settings("--config", name)
        assert made["preset"] == "none" or made["trainer"] not in VARIANTS


def test_atari_files_have_the_published_numbers():
    dqn, rainbow = settings("--config", "atari/dqn"), settings("--config", "atari/rainbow_dqn")
    assert (dqn["optimizer"], dqn["lr"], dqn["optimizer_eps"]) == ("RMSprop", 2.5e-4, 0.01 / 32**2)
    assert (dqn["grad_clip"], dqn["huber_delta"], dqn["final_epsilon"]) == (None, 1.0, 0.1)
    c51, qrdqn = settings("--config", "atari/c51"), settings("--config", "atari/qrdqn")
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
    assert sorted(listed) == sorted(NAMES) and config_files.folder() == ROOT / "configs"
    lines = re.findall(r"^(?:python custom_training.py|interreplay train) (--config (?!mine).*)$", page, re.MULTILINE)
    assert len(lines) == 3 and all(settings(*line.split()) for line in lines)
