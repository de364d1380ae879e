"""Recorded experience is read as it was recorded, from one mapped copy; errors are one line."""

import json
import logging
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import gymnasium as gym
import numpy as np
import pytest
import torch
from builders import identical, make
from kept_rows import SPACES, episodes_of, fill, save_buffer
from offline_data import episodes, minari_dataset, transitions

import replay_buffers
from interreplay import Offline
from interreplay.environments.registration import WRAPPED
from interreplay.errors import UsageError
from interreplay.experience.offline_data import open_rows
from interreplay.experience.offline_data.dataset import Conversion, Dataset
from interreplay.experience.offline_data.find import expand_pattern
from interreplay.experience.offline_data.minari_episodes import check_new, open_id, write
from interreplay.experience.offline_data.store import COPY, cache_folder
from interreplay.experience.recipes import make_source
from interreplay.experience.store import ExperienceStore
from interreplay.experience.store.minari_export import write_minari
from interreplay.experiments.evaluation.play import Recorder
from interreplay.experiments.flags.replay_flags import describe_source
from interreplay.experiments.flags.training_flags import make_parser, resolve_settings
from interreplay.part import Context
from interreplay.runs import state_files
from interreplay.runs.checkpoints import CHECKPOINT
from replay_buffers import NMER, PER, Uniform

pytest.importorskip("minari")
pytestmark = pytest.mark.usefixtures("minari_folder")


def spaces(env="Pendulum-v1"):
    made = gym.make(env)
    return made.observation_space, made.action_space


def everything(storage):
    return storage[torch.arange(len(storage))]


def plain(rows):
    """Return rows without ids and derived columns, because continuity is compared separately."""
    return rows.replace(episode=None, discounts=None)


def test_a_minari_dataset_by_id_and_by_folder_is_what_was_recorded(tmp_path):
    found = episodes()
    name = minari_dataset(found)
    storage = open_rows(f"minari:{name}", spaces())
    identical(plain(everything(storage)), plain(transitions(found)))
    assert storage.successor(torch.arange(100)).tolist() == [-1 if slot % 25 == 24 else slot + 1 for slot in range(100)]
    for path in (tmp_path / "minari" / name, tmp_path / "minari" / name / "data"):
        again = open_rows(str(path), spaces())
        assert again.key == storage.key
        identical(everything(again), everything(storage))
    assert open_rows(name).key == storage.key  # the dataset stores its spaces
    assert len(open_rows(name, where="env=Pendulum-v1, newest=30")) == 30


def checkpoint_of(buffer, folder):
    settings = {"env": {"setting": WRAPPED}, "env_config": {"setting": {"env": "Pendulum-v1"}}}
    state_files.save(folder, {"replay_buffer": buffer, "settings": settings})
    (folder / CHECKPOINT).write_text("{}")


def test_a_wrapped_saved_buffer_and_a_run_s_newest_checkpoint(tmp_path):
    found = transitions(episodes(6))
    buffer = PER(capacity=100, seed=0)
    for start in range(0, 150, 15):
        buffer.add(found[start : start + 15])
    state_files.save(tmp_path / "state", buffer.state_dict())
    state = {"sources": {"x": buffer.state_dict()}}
    state_files.write_atomically(tmp_path / "run" / "checkpoint_00000150", lambda folder: checkpoint_of(state, folder))
    for path in ("state", "run", "run/checkpoint_00000150"):
        storage = open_rows(str(tmp_path / path), spaces())
        identical(plain(everything(storage)), plain(found[50:]))
        assert len(storage) == 100
    assert len(open_rows(str(tmp_path / "run"), spaces(), where="env=Pendulum-v1")) == 100


def test_parts_of_actions_with_a_single_value_are_zero():
    rows = transitions(episodes(1))[:3].replace(actions=torch.tensor([[-1.0, 3.0], [0.0, 3.0], [0.5, 3.0]]))
    actions = gym.spaces.Box(np.array([-1.0, 3.0]), np.array([1.0, 3.0]), dtype=np.float32)
    dataset = Dataset("arm", [], lambda: iter([rows]), action_space=actions)
    (converted,) = Conversion(dataset, None).portions()
    assert converted.actions.tolist() == [[-1.0, 0.0], [0.0, 0.0], [0.5, 0.0]]


def test_the_second_opening_maps_the_copy_and_reads_nothing(monkeypatch):
    monkeypatch.setattr(state_files.arrays, "MAPPED", 1)
    name = minari_dataset(episodes())
    first = open_rows(name)
    monkeypatch.setattr("interreplay.experience.offline_data.store._copy", lambda *_: pytest.fail("copied again"))
    second = open_rows(name)
    identical(everything(first), everything(second))
    for storage in (first, second):
        assert any(str(cache_folder()) in line for line in mappings_at(storage.records.rows.data_ptr()))
    assert first.key == second.key and first.records.rows.data_ptr() != second.records.rows.data_ptr()


def mappings_at(address):
    """Return the lines of this process's memory map for the mapping that contains an address."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    ranges = [[int(end, 16) for end in line.split()[0].split("-")] for line in lines]
    return [line for line, (low, high) in zip(lines, ranges, strict=True) if low <= address < high]


@pytest.mark.slow
def test_pages_that_were_drawn_from_stay_shared(monkeypatch):
    monkeypatch.setattr(state_files.arrays, "MAPPED", 1)
    source = Offline(minari_dataset(episodes(40, 100)), "NMER", {"k": 3}, seed=0)
    for _ in range(20):
        source.sample(256)
    (line,) = mappings_at(source.storage.records.rows.data_ptr())
    about = Path("/proc/self/smaps").read_text().split(line)[1].split("VmFlags")[0]
    fields = (row.partition(":") for row in about.splitlines() if row.endswith("kB"))
    sizes = {name: int(value.split()[0]) for name, _, value in fields}
    assert sizes["Rss"] >= 4000 * source.storage.records.width // 1024 - 8
    assert sizes["Private_Dirty"] == 0 and sizes["Anonymous"] == 0


METHODS = {"Uniform": 3, "PER": 1, "NMER": 3, "LCER": 1, "ContinuousTransition": 3, "S4RL": 1, "BIER": 1}


@pytest.mark.parametrize(("method", "n_step"), METHODS.items())
def test_a_method_inside_is_that_method_with_all_rows(method, n_step):
    found, arguments = transitions(episodes()), {"n_clusters": 5} if method == "LCER" else {}
    source = Offline(minari_dataset(episodes()), method, arguments, n_step=n_step, seed=3)
    alone = getattr(replay_buffers, method)(capacity=len(found), n_step=n_step, seed=3, **arguments)
    alone.add(found)
    for _ in range(3):
        one, other = source.sample(16), alone.sample(16)
        assert torch.equal(one.slots, other.slots) and torch.equal(one.neighbor_slots, other.neighbor_slots)
        identical(plain(one.transitions), plain(other.transitions))
        errors = torch.linspace(0, 2, 16)
        source.update(one, errors)
        alone.update(other, errors)
    source.add(found)
    assert len(source) == len(found)


def test_a_state_holds_the_key_and_continues_bit_for_bit(tmp_path):
    name = minari_dataset(episodes())
    one, other = (Offline(name, method, {"k": 3}, seed=seed) for seed, method in ((1, "NMER"), (2, NMER)))
    one.sample(8)
    state = one.state_dict()
    assert set(state["storage"]) == {"key", "written"}
    key = state["storage"]["key"]
    state_files.save(tmp_path / "s", state)
    other.load_state_dict(state_files.load(tmp_path / "s"))
    for _ in range(3):
        identical(one.sample(8).transitions, other.sample(8).transitions)
    changed = Offline(minari_dataset(episodes(seed=9), "pendulum/other-v0"), "NMER", {"k": 3})
    with pytest.raises(ValueError, match=rf"has the key (?!{key})\w+ and 100 rows, the state has the key {key}"):
        changed.load_state_dict(state)
    with pytest.raises(ValueError, match="its rows are read-only"):
        one.buffer.add(transitions(episodes(1)))


def test_recorded_and_new_rows_have_their_own_priorities(tmp_path):
    rows = transitions(episodes())
    save_buffer(tmp_path / "state", rows)
    words = "--buffer NMER --buffer_arg k=3 --buffer_size 50 --prioritized_replay --prioritized_replay_alpha .7"
    words += f" --train_batch_size 32 --offline_data {tmp_path}/state"
    settings = resolve_settings(make_parser().given(words.split()))
    kind, arguments = describe_source(settings)
    mix = make_source(kind, {"seed": 0}, **arguments)
    mix.add(rows[:30])
    sample = mix.sample(64)
    assert sample.select_source(0)[0].slots.max() < 30 and sample.select_source(1)[0].slots.max() >= 30
    selectors = [mix.sources["online"].selector, mix.sources["offline"].buffer.selector]
    assert [selector.alpha for selector in selectors] == [0.7, 0.7]


def test_images_of_a_stack_are_stored_once_and_read_exactly(tmp_path):
    frames = np.random.default_rng(0).integers(0, 256, (34, 20, 20)).astype(np.uint8)
    stacks = np.stack([frames[i : i + 4] for i in range(31)])
    rows = make(30, ends=0.0).replace(obs=torch.from_numpy(stacks[:-1]), next_obs=torch.from_numpy(stacks[1:]))
    save_buffer(tmp_path / "state", rows)
    storage = open_rows(str(tmp_path / "state"))
    assert storage.nbytes < rows.obs.numel() / 2
    assert torch.equal(everything(storage).obs, rows.obs) and torch.equal(everything(storage).next_obs, rows.next_obs)


def refused(name, match, env="Pendulum-v1"):
    before = sorted(cache_folder().rglob("*")) if cache_folder().exists() else []
    with pytest.raises(UsageError, match=match) as caught:
        open_rows(str(name), spaces(env) if env else None)
    assert "\n" not in str(caught.value)
    after = sorted(cache_folder().rglob("*")) if cache_folder().exists() else []
    assert {path for path in after if path.name == COPY} == {path for path in before if path.name == COPY}


def test_invalid_episodes_are_reported_in_one_line():
    for number, (column, step, value, message) in enumerate(
        [
            ("rewards", 3, np.nan, "rewards holds nan in episode 1, row 3 of the portion read"),
            ("terminations", 4, True, "episode 1 ends at step 5 of 25; expected an end at the last step"),
        ]
    ):
        found = episodes(2)
        found[1][column][step] = value
        refused(minari_dataset(found, f"pendulum/broken-v{number}"), message)


def test_data_of_another_environment_is_rejected():
    name = minari_dataset(episodes())
    refused(name, r"another environment: its observations are Box.*\(3,\).*expected Box.*\(4,\)", "InvertedPendulum-v5")
    refused(name, r"another environment: its observations are Box.*expected", "CartPole-v1")
    with pytest.raises(UsageError, match=r"another environment: its actions are Box\(-2.0.*expected Box\(-1.0, 1.0"):
        open_rows(name, (spaces()[0], gym.spaces.Box(-1, 1, (1,))))
    image = gym.spaces.Box(0, 255, (4, 4), np.uint8)
    others = ((image, gym.spaces.Box(0, 1, (4, 4))), (gym.spaces.Discrete(16), gym.spaces.Discrete(64)))
    for recorded_space, other in others:
        dataset = Dataset("other", [], list, observation_space=recorded_space, action_space=spaces()[1])
        with pytest.raises(UsageError, match="another environment: its observations are .*; expected "):
            Conversion(dataset, (other, spaces()[1]))


def test_a_saved_buffer_of_another_environment_or_with_unknown_columns(tmp_path):
    rows = transitions(episodes(1))
    save_buffer(tmp_path / "wide", rows.replace(actions=torch.zeros(25, 2)))
    save_buffer(tmp_path / "units", rows.replace(actions=torch.full((25, 1), 1.5)))
    save_buffer(tmp_path / "extra", rows.replace(extras={"foo": torch.zeros(25)}))
    refused(tmp_path / "units", "belongs to another environment: actions holds 1.5; expected -1.0 to 1.0")
    refused(tmp_path / "wide", r"belongs to another environment: actions has shape \(2,\) per row.* have \(1,\)")
    refused(tmp_path / "extra", "has the unknown column foo; expected only the columns of transitions and behavior and")


@pytest.mark.parametrize("cut", [0, 0.3, 0.9])
def test_truncated_files_are_one_line(tmp_path, cut):
    name = minari_dataset(episodes())
    (file, *_) = sorted((tmp_path / "minari" / name / "data").rglob("*.arrow"))
    os.truncate(file, int(cut * file.stat().st_size))
    refused(name, "offline data minari:pendulum/random-v0 cannot be read")
    buffer = Uniform(capacity=50)
    buffer.add(transitions(episodes(1)))
    checkpoint = tmp_path / "checkpoint_00000001"
    state_files.write_atomically(checkpoint, lambda folder: checkpoint_of(buffer.state_dict(), folder))
    largest = max(checkpoint.rglob("*.safetensors"), key=lambda path: path.stat().st_size)
    os.truncate(largest, int(cut * largest.stat().st_size))
    refused(checkpoint, "cannot be read: .* has .* bytes; expected")


def test_missing_and_unknown_data_are_rejected(tmp_path):
    refused(tmp_path / "nowhere", "does not exist; expected a Minari dataset")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "has no known format; expected a Minari dataset")
    (tmp_path / "x.parquet").write_bytes(b"no parquet")
    refused(tmp_path / "x.parquet", "x.parquet cannot be read")
    refused("minari:what", "does not exist; expected an id with a version such as")


def test_a_pattern_leaves_out_runs_without_rows_and_finds_folders_of_parquet_files(tmp_path):
    buffer = Uniform(capacity=30)
    buffer.add(transitions(episodes(1)))
    states = {"kept": buffer.state_dict(), "empty": Uniform(capacity=30).state_dict(), "unrolls": {"sources": {}}}
    for run, state in states.items():
        checkpoint_of(state, tmp_path / "results" / run / "checkpoint_00000025")
    assert expand_pattern(str(tmp_path / "results" / "*")) == [str(tmp_path / "results" / "kept")]
    with pytest.raises(UsageError, match="1 paths match it, but none contains recorded experience"):
        expand_pattern(str(tmp_path / "results" / "em*"))
    refused(tmp_path / "results" / "empty", "holds no replayed transitions")
    damaged = tmp_path / "results" / "kept" / "checkpoint_00000025" / state_files.ARRAYS
    os.truncate(damaged, 10)
    assert len(expand_pattern(str(tmp_path / "results" / "*"))) == 1  # reported when it is read
    file = tmp_path / "recorded" / "cartpole-v1" / "run-000001-00001" / "0.parquet"  # as RLlib writes it
    file.parent.mkdir(parents=True)
    file.touch()
    assert expand_pattern(str(tmp_path / "rec*")) == [str(tmp_path / "recorded")]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """An imitation of Hugging Face with the signatures of the installed client; it serves the folder ``hub``."""
    client = pytest.importorskip("huggingface_hub").HfApi
    folder = tmp_path / "hub"
    made = mock.create_autospec(client)
    api = made.return_value

    def file(repo_id, filename, local_dir=None, **_):
        path = folder / repo_id.removeprefix("farama-minari/") / filename
        if local_dir is None:
            return str(path)
        target = Path(local_dir) / filename
        target.parent.mkdir(parents=True, exist_ok=True)
        return shutil.copy(path, target)

    def snapshot(repo_id, allow_patterns, local_dir, **_):
        name = allow_patterns.removesuffix("/*")
        shutil.copytree(folder / repo_id.removeprefix("farama-minari/") / name, Path(local_dir) / name)

    api.list_datasets.return_value = [SimpleNamespace(id="farama-minari/far")]
    api.hf_hub_download.side_effect = file
    api.snapshot_download.side_effect = snapshot
    monkeypatch.setattr("minari.storage.remotes.huggingface.HfApi", made)
    with monkeypatch.context() as there:
        there.setenv("MINARI_DATASETS_PATH", str(folder))
        minari_dataset(episodes(), "far/away-v0")
    (folder / "far" / "namespace_metadata.json").write_text(json.dumps({"datasets": ["far/away-v0"]}))
    return api


def test_the_client_of_the_default_remote_downloads_a_dataset(hub, tmp_path):
    storage = open_rows("minari:far/away-v0", spaces())
    identical(plain(everything(storage)), plain(transitions(episodes())))
    assert hub.snapshot_download.call_count == 1 and (tmp_path / "minari" / "far" / "away-v0" / "data").is_dir()
    assert open_rows("minari:far/away-v0", spaces()).key == storage.key
    assert hub.snapshot_download.call_count == 1


def test_a_failing_client_is_one_line(hub, capfd):
    def fails(*_, **__):
        logging.getLogger("huggingface_hub").warning("Retrying in 8s [Retry 5/5].")
        raise OSError("[Errno -2] Name or service\nnot known")

    hub.list_datasets.side_effect = fails
    remote = "is not on this machine and cannot be downloaded from hf://farama-minari: "
    refused("minari:far/away-v0", remote + r"\[Errno -2\] Name or service not known")
    hub.list_datasets.side_effect = lambda **_: [SimpleNamespace(id="farama-minari/far")]
    refused("minari:far/off-v0", remote + "Couldn't find any version for dataset far/off")
    assert "Retrying" not in capfd.readouterr().err


def test_impossible_metadata_is_one_line(tmp_path):
    name = minari_dataset(episodes(2))
    path = tmp_path / "minari" / name / "data" / "metadata.json"
    intact = json.loads(path.read_text())
    for total, value, reason in [
        ("total_steps", 2_000_000_000, "cannot be read: .*llocate|declares 2,000,000,000 steps"),
        ("total_steps", -5, "total_steps is -5; expected 1 to 2,147,483,647"),
        ("total_steps", 10**30, r"total_steps is 1e\+30; expected 1 to 2,147,483,647"),
        ("total_steps", 1e300, "cannot be read: capacity is 1000"),
        ("total_steps", 0, "holds no steps"),
        ("total_steps", "many", "cannot be read: .*'many'"),
        ("total_steps", float("nan"), "cannot be read: .*NaN"),
        ("total_episodes", 2_000_000_000, r"total_episodes is 2e\+09; expected 1 to [1-9],"),
        ("observation_space", '{"type":"Dict","subspaces":{"a":' * 5000 + "1" + "}}" * 5000, "recursion depth"),
    ]:
        path.write_text(json.dumps(intact | {total: value}))
        for place in (name, tmp_path / "minari" / name):
            refused(place, reason)


def test_an_impossible_saved_buffer_is_one_line(tmp_path):
    save_buffer(tmp_path / "state", transitions(episodes(1)))
    for entry, value, reason in [
        ("written", -5, "records -5 written rows; expected 1 or more"),
        ("capacity", -5, "cannot be read: capacity is -5"),
        ("capacity", 10**30, "cannot be read: capacity is 1000"),
        ("columns", [], "holds no replayed transitions"),
        ("rows", "x", "cannot be read: "),
    ]:
        state = state_files.load(tmp_path / "state")
        state["storage"][entry] = value
        state_files.save(tmp_path / f"{entry} {value}", state)
        refused(tmp_path / f"{entry} {value}", reason)


def test_a_damaged_copy_is_made_again_and_a_changed_dataset_is_another_one(tmp_path):
    name = minari_dataset(episodes())
    storage = open_rows(name)
    (copy,) = cache_folder().glob(f"*/{COPY}")
    os.truncate(next(copy.rglob("*.safetensors")), 10)
    again = open_rows(name)
    assert again.key == storage.key
    identical(everything(again), everything(storage))
    shutil.rmtree(tmp_path / "minari")
    minari_dataset(episodes(seed=5))
    assert open_rows(name).key != storage.key


def test_a_second_reader_waits_for_the_copy(monkeypatch):
    from interreplay.experience.offline_data import store

    name = minari_dataset(episodes())
    begun = threading.Event()
    released = threading.Event()

    def slow(*given, copy=store._copy):
        assert not begun.is_set(), "the second reader copies, too"
        begun.set()
        released.wait()
        copy(*given)

    monkeypatch.setattr(store, "_copy", slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(open_rows, name)
        begun.wait()
        second = pool.submit(open_rows, name)
        released.set()
        assert first.result().key == second.result().key


def test_a_cache_that_cannot_be_written_to_is_named(tmp_path, monkeypatch):
    name = minari_dataset(episodes())
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("INTERREPLAY_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"the cache of offline data \(INTERREPLAY_CACHE\) .*cannot be written to"):
        open_rows(name)


def test_missing_columns_of_a_method_are_reported():
    with pytest.raises(ValueError, match="lacks the column behavior, which Elite needs"):
        len(Offline(minari_dataset(episodes()), "Elite"))
    with pytest.raises(ValueError, match="NMER takes no argument 'kk'; did you mean k"):
        Offline("opened later", "NMER", {"kk": 3})
    with pytest.raises(UsageError, match="offline data: the list is empty; expected at least one path or id"):
        Offline([])


def test_data_of_another_kind_of_policy_is_rejected_before_training(tmp_path):
    save_buffer(tmp_path / "rows", transitions(episodes(1)).replace(extras={"behavior": torch.zeros(25, 1)}))
    source = Offline(tmp_path / "rows", "Elite", spaces=spaces())
    with pytest.raises(UsageError, match="behavior has 1 values per row, and the policy of this run returns 2; expect"):
        source.connect(Context(policy=lambda obs: torch.zeros(len(obs), 2)))
    source.connect(Context(policy=lambda obs: torch.zeros(len(obs), 1), policy_is_gaussian=False))
    assert len(source.sample(4).slots) == 4


def recorded(name, observation_space, action_space, observations, actions):
    """Write one episode of given observations and actions as a Minari dataset."""
    steps = len(actions)
    episode = {"observations": observations, "actions": actions, "rewards": [1.0] * steps}
    episode |= {"terminations": np.arange(1, steps + 1) == steps, "truncations": [False] * steps}
    write(name, [episode], (observation_space, action_space), None, "none")
    return open_rows(name, (observation_space, action_space))


def test_discrete_actions_are_numbers_from_0_on_and_float64_is_narrowed():
    box, rng = gym.spaces.Box(-9, 9, (2,), np.float64), np.random.default_rng(0)
    seen = rng.normal(size=(6, 2))
    storage = recorded("line/discrete-v0", box, gym.spaces.Discrete(3, start=5), list(seen), np.array([5, 6, 7, 5, 6]))
    rows = everything(storage)
    assert rows.actions.tolist() == [0, 1, 2, 0, 1] and rows.actions.dtype == torch.int64
    assert rows.obs.dtype == torch.float32 and np.allclose(rows.next_obs, seen[1:], atol=1e-6)
    assert rows.terminated.tolist() == [False] * 4 + [True] and not rows.truncated.any()


def test_nested_observations_are_named_parts():
    box = gym.spaces.Box(-9, 9, (2,), np.float32)
    space = gym.spaces.Dict({"arm": gym.spaces.Dict({"pose": box}), "goal": box})
    pose, goal = np.random.default_rng(0).normal(size=(2, 6, 2)).astype(np.float32)
    bounded = gym.spaces.Box(np.array([-1.0, 0.0]), np.array([3.0, 4.0]), dtype=np.float32)
    given = np.array([[-1.0, 4.0], [3.0, 0.0], [1.0, 2.0], [0.0, 1.0], [5.0, 2.0]], np.float32)
    storage = recorded("line/nested-v0", space, bounded, {"arm": {"pose": list(pose)}, "goal": list(goal)}, given)
    rows = everything(storage)
    assert set(rows.obs) == {"arm/pose", "goal"} and torch.equal(rows.obs["arm/pose"], torch.from_numpy(pose[:-1]))
    assert torch.equal(rows.next_obs["goal"], torch.from_numpy(goal[1:]))
    expected = [[-1.0, 1.0], [1.0, -1.0], [0.0, 0.0], [-0.5, -0.5], [1.0, 0.0]]  # values beyond the bounds are clipped
    assert rows.actions.tolist() == expected


def test_actions_with_parts_are_one_vector_and_rewards_receive_the_parts(tmp_path):
    torques = {"b": gym.spaces.Box(-2, 2, (1,), np.float64), "a": gym.spaces.Box(0, 4, (2,), np.int64)}
    nested = (SPACES[0], gym.spaces.Dict(torques))
    rows = episodes_of([5, 4])
    stored = torch.tensor([-1.0, -0.5, 0.25]).repeat(len(rows), 1)  # a: 0 and 1, b: 0.5
    folder = fill(tmp_path / "run", rows.replace(actions=stored), env="Parts-v0", spaces=nested)
    write_minari(ExperienceStore(folder), "parts/kept-v0")

    def reward(obs, action, next_obs, **columns):
        assert action["b"].dtype == np.float32
        return action["a"].sum(axis=1) + action["b"][:, 0]

    for data in (str(folder), "minari:parts/kept-v0"):
        for known in (None, nested):
            found = everything(open_rows(data, known, relabel=reward))
            assert torch.equal(found.obs, rows.obs) and torch.equal(found.actions, stored)
            assert torch.equal(found.rewards, torch.full((9,), 1.5))
    other = (SPACES[0], gym.spaces.Dict(torques | {"b": gym.spaces.Box(-3, 3, (1,), np.float64)}))
    with pytest.raises(UsageError, match="belongs to another environment: its actions are Dict"):
        open_rows(str(folder), other)


def test_keys_with_slashes_are_rejected_before_anything_is_recorded(tmp_path):
    box = gym.spaces.Box(-9, 9, (2,), np.float32)
    space = gym.spaces.Tuple((gym.spaces.Dict({"a": gym.spaces.Dict({"b/c": box})}),))
    rows = episodes_of([5])
    parts = {"0/a/b/c": rows.obs[:, :2]}
    rows = rows.replace(obs=parts, next_obs=parts)
    folder = fill(tmp_path / "run", rows, env="Parts-v0", spaces=(space, SPACES[1]))
    env = gym.Env()
    env.observation_space = space
    env.action_space = SPACES[1]
    for act in (lambda: write_minari(ExperienceStore(folder), "parts/kept-v0"), lambda: Recorder(env)):
        with pytest.raises(UsageError, match=r"Minari cannot store the key 'b/c' of Dict\(.*expected keys without"):
            act()


def test_exported_images_are_not_compressed(tmp_path):
    pytest.importorskip("minari", "0.5.4")
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3)).astype(np.uint8))
    rows = episodes_of([5]).replace(obs=images[:-1], next_obs=images[1:])
    seen = (gym.spaces.Box(0, 255, (32, 32, 3), np.uint8), SPACES[1])
    write_minari(ExperienceStore(fill(tmp_path / "run", rows, spaces=seen)), "images/kept-v0")
    assert torch.equal(everything(open_rows("minari:images/kept-v0", seen)).next_obs, images[1:])


@pytest.mark.slow
def test_a_lost_life_ends_an_exported_episode():
    rows = episodes_of([10, 8])
    terminated = rows.terminated.clone()
    terminated[4] = True  # the game continues
    store = ExperienceStore(fill(cache_folder() / "lives", rows.replace(terminated=terminated), env="Lives-v0"))
    assert write_minari(store, "lives/kept-v0") == "lives/kept-v0 (3 episodes, 18 steps)"
    found = everything(open_rows("minari:lives/kept-v0", SPACES))
    torch.testing.assert_close(found.actions, rows.actions)
    identical(plain(found.replace(actions=rows.actions)), plain(rows.replace(terminated=terminated)))
    assert write_minari(store, "lives/newest-v0", newest=1) == "lives/newest-v0 (1 episodes, 8 steps)"


def test_a_folder_of_minari_that_cannot_be_used_is_reported(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "file" / "minari"))
    for act in (check_new, open_id):
        with pytest.raises(UsageError, match=r"file/minari cannot be used \(Not a directory\); the variable MINARI"):
            act("pendulum/sac-v0")
