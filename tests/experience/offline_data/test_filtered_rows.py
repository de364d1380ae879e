"""Several sources together, with conditions and recomputed rewards, compared with plain loops."""

import copy
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from builders import require_same_samples
from kept_rows import SPACES, episodes_of, equal, fill, save_buffer
from offline_data import HIGH, episodes, transitions

from interreplay import Mix, Offline, Storage
from interreplay.environments.relabeled import Relabel, Relabeled, module_name
from interreplay.errors import UsageError
from interreplay.experience.offline_data import collection, open_rows
from interreplay.experience.offline_data.collection import Collection, number_episodes
from interreplay.experience.offline_data.dataset import Dataset
from interreplay.experience.offline_data.where import Where
from interreplay.experience.store import ExperienceStore
from interreplay.rllib.env_runner.runner_state import restore_env, save_env
from interreplay.transitions import cat

pytestmark = pytest.mark.usefixtures("own_cache")
ROOT = Path(__file__).resolve().parents[3]
FIRST = episodes_of([5, 20, 1, 9], seed=1)
SECOND = episodes_of([7, 3, 12], seed=2)


def stored(rows):
    """Return the rows of a storage as they were added, with other episode ids."""
    return rows[torch.arange(len(rows))]


def same_but_ids(ours, theirs):
    return equal(ours.replace(episode=None), theirs.replace(episode=None))


@pytest.fixture
def names(tmp_path):
    """Return the paths of two stores, which contain FIRST and SECOND."""
    fill(tmp_path / "a", FIRST, version=0)
    fill(tmp_path / "b", SECOND, version=100)
    return [str(tmp_path / "a"), str(tmp_path / "b")]


def joined(*rows):
    return cat([row.replace(discounts=None) for row in rows])


def test_several_stores_are_one_after_the_other(names):
    storage = open_rows(names, SPACES)
    assert same_but_ids(stored(storage), joined(FIRST, SECOND))
    ids = stored(storage).episode
    assert len(ids.unique()) == 7 and set(ids[:35].tolist()).isdisjoint(ids[35:].tolist())
    assert open_rows(names, SPACES).key == storage.key != open_rows(names[:1], SPACES).key


def test_rows_of_several_stores_are_copied_one_portion_after_the_other(names, monkeypatch):
    events = []
    portions = Collection.portions
    add = Storage.add

    def read(self):
        for rows in portions(self):
            events.append("read")
            yield rows

    monkeypatch.setattr(Collection, "portions", read)
    monkeypatch.setattr(Storage, "add", lambda self, rows: events.append("added") or add(self, rows))
    assert len(open_rows(names, SPACES, where="version>=30")) == 27
    assert events == ["read", "added"] * 2


def test_a_dataset_without_rows_adds_none_to_the_others(names, monkeypatch):
    empty = Dataset("empty", [Path(__file__)], lambda: iter(()), normalized=True)
    found = {name: collection.find_dataset(name) for name in names} | {"empty": empty}
    monkeypatch.setattr(collection, "find_dataset", found.get)
    assert len(open_rows([names[0], "empty"], SPACES)) == 35


def test_a_run_that_is_named_twice_or_copied_is_read_once(tmp_path, names):
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    shutil.copytree(tmp_path / "a", tmp_path / "run" / "experience")
    all_names = [*names, names[0], str(tmp_path / "copy"), str(tmp_path / "run"), str(tmp_path / "[ab]")]
    assert len(open_rows(all_names, SPACES)) == 35 + 22
    assert len(open_rows(str(tmp_path / "*"), SPACES)) == 35 + 22  # the cache has no known format


@pytest.fixture
def _named_files(monkeypatch):
    """Datasets without an id whose files are the characters of their names."""
    monkeypatch.setattr(collection, "expand_pattern", lambda name: [name])
    monkeypatch.setattr(collection, "find_dataset", lambda name: Dataset(name, [Path(file) for file in name], list))


@pytest.mark.usefixtures("_named_files")
def test_each_file_of_a_folder_is_read_once():
    for given, expected in (("a ab", "ab"), ("ab b a", "ab"), ("a c b abd abd", "c abd"), ("a b", "a b")):
        assert [dataset.name for dataset in collection._unique(given.split())] == expected.split(), given
    with pytest.raises(UsageError, match="offline data bcd and abc share 2 files, but each has others; expected"):
        collection._unique(["abc", "bcd"])


def returns_of(rows):
    found: dict[int, float] = {}
    for episode, reward in zip(rows.episode.tolist(), rows.rewards.tolist(), strict=True):
        found[episode] = found.get(episode, 0.0) + reward
    return found


def test_the_return_of_episodes(names):
    level = 0.5
    parts = []
    for rows in (FIRST, SECOND):
        returns = returns_of(rows)
        keep = [returns[episode] >= level for episode in rows.episode.tolist()]
        parts.append(rows[torch.tensor(keep)])
    expected = joined(*parts)
    found = stored(open_rows(names, SPACES, where=f"return>={level}"))
    assert 0 < len(expected) < 57 and same_but_ids(found, expected)


def test_unfinished_episodes_have_no_return(tmp_path):
    rows = episodes_of([5, 5, 5])
    rows = rows.replace(rewards=torch.ones(15))
    fill(tmp_path / "cut", rows[:14])
    found = stored(open_rows(str(tmp_path / "cut"), SPACES, where="return>=-1"))
    assert torch.equal(found.obs, rows[:10].obs)

    def endless(obs, action, next_obs, **columns):
        return columns["reward"], np.zeros(len(obs), bool)

    found = stored(open_rows(str(tmp_path / "cut"), SPACES, where="return>=-1", relabel=endless))
    assert torch.equal(found.obs, rows[:10].obs)  # a recorded end is one although the new terminations omit it


def test_the_version_of_the_policy(names):
    expected = joined(FIRST[30:], SECOND)  # versions 0 to 34 and 100 to 121
    assert same_but_ids(stored(open_rows(names, SPACES, where="version>=30")), expected)
    assert torch.equal(stored(open_rows(names, SPACES, where="version>=110")).obs, SECOND.obs[10:])


def test_the_newest_rows(names):
    assert torch.equal(stored(open_rows(names, SPACES, where="newest=30")).obs, joined(FIRST[27:], SECOND).obs)
    assert torch.equal(stored(open_rows(names[::-1], SPACES, where="newest=22")).obs, SECOND.obs)
    assert len(open_rows(names, SPACES, where="newest=1_000")) == 57


def test_success(tmp_path):
    rows = episodes_of([5, 20, 1, 9])
    reached = torch.zeros(35, dtype=torch.bool)
    reached[[7, 30]] = True
    fill(tmp_path / "a", rows.replace(extras={"success": reached}))
    found = stored(open_rows(str(tmp_path / "a"), SPACES, where="success"))
    expected = joined(rows[5:25], rows[26:])
    assert torch.equal(found.obs, expected.obs) and found.extras["success"].sum() == 2
    assert ExperienceStore(tmp_path / "a").episodes().success.tolist() == [False, True, False, True]
    save_buffer(tmp_path / "b", rows)
    with pytest.raises(UsageError, match="b does not record successes"):
        open_rows([str(tmp_path / "a"), str(tmp_path / "b")], SPACES, where="success")
    both = stored(open_rows([str(tmp_path / "a"), str(tmp_path / "b")], SPACES))
    assert len(both) == 70 and not both.extras  # columns that all have


def test_the_environment(tmp_path, names):
    fill(tmp_path / "c", SECOND, env="Other-v0")
    assert len(open_rows([*names, str(tmp_path / "c")], SPACES, where="env=Other-v0")) == 22
    with pytest.raises(UsageError, match="no rows of Hopper-v5 in offline data .*; expected Other-v0 or Pendulum-v1"):
        open_rows([*names, str(tmp_path / "c")], SPACES, where="env=Hopper-v5")


def test_sources_of_other_spaces_are_rejected_with_the_condition_that_leaves_them_out(tmp_path, names):
    wide = (gym.spaces.Box(-np.inf, np.inf, (3,), np.float32), gym.spaces.Box(-9.0, 9.0, (1,), np.float32))
    with pytest.raises(UsageError, match="a belongs to another environment: its actions are "):
        open_rows(names, wide)
    fill(tmp_path / "c", SECOND, env="Other-v0")
    with pytest.raises(UsageError, match="select an environment with --offline_where env=ID .*: Other-v0, Pendulum-v1"):
        open_rows([*names, str(tmp_path / "c")], wide)


def test_conditions_are_read_from_text():
    for text, expected in {
        "return>=1.5, success, version>=3, newest=1e3, env=A/B-v1": Where("A/B-v1", 1.5, True, 3, 1000),
        "": Where(),
        "return>=5432.126": Where(min_return=5432.126),
        "return>=1e-7": Where(min_return=np.float64(1e-7)),
    }.items():
        assert Where.parse(text) == expected == Where.parse(str(expected)), text


MALFORMED = "return>5 newest=0 newest=1.5e0 newest=1e999 return>=nan age=3 success=1 version>= version>=-1"


@pytest.mark.parametrize("text", [*MALFORMED.split(), 5])
def test_malformed_conditions_are_rejected(text):
    with pytest.raises(UsageError, match="expected conditions, separated by commas, such as return>=500"):
        Where.parse(text)


def test_a_second_condition_of_one_kind_is_rejected():
    with pytest.raises(UsageError, match="'newest=5' is the second condition of its kind"):
        Where.parse("newest=10, success, newest=5")


def test_no_row_fulfills_the_conditions(tmp_path, names):
    with pytest.raises(UsageError, match="no rows with return>=1000000 in offline data .* and 1 more$"):
        open_rows(names, SPACES, where="return>=1e6")
    with pytest.raises(UsageError, match="0 paths match it"):
        open_rows(str(tmp_path / "nothing*"), SPACES)


def test_numbers_of_episodes_end_at_ends_and_interleave():
    ids = np.array([5, 5, 9, 5, 9, 5, 5])
    ends = np.array([0, 1, 0, 0, 0, 0, 0], bool)
    assert number_episodes(ids, ends).tolist() == [0, 0, 2, 1, 2, 1, 1]


# -- other rewards ----------------------------------------------------------------------------------


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, obs, action, next_obs, **columns):
        return self.factor * columns["reward"]


def scaled_with_a_lock(factor):
    lock = threading.Lock()  # cannot be pickled

    def scaled(*_, reward, **rest):
        with lock:
            return factor * reward

    return scaled


MAKERS = {
    "closure": lambda factor: lambda *_, reward, **rest: factor * reward,
    "method": lambda factor: Scaled(factor).__call__,
    "object": Scaled,
    "lock": scaled_with_a_lock,
    "default": lambda factor: lambda *_, reward, factor=factor, **rest: factor * reward,
    "code": {2.0: lambda *_, reward, **rest: 2.0 * reward, 3.0: lambda *_, reward, **rest: 3.0 * reward}.get,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_functions_of_one_name_have_their_own_rows(names, kind):
    for factor in (2.0, 3.0) if kind == "code" else (2.0, 3.0, 4.0, 5.0):
        function = MAKERS[kind](factor)  # at the address of one that was deleted before
        rows = stored(open_rows(names[:1], SPACES, relabel=function))
        assert torch.allclose(rows.rewards, factor * FIRST.rewards), factor


def test_actions_in_other_units_have_their_own_rewards(tmp_path):
    save_buffer(tmp_path / "buffer", episodes_of([5]))  # without the bounds of actions
    reward = lambda obs, action, next_obs, **columns: action[:, 0]
    for bound in (1.0, 2.0):
        actions = gym.spaces.Box(-bound, bound, SPACES[1].shape)
        rows = stored(open_rows(str(tmp_path / "buffer"), (SPACES[0], actions), relabel=reward))
        assert torch.allclose(rows.rewards, bound * rows.actions[:, 0])


def test_equal_functions_share_their_rows():
    for kind in ("method", "closure"):
        assert Relabel(MAKERS[kind](5.0)).digest == Relabel(MAKERS[kind](5.0)).digest, kind


@pytest.mark.slow
def test_the_digest_of_a_function_is_the_same_in_every_process(tmp_path):
    """Addresses of inner code and the order of sets differ between processes."""
    (tmp_path / "rewards.py").write_text(
        "def reward(obs, action, next_obs, **columns):\n"
        "    return [len(row) if 'x' in {'a', 'b', 'c'} else 0.0 for row in obs], (lambda: 1, ('d', 'e'))\n"
    )
    program = "import rewards; from interreplay.environments.relabeled import *; print(Relabel(rewards.reward).digest)"
    digests = set()
    for seed in "12":
        own = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
        command = [sys.executable, "-c", program]
        digests.add(subprocess.run(command, env=own, capture_output=True, check=True).stdout)
    assert len(digests) == 1


def test_other_rewards_and_ends_as_a_plain_loop_computes_them(names):

    def reward(obs, action, next_obs, reward, terminated, truncated):
        assert obs.dtype == action.dtype == np.float32 and terminated.dtype == bool
        return next_obs[:, 0] - obs[:, 0] + action[:, 0], next_obs[:, 1] > 1.5

    rows = stored(open_rows(names, SPACES, relabel=reward))
    both = joined(FIRST, SECOND)
    for i in range(57):
        expected = both.next_obs[i, 0] - both.obs[i, 0] + HIGH * both.actions[i, 0]
        assert float(rows.rewards[i]) == pytest.approx(float(expected), abs=1e-5)
        assert bool(rows.terminated[i]) == bool(both.next_obs[i, 1] > 1.5)
    storage = open_rows(names, SPACES, relabel=reward)
    following = storage.successor(torch.arange(57))
    ended = rows.terminated | rows.truncated
    assert (following[ended] == -1).all()
    inside = (~ended).nonzero()[:, 0]
    assert torch.equal(following[inside], inside + 1)
    assert len(rows.episode.unique()) == len(torch.unique_consecutive(rows.episode))
    level = 0.0
    filtered = stored(open_rows(names, SPACES, relabel=reward, where=f"return>={level}"))
    returns = returns_of(rows)
    assert len(filtered) == sum(returns[episode] >= level for episode in rows.episode.tolist())


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (lambda n: np.where(np.arange(n) < 13, 0.0, np.nan), "returned nan for row 13 of .*a after its first 0 rows"),
        (lambda n: np.zeros((n, 1)), r"returned rewards of shape \(35, 1\); expected \(35,\)"),
        (lambda n: (np.zeros(n),) * 3, "returned 3 values; expected rewards, or rewards and terminations"),
        (lambda n: ["x"] * n, "returned rewards that are not numbers"),
        (lambda n: (np.zeros(n), np.zeros(3, bool)), r"returned terminations of shape \(3,\); expected \(35,\)"),
        (lambda n: 1 / 0, "failed on .*ZeroDivisionError.*test_filtered_rows.py, line"),
    ],
)
def test_wrong_rewards_are_rejected(names, values, expected):
    with pytest.raises(UsageError, match=expected):
        open_rows(names, SPACES, relabel=lambda obs, *_, **columns: values(len(obs)))


@pytest.fixture
def own_rewards(tmp_path, monkeypatch):
    """Write a file with reward functions to the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"rewards_{tmp_path.name.replace('-', '_')}"
    file = tmp_path / f"{name}.py"
    file.write_text("import numpy\n\ndef reward(obs, action, next_obs, *, reward, **_):\n    return 2.0 * reward\n")
    yield file
    sys.modules.pop(name, None)


def test_a_function_of_a_file_in_the_current_folder(names, own_rewards):
    rows = stored(open_rows(names[:1], SPACES, relabel=f"{own_rewards.name}:reward"))
    assert torch.equal(rows.rewards, 2.0 * FIRST.rewards)
    assert module_name(f"{own_rewards}:reward") == f"{own_rewards.stem}:reward"


def test_other_names_are_rejected(own_rewards, tmp_path):
    (tmp_path.parent / "outside.py").touch()
    for reference, expected in {
        "nothing.py:reward": "there is no file nothing.py",
        "rewards": "expected FILE.py:FUNCTION",
        "os:system": "names a module of the standard library",
        f"{own_rewards.stem}:rewards": "has no function 'rewards'; did you mean reward",
        f"{own_rewards.stem}:numpy": "numpy is not defined in",
        "../outside.py:reward": "the file is not in the current folder",
    }.items():
        with pytest.raises(UsageError, match=expected):
            Relabel(reference)


def test_an_environment_returns_the_rewards_that_stored_rows_get(tmp_path):
    def reward(obs, action, next_obs, **columns):
        return columns["reward"] + 3.0 * next_obs[:, 0] + action[:, 0], np.abs(next_obs[:, 2]) > 4.0

    (episode,) = episodes(1, steps=150)
    fill(tmp_path / "a", transitions([episode]))
    changed = Relabeled(gym.make("Pendulum-v1"), reward)
    changed.reset(seed=0)
    _, rewards, ends, *_ = zip(*map(changed.step, episode["actions"]), strict=True)
    spaces = (changed.observation_space, changed.action_space)
    found = stored(open_rows(str(tmp_path / "a"), spaces, relabel=reward))
    assert found.rewards.numpy() == pytest.approx(np.array(rewards), abs=1e-5)
    assert found.terminated.tolist() == list(ends) and 0 < sum(ends) < 150


def test_a_reward_function_may_change_its_inputs(tmp_path):
    def changing(obs, action, next_obs, **columns):
        for given in (obs, action, next_obs, *columns.values()):
            given[:] = 0
        return np.ones(len(obs))

    (episode,) = episodes(1, steps=5)
    changed = Relabeled(gym.make("Pendulum-v1"), changing)
    changed.reset(seed=0)
    actions = episode["actions"].copy()
    seen = [changed.step(action)[0] for action in actions]
    assert np.array_equal(seen, episode["observations"][1:]) and np.array_equal(actions, episode["actions"])
    rows = transitions([episode])
    fill(tmp_path / "a", rows)
    found = stored(open_rows(str(tmp_path / "a"), SPACES, relabel=changing))
    assert torch.equal(found.obs, rows.obs) and torch.equal(found.actions, rows.actions)


def test_a_relabeled_environment_can_be_saved_in_the_middle_of_an_episode():
    def reward(obs, action, next_obs, **columns):
        return next_obs[:, 2] - obs[:, 2]

    def steps(env):
        return [env.step(np.array([0.3], np.float32))[:2] for _ in range(5)]

    env, other = (Relabeled(gym.make("Pendulum-v1"), reward) for _ in range(2))
    env.reset(seed=1)
    steps(env)
    other.reset(seed=5)
    restore_env(other, save_env(env))
    for (obs, one), (other_obs, two) in zip(steps(env), steps(other), strict=True):
        assert one == two and np.array_equal(obs, other_obs)


def test_a_registered_relabeled_environment_passes_the_checks_of_gymnasium(recwarn):
    def entry_point():
        return Relabeled(gym.make("Pendulum-v1").unwrapped, lambda obs, action, next_obs, **columns: next_obs[:, 2])

    gym.make(gym.envs.registration.EnvSpec("Relabeled-v0", entry_point)).reset(seed=0)
    assert not [each for each in recwarn if "reset" in str(each.message)]


def test_changed_rewards_are_rejected_when_the_environment_is_made_again(own_rewards):
    relabel = Relabel(f"{own_rewards.stem}:reward")
    Relabeled(gym.make("Pendulum-v1"), relabel.name, relabel.digest)
    own_rewards.write_text(own_rewards.read_text().replace("2.0", "3.0"))
    with pytest.raises(UsageError, match="has changed since the run began: its source has the hash"):
        Relabeled(gym.make("Pendulum-v1"), relabel.name, relabel.digest)


def test_a_mix_draws_its_shares_from_several_runs(names):
    offline = {"type": "Offline", "data": names, "method": "NMER", "arguments": {"k": 2}, "where": "return>=-2"}
    mix = Mix({"online": "Uniform", "offline": offline}, {"offline": 0.5}, capacity=100, seed=0, spaces=SPACES)
    mix.add(episodes_of([30], seed=5))
    sample = mix.sample(40)
    assert sample.origins.bincount().tolist() == [20, 20]
    expected = Offline(names, where=Where(min_return=-2.0), spaces=SPACES)
    assert len(mix.sources["offline"]) == len(expected) < 57
    assert repr(expected) == f"Offline('{names[0]} and 1 more': Uniform)"


def test_an_offline_object_takes_the_arguments_of_the_mix_that_it_lacks(names):
    given = {"data": names, "method": "NMER", "arguments": {"k": 2}, "gamma": 0.5}
    draws = []
    for source in (Offline(**given), {"type": "Offline", **given}):
        earlier = Mix({"offline": source}, n_step=2)
        assert len(earlier) and (earlier.sources["offline"] is source or isinstance(source, dict))
        mix = Mix({"online": "Uniform", **earlier.recipe["sources"]}, capacity=100, n_step=3, gamma=0.9, seed=0)
        assert "buffer" not in vars(copy.deepcopy(earlier.sources["offline"]))
        draws.append(mix.sample(40))
    require_same_samples(*draws)
    assert 0.125 in draws[0].transitions.discounts
    wide = (SPACES[0], gym.spaces.Box(-9.0, 9.0, (1,), np.float32))
    with pytest.raises(UsageError, match="belongs to another environment: its actions are"):
        len(Mix({"offline": Offline(names)}, spaces=wide))


def test_paths_may_be_objects(names):
    path = Path(names[1])
    for data in (path, [path]):
        assert len(Offline(data, spaces=SPACES)) == len(SECOND)
    mix = Mix({"online": "Uniform", "offline": path}, capacity=100, spaces=SPACES)
    assert len(mix) == len(SECOND)


@pytest.mark.parametrize("data", [None, 3, {"a", "b"}])
def test_other_data_than_names_are_rejected(data):
    with pytest.raises(UsageError, match="expected a path or an id, or a list of them"):
        Offline(data)
