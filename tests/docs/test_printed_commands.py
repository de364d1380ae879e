"""Commands, flags and Python that README and docs print are valid, and those of two pages run with small budgets."""

import importlib
import json
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cluster_run import main as cluster_run
from interreplay import ModelBased
from interreplay.experiments.commands import actor_learner, lcer, run_agent
from interreplay.experiments.flags.original_flags import ORIGINAL
from interreplay.experiments.flags.reading import use_underscores
from interreplay.experiments.flags.run_flags import FLAGS, GROUPS
from interreplay.experiments.flags.training_flags import make_parser, resolve_settings
from tests.experiments.commands.parsers import PARSERS, RLLIB

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "cluster_deployment" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(\.venv/bin/)?(python (-m interreplay(\.analysis)?|\S+\.py)|interreplay(-train|-study)?|rllib) ")
INLINE = re.compile(r"`([^`\n]+)`")
FLAG = re.compile(r"(?<![\w-])--([A-Za-z][\w-]*)")


def printed_commands(text: str) -> list[str]:
    """Return the commands in the code of a page, without those that are abbreviated by an ellipsis.

    In prose, "`interreplay report`" and "`rllib train --config`" are names, not commands.
    """
    lines = []
    for language, block in BLOCK.findall(text):
        if language != "python":
            lines += block.replace("\\\n", " ").splitlines()
    for line in FENCED.sub("", text).splitlines():
        spans = INLINE.findall(line)
        if not line.startswith("|"):
            spans = [span for span in spans if len(span.split()) > 2 and not span.split()[-1].startswith("--")]
        lines += spans
    stripped = [line.strip().removeprefix("$ ") for line in lines]
    return [line for line in stripped if COMMAND.match(line) and " ..." not in line.partition("#")[0]]


def printed_flags(text: str) -> set[str]:
    """Return the names of the flags in the text and the code of a page, with ``_`` between their words."""
    return {name.replace("-", "_") for name in FLAG.findall(text)}


PLACEHOLDERS = {"N": "1", "$seed": "0", "$buffer": "NMER"}
SCRIPTS = {
    "custom_training.py": "train",
    "interreplay-train": "train",
    "cluster_run.py": "study",
    "enjoy.py": "evaluate",
    "interreplay-study": "study",
    "smoketest.py": "smoketest",
    "interreplay.analysis": "report",
}
"""Other names of the subcommands of `interreplay`."""


PRINTED = [(page, line) for page in PAGES for line in printed_commands(page.read_text())]


def accept(words: list[str]) -> None:
    """Parse a command without running it; raise an error if it is rejected."""
    words = words[1:] if words[0].endswith("python") else words
    words = words[1:] if words[0] == "-m" else words
    name, *rest = words[1:] if words[0] == "interreplay" else words
    name = Path(name).name
    if [name, *rest[:1]] == ["experience", "export"]:
        name = "experience export"
        rest = rest[1:]
    if name == "enjoy.py" and "--checkpoint" in rest:
        rest = lcer.translate_enjoy(rest)
    match SCRIPTS.get(name, name):
        case "train":
            given = make_parser().given(rest)
            if "resume" not in given and not re.search(r"my_|rewards\.py", " ".join(rest)):  # files of a user
                resolve_settings(given)
        case "run_agent.py":
            make_parser().given(run_agent.translate(rest))
        case "train.py":
            make_parser().given(lcer.translate(rest))
        case "main.py":
            actor_learner.translate(actor_learner.read(rest))
        case "study":
            PARSERS["study"].given(rest)
        case "submit.py":
            cut = rest.index("--") if "--" in rest else len(rest)
            args = PARSERS["submit.py"].parse_args(rest[:cut])
            PARSERS["study"].given([str(args.study), *rest[cut + 1 :]])
        case "rllib":
            RLLIB.parse_args([use_underscores(word) for word in rest])
        case known:
            PARSERS[known].parse_args([use_underscores(word) for word in rest])


@pytest.mark.parametrize(("page", "line"), PRINTED, ids=[f"{page.name}: {line}" for page, line in PRINTED])
def test_a_printed_command_is_accepted(page, line, tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text("env: Hopper-v5\n")
    monkeypatch.chdir(tmp_path)
    accept([PLACEHOLDERS.get(word, word) for word in shlex.split(line, comments=True)])


def test_all_commands_are_looked_at():
    names = {" ".join(line.split()[:2]) for _, line in PRINTED}
    assert len(PRINTED) > 80
    assert {"python custom_training.py", "python cluster_run.py", "interreplay report", "rllib train"} <= names


def test_commands_for_clusters_can_be_pasted_into_zsh():
    page = next(page for page in PAGES if page.parent.name == "cluster_deployment")
    blocks = page.read_text().split("```")[1::2]
    assert blocks and [line for block in blocks for line in block.splitlines() if "#" in line] == []


WITHOUT_EFFECT = (ORIGINAL[name] for name in ("without_value", "with_value", "default_only", "removed"))
TABLES = (*WITHOUT_EFFECT, actor_learner.DEFAULTS, actor_learner.GAMES)
OTHERS = {
    "sbatch and squeue": "array batch cpu_bind export job_name me no_kill nodelist ntasks parsable signal",
    "Docker and Apptainer": "build_arg cleanenv nv rm shm_size user",
    "CleanRL": "capture_video env_id no_autotune policy_frequency policy_lr q_lr total_timesteps track",
    "LCER's enjoy.py": "checkpoint make_gif n_enjoy_episodes",
    "pip": "index_url",
    "TensorBoard": "logdir",
    "an error message about an argument of a method": "k",
}
"""Flags of other programs on our pages."""


def known_flags() -> set[str]:
    names = set().union(*(parser._option_string_actions for parser in (*PARSERS.values(), lcer.make_parser())))
    found = {name.lstrip("-").replace("-", "_") for name in names}
    found.update(*TABLES, actor_learner.FIXED, actor_learner.IGNORED)
    for source in (ROOT / "benchmarks").rglob("*.py"):
        found |= {name.replace("-", "_") for name in re.findall(r'"--([\w-]+)"', source.read_text())}
    return found


def test_every_flag_on_our_pages_exists():
    known = known_flags()
    others = {name for names in OTHERS.values() for name in names.split()}
    assert others & FLAGS.keys() == set()
    named: set[str] = set()
    unknown = []
    for page in PAGES:
        flags = printed_flags(page.read_text())
        named |= flags
        unknown += [f"{page.name}: --{flag}" for flag in sorted(flags - known - others)]
    assert unknown == [] and others <= named and len(named) > 300


@pytest.mark.parametrize("words", [["--help"], [], ["--help", "all"]])
def test_argument_parser_prints_the_flags(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["argument_parser.py", *words])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "argument_parser.py"), run_name="__main__")
    out, err = capsys.readouterr()
    assert (ended.value.code, err) == (0, "") and out.startswith("usage: argument_parser.py ")
    for name in ("trainer", "env", "buffer", "buffer_arg", "total_env_steps"):
        assert f"--{name} " in out
    if words[1:]:
        assert all(f"--{name}" in out for name in FLAGS)
        assert all(f"\n{title}" in out for title in GROUPS)


def test_a_method_inside_another_one_is_written_as_the_page_shows_it():
    line = ["--buffer", "ModelBased", "--buffer_arg", 'real={"type": "LCER", "variant": "member"}']
    assert line[-1] in (ROOT / "docs" / "migration.md").read_text()
    made = resolve_settings(make_parser().given(["--env", "Hopper-v5", *line]))
    assert made.buffer_args["real"] == {"type": "LCER", "variant": "member"}


RUN_PAGES = ("migration.md", "models.md")
OURS = (
    "--total_env_steps 90 --steps_per_iteration 90 --learning_starts 60 --train_batch_size 16 --buffer_size 1000"
    " --hiddens 8,8 --updates_per_step 1 --evaluation_interval 0 --checkpoint_freq 0 --quiet"
)
MODEL = "--buffer_arg fit_every=60 --buffer_arg model_hiddens=8,8 --buffer_arg max_epochs=2 --buffer_arg rollouts=1"
SHORT = {
    "custom_training.py": OURS,
    "train.py": "--num-steps 90 --start-steps 60 --batch-size 16 --hidden-size 8 --eval-timesteps 90 --no-eval --quiet",
    "main.py": "--environment_max_steps=200 --feature_out_layer_size=16",
    "enjoy.py": "--n-enjoy-episodes 1",
}
"""Flags that make a command of each program short."""
COMMANDS = []
for _page in RUN_PAGES:
    for _line in printed_commands((ROOT / "docs" / _page).read_text()):
        if _line.startswith("python "):
            COMMANDS.append((_page, _line))


def ran(line: str, folder: Path) -> Path:
    """Run a command with a small budget in this process, and return the folder of its run."""
    words = shlex.split(line)
    program = words[1]
    words = [*words[2:], *shlex.split(SHORT[program])]
    if "ModelBased" in words or "mbpo" in words:
        words += shlex.split(MODEL)
    assert importlib.import_module(program.removesuffix(".py")).main([*words, "--output_dir", str(folder)]) == 0
    (run,) = folder.iterdir()
    return run


@pytest.mark.slow
@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[f"{page}: {line}" for page, line in COMMANDS])
def test_a_command_runs(page, line, tmp_path, capsys):
    words = shlex.split(line)
    if "RUN" in line:  # watches the run of the command before it on the page
        before = COMMANDS[COMMANDS.index((page, line)) - 1][1]
        run = ran(before, tmp_path / "results")
        words = [str(run) if word.endswith("RUN") else word for word in words]
        words += shlex.split(SHORT[words[1]])
        assert importlib.import_module(words[1].removesuffix(".py")).main(words[2:]) == 0
        assert "1 episode: return" in capsys.readouterr().out
        assert ("--make-gif" in line) == bool(list(run.parent.glob("*.gif")))
        return
    run = ran(line, tmp_path)
    settings = json.loads((run / "params.json").read_text())
    given = dict(zip(words, words[1:], strict=False))
    for flag, name in {"--trainer": "trainer", "--buffer": "buffer"}.items():
        assert settings[name] == given.get(flag, settings[name])
    if '"LCER"' in line:
        assert settings["buffer_args"]["real"] == {"type": "LCER", "variant": "member"}
    last = json.loads((run / "result.json").read_text().splitlines()[-1])
    assert last["num_env_steps_sampled_lifetime"] >= 90
    assert last["learners"]["default_policy"]["num_updates_lifetime"] > 0


def test_all_commands_of_these_pages_are_run():
    text = "".join((ROOT / "docs" / page).read_text() for page in RUN_PAGES)
    assert len(COMMANDS) >= 11 and text.count("\npython ") == len(COMMANDS)


def test_python_of_the_model_page_runs():
    """The configuration is built, not trained; `test_model_based_training.py` trains one."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "models.md").read_text(), re.DOTALL)
    scope = {"ModelBased": ModelBased}
    for block in blocks:
        exec(block, scope)
    config = scope["config"]
    config.validate()
    assert config.updates_per_step == 20 and len(blocks) == 2


README = (ROOT / "README.md").read_text()
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IN_README = [shlex.split(line) for line in re.findall(r"^\|[^|]+\| `([^`]+)` \|$", README, re.MULTILINE)]


def commands_of(*start: str) -> list[list[str]]:
    """Return the README's commands that begin with some words, without these words."""
    return [words[len(start) :] for words in IN_README if words[: len(start)] == list(start)]


def test_the_loop_without_ray():
    rng, n = np.random.default_rng(0), 400
    rows = {"obs": rng.normal(size=(n, 3)), "actions": rng.uniform(-1, 1, (n, 1)), "rewards": rng.normal(size=n)}
    rows |= {"next_obs": rng.normal(size=(n, 3)), "terminated": np.zeros(n, bool), "truncated": np.zeros(n, bool)}
    names = rows | {"td_errors": np.ones(256), "ids": np.arange(n)}
    (code,) = CODE.findall((ROOT / "docs" / "getting-started.md").read_text())
    exec(code.replace("1_000_000", "1_000"), names)
    assert names["sample"].transitions.obs.shape == (256, 3)


@pytest.mark.slow
def test_the_loop_with_ray_before_an_episode_has_ended(capsys):
    short = "config.reporting(min_sample_timesteps_per_iteration=20)\nalgo = config"
    (code,) = CODE.findall(README)
    code = code.replace("1_000_000", "1_000").replace("range(100)", "range(2)").replace("algo = config", short)
    names = {}
    exec(f"{code}\nalgo.stop()\n", names)
    assert capsys.readouterr().out.splitlines() == ["20 None", "40 None"]


def test_there_are_commands_of_every_kind():
    assert len(IN_README) == 14 and {words[0] for words in IN_README} == {"python", "interreplay", "rllib"}
    assert all((ROOT / words[1]).is_file() for words in IN_README if words[0] == "python")


def test_the_study_has_runs(capsys):
    (words,) = commands_of("interreplay", "study")
    assert cluster_run([*words, "--count"]) == 0 and capsys.readouterr().out == "10\n"


@pytest.mark.parametrize("torch", ["", "cpu"])
def test_make_installs_pytorch_from_the_requested_index(torch):
    words = ["make", "--dry-run", "--always-make", "install", f"TORCH={torch}"]
    lines = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    found = [line for line in lines.splitlines() if "download.pytorch.org" in line]
    assert len(found) == bool(torch)
    for line in found:
        own = re.sub(r"\S*python -m pip install", "echo", line)
        words = ["sh", "-c", own]
        printed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
        assert re.search(r"--index-url https://download.pytorch.org/whl/cpu torch==[\d.]+$", printed.strip())
