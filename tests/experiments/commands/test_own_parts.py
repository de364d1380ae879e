"""User-defined parts of a buffer, named on the command line and in studies, in a user's folder."""

import json
import re
import shlex
from pathlib import Path

import pytest

from interreplay.buffer.catalogue import make_buffer
from interreplay.errors import UsageError
from interreplay.experiments.commands.study import read_new
from interreplay.experiments.commands.train import run_name
from interreplay.experiments.flags.training_flags import make_parser, resolve_settings
from interreplay.experiments.studies.results_table import as_command
from interreplay.experiments.studies.study import StudyFolder
from interreplay.experiments.tune.hyperparameter_search import repeat_with_values
from interreplay.selection import Prioritized
from tests.experiments.commands.command_lines import users_folder

PAGE = Path(__file__).resolve().parents[3] / "docs" / "extending.md"


NAMES = {
    "": "SAC_Pendulum-v1_Uniform_s0",
    "--preset none --buffer NMER --buffer_arg k=3 --seed 2": "SAC_Pendulum-v1_NMER_s2",
    "--preset droq": "SAC_Pendulum-v1_Uniform-droq_s0",
    "--preset mine.yaml": "SAC_Pendulum-v1_Uniform-mine_s0",
    "--selector my_parts:Recent": "SAC_Pendulum-v1_ReplayBuffer-Recent_s0",
    "--selector Online --synthesizer my_parts:Mirror": "SAC_Pendulum-v1_ReplayBuffer-Online-Mirror_s0",
}


def test_the_folder_of_a_run_is_named_by_its_parts_and_its_preset(folder):
    (folder / "mine.yaml").write_text("about: mine\n")
    for words, name in NAMES.items():
        assert run_name(settings(*words.split())) == name


def as_a_module() -> str:
    """Return the classes on the page as a file, without the code that tries them."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    classes = [
        block.partition("\n\n\none, other = ")[0] for block in blocks if "class " in block and "rllib" not in block
    ]
    more = "from interreplay import ReplayBuffer\nfrom interreplay.synthesis import Mixup\n"
    return more + "from interreplay.synthesis.coefficient import Beta\n\n" + "\n\n".join(classes)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    broken = (
        "from interreplay.selection import Uniform\n"
        "class Fails(Uniform):\n    def __init__(self):\n        raise KeyError('nothing')\n"
    )
    yield from users_folder(tmp_path, monkeypatch, my_parts=as_a_module(), my_broken_parts=broken)


def settings(*words: str):
    return resolve_settings(make_parser().given(["--env", "Pendulum-v1", *words]))


def test_parts_without_a_buffer_make_one(folder):
    found = settings("--selector", "my_parts:Recent", "share=.2", "--neighborhood", "KNN", "k=3", "--synthesizer=Mixup")
    assert found.buffer == "ReplayBuffer"
    assert json.loads(json.dumps(found.buffer_args)) == {
        "selector": {"type": "my_parts:Recent", "share": 0.2},
        "neighborhood": {"type": "KNN", "k": 3},
        "synthesizer": {"type": "Mixup"},
    }
    buffer = make_buffer(found.buffer, {"seed": 1}, capacity=100, **found.buffer_args)
    names = [type(part).__name__ for part in buffer.parts.values()]
    assert names == ["Recent", "KNN", "Mixup"] and buffer.selector.share == 0.2 and buffer.neighborhood.k == 3


def test_a_method_of_the_catalogue_takes_a_part_that_it_has_an_argument_for(folder):
    found = settings("--buffer", "NMER", "--selector", "my_parts:Recent", "--buffer_arg", "k=4")
    assert found.buffer_args == {"selector": {"type": "my_parts:Recent"}, "k": 4}
    hindsight = settings("--buffer=HER", "--neighborhood", "KNN", "k=3", "--synthesizer", "Mixup")
    assert make_buffer("HER", capacity=100, **hindsight.buffer_args).neighborhood.partners.k == 3
    assert isinstance(make_buffer("NMER", capacity=9, selector={"type": "Prioritized"}).selector, Prioritized)


def test_a_user_defined_buffer_receives_its_arguments(folder):
    found = settings("--buffer", "my_parts:Timely", "--buffer_arg", "reach=50", "gamma=.9")
    assert (found.buffer, found.buffer_args, found.gamma) == ("my_parts:Timely", {"reach": 50}, 0.9)
    buffer = make_buffer(found.buffer, {"gamma": 0.9, "seed": 0}, capacity=100, **found.buffer_args)
    assert type(buffer).__name__ == "Timely" and buffer.neighborhood.reach == 50 and buffer.view.gamma == 0.9


def test_a_configuration_file_names_parts(folder):
    (folder / "mine.yaml").write_text("selector: my_parts:Recent share=.2\nneighborhood: {KNN: {k: 3}}\n")
    found = settings("--config", "mine.yaml")
    assert found.buffer_args["selector"] == {"type": "my_parts:Recent", "share": 0.2}
    assert found.buffer_args["neighborhood"] == {"type": "KNN", "k": 3}


WRONG = {
    "--buffer my_parts:Timley": ["my_parts has no 'Timley'", "did you mean Timely?"],
    "--buffer my_parts:Recent": ["Recent is not a subclass of ReplayBuffer", "accepted: Timely"],
    "--buffer my_parts:Timely --buffer_arg reech=3": ["'reech'", "did you mean reach?"],
    "--selector my_parts:Timely": ["Timely is not a subclass of Selector", "accepted: Recent"],
}


def test_errors_are_one_line(folder):
    for words, parts in WRONG.items():
        with pytest.raises(UsageError) as caught:
            settings(*words.split())
        assert "\n" not in str(caught.value)
        assert all(part in str(caught.value) for part in parts), caught.value


def test_the_error_of_a_part_names_its_place(folder):
    message = r"Fails cannot be created: KeyError: 'nothing' \(.*my_broken_parts.py, line 4\)"
    with pytest.raises(UsageError, match=message):
        make_buffer("ReplayBuffer", capacity=10, selector={"type": "my_broken_parts:Fails"})


STUDY = """
envs: [Pendulum-v1]
buffers:
  - my_parts:Timely: {reach: 50}
  - NMER: {k: 3, settings: {selector: my_parts:Recent share=.2}}
settings: {learning_starts: 60, train_batch_size: 32, buffer_size: 2000, hiddens: [16, 16], evaluation_num_episodes: 1,
           steps_per_iteration: 100, total_env_steps: 200}
"""


def test_a_study_names_runs_after_their_parts(folder):
    (folder / "mine.yaml").write_text(STUDY)
    planned, home = read_new({"study": "mine.yaml"})
    assert home.path.name == "mine"
    assert [run.label for run in planned.runs] == ["Timely(reach=50)", "NMER(selector=Recent(share=0.2),k=3)"]
    assert planned.runs[1].name == "SAC_Pendulum-v1_NMER-selector=Recent-share=0.2-k=3_s0"
    again = StudyFolder(folder / "again")
    again.begin(planned)
    found = [run.settings for run in again.read().runs]
    assert found[0].buffer == "my_parts:Timely"
    assert found[1].buffer_args == {"selector": {"type": "my_parts:Recent", "share": 0.2}, "k": 3}
    drawn = repeat_with_values(planned.runs, {"reach": "randint(3,30)"}, samples=2)
    assert [run.label for run in drawn].count(planned.runs[1].label) == 1
    reached = [run.flags["buffer_args"]["reach"] for run in drawn if run.flags["buffer"] == "my_parts:Timely"]
    assert len(reached) == 2 and all(reach in range(3, 30) for reach in reached)
    words = shlex.split(as_command(planned.runs[1]))[2:]
    assert resolve_settings(make_parser().given(words)).buffer_args == found[1].buffer_args
