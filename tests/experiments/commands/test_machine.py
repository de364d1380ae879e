from __future__ import annotations

import psutil
import pytest

from interreplay.experiments.process.machine import free_memory, versions


def group(folder, limit, usage, files, cache=0):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / files[0]).write_text(f"{limit}\n")
    (folder / files[1]).write_text(f"{usage}\n")
    (folder / "memory.stat").write_text(f"anon 1\n{files[2]} {cache}\n")


V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


@pytest.fixture
def root(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    return tmp_path


def test_without_groups_the_machine_decides(root):
    available = psutil.virtual_memory().available
    assert free_memory(root=root / "nothing") == pytest.approx(available, rel=0.2)


def test_version_2_the_narrowest_group_decides_and_cached_files_count_as_free(root):
    (root / "proc/self/cgroup").write_text("0::/job/step\n")
    group(root / "sys/fs/cgroup/job/step", "max", 100, V2)
    group(root / "sys/fs/cgroup/job", 1000, 400, V2, cache=50)
    assert free_memory(root=root) == 650


def test_version_1(root):
    (root / "proc/self/cgroup").write_text("9:name=systemd:/\n5:cpu,memory:/job\n")
    group(root / "sys/fs/cgroup/memory/job", 1000, 400, V1)
    assert free_memory(root=root) == 600


def test_an_exceeded_limit_leaves_nothing(root):
    (root / "proc/self/cgroup").write_text("0::/\n")
    group(root / "sys/fs/cgroup", 100, 400, V2)
    assert free_memory(root=root) == 0


def test_versions():
    found = versions()
    assert found["torch"][0].isdigit()
    assert "ray" in found
