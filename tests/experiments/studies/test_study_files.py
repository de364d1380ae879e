"""Studies from files, flags and inputs files, without training."""

import json
import os
import shlex
import textwrap
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from builders import full_disk

from interreplay.errors import UsageError
from interreplay.experiments.commands import study as cluster_run
from interreplay.experiments.commands import study_checks
from interreplay.experiments.flags.training_flags import make_parser, resolve_settings
from interreplay.experiments.flags.values import split
from interreplay.experiments.studies import results_table
from interreplay.experiments.studies.grid import as_seeds, convert_settings, entry, read_seeds
from interreplay.experiments.studies.study import PlannedRun, StudyFolder, TrialFolder
from tests.experiments.commands.command_lines import code_of, rejects

ROOT = Path(__file__).resolve().parents[3]
GOOD = {"buffers": "[Uniform]", "envs": "[Pendulum-v1]", "trainers": "[SAC]", "seeds": "2"}


def refused(capsys, *words: object) -> str:
    """Return the one line of an error."""
    code = code_of(cluster_run.main, [str(word) for word in words])
    out, err = capsys.readouterr()
    assert code == 2 and out == "" and len(err.splitlines()) == 1 and err.startswith("cluster_run")
    return err


def planned(path, *words):
    """Return the study of a file and flags."""
    return cluster_run.read_new(cluster_run.make_parser().given([str(path), *words]))[0]


@pytest.fixture(autouse=True)
def _prog(monkeypatch):
    monkeypatch.setattr("sys.argv", ["cluster_run.py"])


@pytest.fixture
def file(tmp_path):
    def write(text: str = "", **changes: str):
        keys = GOOD | changes
        lines = "".join(f"{key}: {value}\n" for key, value in keys.items() if value)
        path = tmp_path / "study.yaml"
        path.write_text(textwrap.dedent(text) or lines)
        return path

    return write


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"buffers": "[NMR]"}, "unknown buffer 'NMR'; did you mean NMER? accepted: Attentive"),
        ({"envs": "[Pendulum-v9x]"}, "unknown environment 'Pendulum-v9x'; did you mean Pendulum"),
        ({"trainers": "[SACC]"}, "unknown trainer 'SACC'; did you mean SAC?"),
        ({"buffers": "[]"}, "buffers is empty"),
        ({"buffers": "[NMER, null]"}, "buffers has an empty entry; expected names only"),
        ({"settings": "{gamma: .9}\nsettings: {n_step: 3}"}, "found the key 'settings' twice"),
        ({"seeds": "[]"}, "seeds []: expected a number of seeds from 1 to 1000, such as 5, or a list of seeds"),
        ({"seeds": "20261126"}, "seeds 20261126: expected a number of seeds from 1 to 1000"),
        ({"seeds": "[0, 0]"}, "2 runs are called 'SAC_Pendulum-v1_Uniform_s0'"),
        ({"buffers": f"['Uniform{{label: {'x' * 190}}}']"}, "xxx... of a run has 209 bytes; expected at most 200"),
        ({"bufers": "[NMER]"}, "unknown 'bufers'; did you mean buffers? accepted: buffers, envs"),
        ({"total_env_steps": "5"}, "is a setting of the runs; expected settings: {total_env_steps: 5}"),
        ({"settings": "{total_env_step: 5}"}, "unknown 'total_env_step'; did you mean total_env_steps?"),
        ({"settings": "{total_env_steps: many}"}, "total_env_steps must be a whole number of at least 0, got 'many'"),
        ({"settings": "{buffer: NMER}"}, "buffer does not belong in a study; use buffers"),
        ({"settings": "[1]"}, "settings [1]: expected a mapping"),
        ({"buffers": "['NMER{kk: 3}']"}, "NMER takes no argument 'kk'; did you mean k?"),
        ({"buffers": "['NMER{k=3}']"}, "expected something like 'NMER{k: 10}'"),
        ({"buffers": "[NMER{k: 3}]"}, "entries with braces need quotes"),
        ({"buffers": "[{NMER: {k: 0}}]"}, "k is 0"),
        ({"buffers": "[3]"}, "buffer 3 is not a valid entry; expected a name"),
        ({"buffers": "[ReLo]", "trainers": "[CrossQ]"}, "which CrossQ does not provide; expected our SAC, TD3 or DDPG"),
        ({"buffers": "[LA3P]", "trainers": "[TQC]"}, "LA3P requires critic_loss, which TQC does not provide"),
        ({"buffers": "[ModelBased]", "envs": "[BipedalWalker-v3]"}, "no termination function for 'BipedalWalker-v3'"),
        ({"trainers": "[{TD3: {alpha_lr: 1}}]"}, "--alpha_lr is a setting of SAC, TQC, CrossQ; TD3 does not have it"),
        ({"max_concurrent": "-1"}, "max_concurrent must be a whole number of at least 1"),
        ({"settings": "{env_args: {graviti: 3}}"}, "'Pendulum-v1' takes no argument 'graviti'; accepted: g"),
        ({"grids": "[SAC]"}, "grids: expected a list of mappings"),
        ({"grids": "[{trainer: SAC}]"}, "grids: unknown 'trainer'; did you mean trainers?"),
    ],
)
def test_invalid_studies_are_one_line_before_anything_starts(changes, line, file, capsys, tmp_path):
    results = tmp_path / "results"
    for words in ([], ["--dry_run"]):
        assert line in refused(capsys, *words, "--results_dir", results, file(**changes))
    assert not results.exists()


@pytest.mark.parametrize(
    ("words", "runs", "fix"),
    [
        (["--max_concurrent", "2"], 2, "--max_concurrent 1 or a smaller --buffer_size"),
        (["--together", "1"], 3, "fewer runs or a smaller --buffer_size, because --together trains all runs at once"),
    ],
)
def test_runs_whose_buffers_do_not_fit_into_memory_together(words, runs, fix, file, capsys, tmp_path, monkeypatch):
    """A row of Pendulum-v1 takes 40 bytes; the buffers are larger than the runs are long."""
    study = file(seeds="3", settings="{total_env_steps: 1000}")
    monkeypatch.setattr(study_checks.machine, "free_memory", lambda: 79_000)
    size = f"{40_000 * runs / 1e9:.3g} GB"
    line = f"replay buffers of {runs} runs at a time take {size}, 7.9e-05 GB are free; expected {fix}"
    assert line in refused(capsys, *words, "--dry_run", "--output_dir", tmp_path / "results", study)
    monkeypatch.setattr(study_checks.machine, "free_memory", lambda: 121_000)
    assert cluster_run.main([*words, "--dry_run", "--output_dir", str(tmp_path / "results"), str(study)]) == 0


def test_settings_that_a_study_cannot_have(file, capsys, tmp_path):
    with_wandb = file(settings="{wandb: project}")
    assert "settings: wandb does not belong in a study" in refused(capsys, with_wandb, "--dry_run")
    forks = file(settings=f"{{fork_from: {tmp_path}/missing}}")
    words = [forks, "--dry_run", "--output_dir", tmp_path / "r"]
    assert f"--fork_from {tmp_path}/missing does not exist" in refused(capsys, *words)
    study, _ = cluster_run.read_new({"study": forks})
    StudyFolder(tmp_path / "r").begin(study)
    (tmp_path / "r" / "SAC_Pendulum-v1_Uniform_s0" / "checkpoint_00000100").mkdir(parents=True)
    TrialFolder(tmp_path / "r" / "SAC_Pendulum-v1_Uniform_s1").note(state="finished")
    assert cluster_run.main(list(map(str, words))) == 0, "runs that have begun do not need the parent"


def test_flags_that_a_grid_or_an_entry_overrides_are_rejected(file, capsys, tmp_path):
    for changes, words, line in (
        ({"envs": "[{Pendulum-v1: {gamma: 0.9}}]"}, "--gamma .8", "--gamma 0.8: a grid or an entry sets gamma 0.9 for"),
        ({"grids": "[{settings: {gamma: 0.9}}]"}, "--gamma .8", "SAC_Pendulum-v1_Uniform_s0; remove one of them"),
        ({"grids": "[{trainers: [SAC]}]"}, "--trainers TD3", "study.yaml also sets trainers; remove one of them"),
    ):
        assert line in refused(capsys, file(**changes), *words.split(), "--results_dir", tmp_path / "runs")


def test_flags_override_the_settings_of_the_file(file):
    path = file(envs="[{Pendulum-v1: {tau: 0.1, gamma: 0.8}}]", settings="{gamma: 0.9, updates_per_step: 2}")
    (run,) = planned(path, *"--gamma .8 --updates_per_step 1,20 --hiddens 8 8 --seeds 1".split()).runs
    expected = {"gamma": 0.8, "updates_per_step": 20.0, "hiddens": [8, 8], "tau": 0.1}
    assert {name: run.flags[name] for name in expected} == expected


def test_the_folder_of_another_study_is_rejected(file, capsys, tmp_path):
    StudyFolder(tmp_path / "other").begin(planned(file()))
    for words in ([], ["--dry_run"], ["--count"], ["--run", "0"]):
        line = refused(capsys, file(seeds="3"), "--results_dir", tmp_path / "other", *words)
        assert "holds another study; choose another folder, or resume that study: --resume" in line, words


def test_a_dry_run_rejects_a_folder_of_other_files_and_writes_nothing(file, capsys, tmp_path):
    folder = tmp_path / "runs"
    words = [str(file()), "--results_dir", str(folder), "--dry_run"]
    assert cluster_run.main(words) == 0
    assert not folder.exists()
    folder.mkdir()
    (folder / "notes.txt").touch()
    capsys.readouterr()
    assert "holds 'notes.txt' and no study; choose a new folder" in refused(capsys, *words)


def test_finished_runs_need_no_gpus(file, capsys, tmp_path):
    study = planned(file())
    folder = StudyFolder(tmp_path / "r")
    folder.begin(study)
    words = ["--resume", str(tmp_path / "r"), "--dry_run", "--gpus_per_trial", "99"]
    assert "--gpus_per_trial 99" in refused(capsys, *words)
    for run in study.runs:
        folder.trial(run).note(state="finished")
    assert cluster_run.main(words) == 0


def test_the_grid_is_all_combinations_ordered_by_seed(file):
    path = file("""
        grids:
          - trainers: [SAC]
            buffers: [Uniform, "NMER{k: 3}", {LCER: {variant: member, label: LCER-RM, settings: {gamma: 0.9}}}]
          - {trainers: [{TD3: {tau: 0.02}}], buffers: [Uniform]}
        envs: [Pendulum-v1, {InvertedPendulum-v5: {total_env_steps: 2e3}}]
        seeds: [4, 2]
        settings: {total_env_steps: 1_000, hiddens: [32, 16]}
        cpus_per_trial: 2
    """)
    study, folder = cluster_run.read_new({"study": path})
    assert folder.path.name == "study" and study.execution.cpus_per_trial == 2
    assert [run.seed for run in study.runs] == [4] * 8 + [2] * 8
    names = [run.name for run in study.runs[:8]]
    assert len(set(names)) == 8 and names[-1] == "TD3_InvertedPendulum-v5_Uniform_s4"
    by_name = {run.name: run for run in study.runs}
    flags = by_name["SAC_InvertedPendulum-v5_LCER-RM_s2"].flags
    assert flags["gamma"] == 0.9 and flags["total_env_steps"] == 2000 and flags["buffer_args"] == {"variant": "member"}
    assert by_name["SAC_Pendulum-v1_Uniform_s4"].flags["total_env_steps"] == 1000
    settings = cluster_run.make_run_settings(study, folder, by_name["TD3_Pendulum-v1_Uniform_s4"])
    assert (settings["tau"], settings["hiddens"], settings["threads"]) == (0.02, [32, 16], 2)


def test_settings_equal_those_of_custom_training(file):
    path = file(buffers='["NMER{k: 3}"]', settings="{gamma: 0.9, hiddens: [8], buffer_size: 1e4, env_args: {g: 5}}")
    study, folder = cluster_run.read_new({"study": path})
    line = "--buffer NMER --kneighbors 3 --gamma .9 --hiddens 8 --buffer_size 10000 --env Pendulum-v1 --seed 1"
    line += " --env_args g=5"
    expected = vars(resolve_settings(make_parser().given(line.split())))
    mine = cluster_run.make_run_settings(study, folder, study.runs[1])
    for name in ("output_dir", "keep_experience"):  # a study has other defaults
        del mine[name], expected[name]
    assert mine == expected


def test_truth_values_in_mappings_equal_those_of_custom_training(file):
    names = {"buffers": "[ReplayBuffer]", "envs": "[CartPole-v1]", "trainers": "[DQN]"}
    selector = "selector: {type: Prioritized, alpha: 0.5, beta: null}"
    runs = planned(file(**names, settings=f"{{env_args: {{sutton_barto_reward: true}}, {selector}}}")).runs
    words = "--env_args sutton_barto_reward=true --selector Prioritized alpha=.5 beta=none"
    assert runs == planned(file(**names), *words.split()).runs
    assert runs[0].flags["env_args"] == {"sutton_barto_reward": True}
    assert runs[0].flags["selector"] == {"type": "Prioritized", "alpha": 0.5, "beta": None}
    noise = {"exploration": {"type": "my_noise:Sticky", "decays": True, "end": None}}
    assert convert_settings(noise) == noise


def test_a_study_file_may_leave_the_preset_empty(file):
    assert planned(file(settings="{preset: null}")).runs[0].settings == planned(file()).runs[0].settings


def test_a_study_file_may_leave_the_number_of_parallel_runs_empty(file):
    assert planned(file(max_concurrent="null")).execution == planned(file()).execution


def test_a_study_accepts_the_folders_that_a_pattern_matched(tmp_path):
    paths = [f"{tmp_path}/{number:0200}" for number in range(30)]
    assert convert_settings({"offline_data": paths}) == {"offline_data": paths}


def test_a_study_is_read_from_its_folder(file, tmp_path):
    study = planned(file(buffers='[Uniform, "NMER{k: 3}"]', max_failures="5"))
    folder = StudyFolder(tmp_path / "results")
    folder.begin(study)
    folder.begin(study)  # the same command again
    assert folder.read() == study
    assert folder.read().runs[1].given()["buffer_arg"] == [("k", 3)]
    assert "name: SAC_Pendulum-v1_NMER-k=3_s0," in (folder.path / "study.yaml").read_text()


def test_a_full_disk_is_one_line(file, tmp_path, capsys, monkeypatch):
    study, folder = cluster_run.read_new({"study": file(), "output_dir": str(tmp_path / "r")})
    folder.begin(study)
    monkeypatch.setattr(os, "fsync", full_disk)
    line = refused(capsys, "--output_dir", tmp_path / "new", file())
    assert f"{tmp_path / 'new' / 'study.yaml'} cannot be written (No space left on device); expected free space" in line
    with pytest.raises(UsageError, match=r"runs.csv cannot be written \(No space left"):
        results_table.write(folder, study.runs)


def test_damaged_study_folders_are_rejected(tmp_path, capsys):
    run = "trainer: SAC, env: Pendulum-v1, label: Uniform, flags: {}"
    wrong = (f"runs: [{{{run}, seed: one}}]", f"{{max_failures: two, runs: [{{{run}, seed: 0}}]}}")
    for text in ("runs: [", "runs: 3", "{}", "runs: [{nam: x}]", "runs: [[1]]", *wrong):
        (tmp_path / "study.yaml").write_text(text)
        assert "damaged" in refused(capsys, "--resume", tmp_path)


def test_a_study_file_may_follow_a_flag_without_a_value(file, capsys):
    for words in (["--count"], ["--count", "True"], ["--count", "--dry-run"]):
        assert cluster_run.main([*words, str(file())]) == 0
        assert capsys.readouterr().out == "2\n", words


def test_count_and_the_original_inputs_file(tmp_path, capsys):
    inputs = tmp_path / "inputs.txt"
    runs = "0 Pendulum-v0 True NMER 1 out SAC\n\n1 Pendulum-v0 True NMER 20 out TD3\n"
    inputs.write_text(f"--learning_starts 100 --kneighbors 5\n{runs}")
    assert cluster_run.main(["--inputs", str(inputs), "--count"]) == 0
    assert capsys.readouterr().out == "2\n"
    study, folder = cluster_run.read_new({"inputs": inputs})
    assert folder.path.name == "out"
    assert [run.name for run in study.runs] == ["SAC_Pendulum-v1_NMER_s0", "TD3_Pendulum-v1_NMER_s1"]
    settings = cluster_run.make_run_settings(study, folder, study.runs[1])
    assert (settings["updates_per_step"], settings["buffer"], settings["buffer_args"]) == (20, "NMER", {"k": 5})


def test_invalid_inputs_files(tmp_path, capsys):
    for text, line in {
        b"\n0 Pendulum-v1 True NMER 1 SAC\n": "line 2: 6 words; expected 7: seed env custom_replay_buffer",
        b"--gama 1\n0 Pendulum-v1 True A 1 out SAC\n": "line 1: unknown flag --gama; did you mean --gamma?",
        b"\nx Pendulum-v1 True A 1 out SAC\n": "line 2: argument --seed: must be a whole number",
        b"\n0 Pendulum-v1 maybe A 1 out SAC\n": "must be True or False, got 'maybe'",
        b"\n0 Pendulum-v1 True A 1 out SAC\n0 Pendulum-v1 True A 1 out SAC\n": "2 runs are called",
        b"\n0 Pendulum-v1 True A 1 a SAC\n1 Pendulum-v1 True A 1 b SAC\n": "names 2 folders; choose one with --outp",
        b"--seed '\n": "line 1: No closing quotation",
        b"\x89PNG": "inputs.txt cannot be read: 'utf-8' codec",
    }.items():
        (tmp_path / "inputs.txt").write_bytes(text)
        assert line in refused(capsys, "--inputs", tmp_path / "inputs.txt", "--count")


def test_words_and_entries():
    assert split("Uniform, NMER{k: 10, alpha: 1} PER[a b]") == ["Uniform", "NMER{k: 10, alpha: 1}", "PER[a b]"]
    assert entry("NMER{k: 10}", "buffer") == entry({"NMER": {"k": 10}}, "buffer") == ("NMER", {"k": 10})
    assert read_seeds(3) == [0, 1, 2] and read_seeds([7]) == [7]
    assert [as_seeds([text]) for text in ("5", "[5]", "[0, 3]")] == [5, [5], [0, 3]] and as_seeds(["0", "3"]) == [0, 3]
    for bad in (True, -1, "3", [1.5], [True], [-1], None):
        with pytest.raises(UsageError):
            read_seeds(bad)


def test_a_search_draws_the_settings_of_each_method(file):
    search = "{k: 'randint(3, 30)', tau: 'loguniform(.001, .1)'}"
    study = planned(file(trainers="[SAC, TD3]", buffers="[Uniform, NMER]", search=search, num_samples="4"))
    assert len(study.runs) == 32  # four draws for each algorithm, method and seed
    by_name = {run.name: run for run in study.runs}
    one, other = (by_name[f"SAC_Pendulum-v1_NMER_002_s{seed}"] for seed in (0, 1))
    assert one.sampled == other.sampled == {"k": one.flags["buffer_args"]["k"], "tau": one.flags["tau"]}
    assert 3 <= one.sampled["k"] < 30 and 0.001 <= one.sampled["tau"] <= 0.1
    assert len({run.sampled["tau"] for run in study.runs}) == 16  # k is only NMER's
    assert by_name["SAC_Pendulum-v1_Uniform_002_s0"].sampled.keys() == {"tau"}
    given = cluster_run.make_parser().given(["--search", "k=randint(3,30),alpha=uniform(.2, 2)", "--buffers", "NMER"])
    assert len(cluster_run.read_new(given)[0].runs) == 10


def test_the_best_draw_of_each_environment_is_over_all_trainers_and_finished():
    rows = []
    runs = []
    for env, trainer, draw, state, final in [
        ("b", "SAC", "1", "finished", 1.0),
        ("b", "TD3", "2", "finished", 3.0),
        ("b", "TD3", "3", "stopped early", 9.0),
        ("a", "SAC", "1", "interrupted", 5.0),
    ]:
        runs.append(PlannedRun(trainer, env, draw, 0, {}, {"k": 3}))
        rows.append({"name": runs[-1].name, "env": env, "trainer": trainer, "buffer": draw, "state": state})
        rows[-1]["final_return"] = final
    assert results_table.best_draws(pd.DataFrame(rows), runs) == [runs[1]]


def test_values_of_a_search_are_read_by_flags_and_written_as_in_the_file_of_the_study(file, tmp_path):
    for number, sizes in enumerate(("'64,64'", "(64,64)")):
        search = f"hiddens=choice([{sizes}]),buffer_size=quniform(1000,2000,500)"
        study = planned(file(), "--num_samples", "1", "--search", search)
        assert study.runs[0].flags["hiddens"] == [64, 64] and isinstance(study.runs[0].flags["buffer_size"], int)
        for _ in range(2):  # tasks of an array begin the same study
            StudyFolder(tmp_path / str(number)).begin(study)


def test_a_missing_cluster_is_one_line(file, tmp_path, capsys):
    words = [str(file()), "--results_dir", str(tmp_path / "r"), "--address", "127.0.0.1:1"]
    rejects(capsys, cluster_run.main, words, "no Ray cluster at --address 127.0.0.1:1 (")


@pytest.mark.parametrize("name", ["../../x", "..", "a/b", ""])
def test_names_of_runs_never_leave_the_folder(name, file, tmp_path, capsys):
    label = f"{{Uniform: {{label: '{name}'}}}}"
    study = planned(file(buffers=f"[{label}]", seeds="1", envs="[Pendulum-v1]"))
    assert all("/" not in run.name and run.name.startswith("SAC_Pendulum-v1_") for run in study.runs)
    folder = StudyFolder(tmp_path / "results")
    folder.begin(study)
    text = (folder.path / "study.yaml").read_text()
    (folder.path / "study.yaml").write_text(text.replace(f"name: {study.runs[0].name},", f"name: '{name}x/y',"))
    assert folder.read().runs[0].name == study.runs[0].name
    (tmp_path / "...yaml").write_text((tmp_path / "study.yaml").read_text())
    assert "the study file's name '..': expected" in refused(capsys, tmp_path / "...yaml")


@pytest.mark.slow
def test_the_studies_in_this_repository_are_valid():
    for path in (ROOT / "studies").glob("*.yaml"):
        assert cluster_run.main(["--count", str(path)]) == 0, path


def test_the_printed_command_has_the_settings_of_the_run(file):
    network = {"q": {"fc1": {"layer": "Linear", "out_features": 16, "bias": False}, "out": "Linear"}}
    settings = {"lr": [[0, 0.001], [1000, 0.0001]], "network": network, "wrapper": [], "hiddens": [8, 8]}
    settings |= {"grad_clip": None, "env_args": {"sutton_barto_reward": True}}
    run = planned(file(envs="[CartPole-v1]", trainers="[DQN]", settings=json.dumps(settings))).runs[1]
    words = shlex.split(results_table.as_command(run))[2:]
    expected = resolve_settings(run.given())
    assert expected.lr == [[0, 0.001], [1000, 0.0001]] and expected.network == network
    assert resolve_settings(make_parser().given(words)) == expected


def test_the_reason_of_a_lost_process_is_recorded_once(file, tmp_path, monkeypatch, capsys):
    lost = "its process ended with SIGKILL"

    def run_together(jobs, execution, reporter):
        TrialFolder(jobs[1][0]).note_failure("RuntimeError: the simulator broke")
        reporter.on_event("fail", jobs[0][0].name, {"reason": lost})
        reporter.on_event("fail", jobs[1][0].name, {"reason": "RuntimeError: the simulator broke"})
        return 1

    monkeypatch.setattr("interreplay.experiments.tune.run_together.run_together", run_together)
    study, folder = cluster_run.read_new({"study": file(together="1"), "output_dir": str(tmp_path / "runs")})
    assert cluster_run.run_all(study, folder, "local") == 1
    for run, reason in zip(study.runs, (lost, "RuntimeError: the simulator broke"), strict=True):
        status = folder.trial(run).status()
        assert (status["state"], status["failures"]) == ("failed", [reason])
    assert lost in capsys.readouterr().out.partition("reason")[2]


def test_the_closing_table_fits_100_columns():
    returns = {f"{part}_{end}": -12_345.6 for part in ("final", "mean") for end in ("return", "low", "high")}
    label = "NMER(k=10,alpha=0.75,selector=Prioritized(alpha=0.6))"
    row = {"env": "HalfCheetah-v5", "trainer": "SAC", "buffer": label, "n": 10} | returns
    lines = results_table.as_text(pd.DataFrame([row, row | {"buffer": "Uniform"}])).splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[-2].split()[:5] == ["HalfCheetah-v5", "SAC", "Uniform", "10", "-12,345.6"]
    assert results_table.align([("a", "b, c"), ("dd", "e")], width=100) == "a   b, c\ndd  e"


def test_processes_may_begin_a_study_at_the_same_time(file, tmp_path, monkeypatch):
    study = planned(file())
    folder = StudyFolder(tmp_path / "results")

    def listdir(path):
        monkeypatch.undo()
        StudyFolder(path).begin(study)  # another process, at this moment
        return os.listdir(path)

    monkeypatch.setattr("interreplay.experiments.studies.study.os.listdir", listdir)
    folder.begin(study)
    assert folder.read() == study


def test_a_single_run_has_no_scheduler_and_the_last_one_writes_the_tables(file, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("interreplay.experiments.tune.study_run.run_single", lambda *arguments: 0)
    given = {"study": file(), "scheduler": "asha", "output_dir": str(tmp_path / "runs")}
    study, folder = cluster_run.read_new(given)
    study = replace(study, execution=replace(study.execution, scheduler="asha"))
    assert cluster_run.run_one(study, folder, 0) == 0
    assert "--scheduler asha has no effect with --run" in capsys.readouterr().out
    first, last = (folder.trial(run) for run in study.runs)
    first.note(state="finished")
    (first.path / "result.json").write_text('{"env_runners": {"episode_return_me')
    assert cluster_run.run_one(study, folder, 0) == 0 and not (folder.path / "runs.csv").exists()
    last.note(state="failed")
    assert cluster_run.run_one(study, folder, 1) == 0
    rows = pd.read_csv(folder.path / "runs.csv")
    assert rows["state"].tolist() == ["finished", "failed"] and rows["final_return"].isna().all()
