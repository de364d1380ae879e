"""The commands and the Python of `docs/migration.md` and `docs/models.md` run, with small budgets.

`test_printed_commands.py` parses templates in tables, such as ``interreplay evaluate RUN --episodes N``.
"""

import importlib
import json
import re
import shlex
from pathlib import Path

import pytest

from interreplay import ModelBased
from tests.printed_commands import ROOT, printed_commands

PAGES = ("migration.md", "models.md")
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
for _page in PAGES:
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
    text = "".join((ROOT / "docs" / page).read_text() for page in PAGES)
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
