"""Studies in remote folders."""

from __future__ import annotations

import shutil
import uuid

import fsspec
import pytest

from interreplay.errors import UsageError
from interreplay.experiments.studies.remote_folder import Store, is_elsewhere
from interreplay.experiments.studies.study_folder import StudyFolder


@pytest.fixture
def store():
    found = Store(f"memory://{uuid.uuid4().hex}/study")
    yield found
    shutil.rmtree(found.here, ignore_errors=True)


def put(store: Store, name: str, text: str = "x") -> None:
    path = store.here / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def there(store: Store) -> set[str]:
    fs, root = fsspec.core.url_to_fs(store.uri)
    return {name.removeprefix(root).lstrip("/") for name in fs.find(root)}


def test_uris():
    assert is_elsewhere("s3://bucket/x") and is_elsewhere("memory://x")
    assert not is_elsewhere("results/x") and not is_elsewhere("file:///results/x")
    assert str(StudyFolder.at("file:///results/x").path) == "/results/x"


def test_pushed_files_are_pulled(store):
    for name in (
        "study.yaml",
        "run/status.json",
        "run/checkpoint_1/manifest.json",
        "run/checkpoint_1/a/b",
        "run/.lock",
    ):
        put(store, name, name)
    store.push("run")
    assert there(store) == {"run/status.json", "run/checkpoint_1/manifest.json", "run/checkpoint_1/a/b"}
    shutil.rmtree(store.here)
    store.pull(only=["status.json"])
    assert [p.name for p in store.here.rglob("*") if p.is_file()] == ["status.json"]
    store.pull("run")
    assert (store.here / "run/checkpoint_1/a/b").read_text() == "run/checkpoint_1/a/b"


def test_removed_checkpoints_and_unpushed_files_disappear(store):
    put(store, "run/checkpoint_1/manifest.json")
    put(store, "other/status.json")
    store.push()
    shutil.rmtree(store.here / "run/checkpoint_1")
    put(store, "run/checkpoint_2/manifest.json")
    store.push("run")
    assert there(store) == {"run/checkpoint_2/manifest.json", "other/status.json"}
    put(store, "run/progress.csv", "rows that were never pushed")
    store.pull("run")
    assert not (store.here / "run/progress.csv").exists()


@pytest.mark.parametrize("name", ["run/checkpoint_00000010", "run/best_checkpoint_00000010"])
def test_files_of_checkpoints_are_pushed_once(store, monkeypatch, name):
    put(store, f"{name}/weights"), put(store, "run/status.json")
    store.push("run")
    pushed, put_file = [], store._fs.put_file
    monkeypatch.setattr(store._fs, "put_file", lambda here, there: (pushed.append(there), put_file(here, there)))
    store.push("run")
    assert [path.rsplit("/", 1)[-1] for path in pushed] == ["status.json"]


def test_manifests_are_pushed_last(store, monkeypatch):
    put(store, "run/checkpoint_1/manifest.json")
    put(store, "run/checkpoint_1/z")
    put(store, "run/a_status.json")
    order = []
    fs = store._fs
    monkeypatch.setattr(fs, "put_file", lambda here, name: order.append(name.rsplit("/", 1)[-1]))
    store.push("run")
    assert order[-1] == "manifest.json" and len(order) == 3


@pytest.mark.parametrize("uri", ["nosuch://bucket/x", "memory2://x"])
def test_unknown_uris_are_rejected(uri):
    with pytest.raises(UsageError, match=f"--output_dir {uri} cannot be written to"):
        Store(uri)
