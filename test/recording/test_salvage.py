# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A process that is killed leaves what it had flushed, and only that."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip('rosbags')
pytest.importorskip('mcap_ros2')

from recordings import WAIT, read, taped

from openpi_policy_ros.errors import PolicyRosError
from openpi_policy_ros.recording.reader import Recording, bags
from openpi_policy_ros.recording.salvage import is_whole, repair

CHILD = """
import sys, time
from pathlib import Path
from recordings import taped
with taped(Path(sys.argv[1])) as tape:
    value = 0
    while True:
        tape.ask(float(value))
        value += 1
        print(value, flush=True)
        time.sleep(0.02)
"""
TEST = Path(__file__).resolve().parents[1]


@pytest.fixture(scope='module')
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bag of 30 inferences in several chunks, without its metadata.yaml."""
    folder = tmp_path_factory.mktemp('cut')
    with taped(folder) as tape:
        for value in range(30):
            tape.ask(float(value))
            if value % 7 == 6:
                end = time.monotonic() + WAIT
                while tape.recorder.stats.waiting or any(
                    bag.bag.dirty for bag in tape.recorder._bags.values()
                ):
                    assert time.monotonic() < end, 'never flushed'
                    time.sleep(0.02)
    (bag,) = tape.bags
    (bag / 'metadata.yaml').unlink()
    return bag


def test_a_killed_process_leaves_all_but_the_last_second(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, '-c', CHILD, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, 'PYTHONPATH': f'{TEST}:{TEST / "recording"}'},
    )
    assert child.stdout is not None
    began, told = time.monotonic(), 0
    try:
        for line in child.stdout:
            told = int(line)
            if time.monotonic() - began > WAIT or told >= 150:
                break
        child.send_signal(signal.SIGKILL)
        assert child.wait(WAIT) == -signal.SIGKILL
    finally:
        child.kill()
        child.stdout.close()
    (bag,) = bags(tmp_path)
    assert not is_whole(bag)
    with pytest.raises(PolicyRosError, match='openpi-policy replay --repair'):
        Recording(bag)
    repair(bag)
    assert is_whole(bag)
    values = [one.request.observation['value'] for one in Recording(bag).inferences()]
    assert values == [float(value) for value in range(len(values))]
    # 150 take three seconds or more.
    assert len(values) >= told / 5
    assert len([one for one in read(bag) if one[0].endswith('/inference')]) == len(values)


def test_cut_anywhere_a_bag_keeps_what_is_whole(cut: Path, tmp_path: Path) -> None:
    (file,) = cut.glob('*.mcap')
    size, kept = file.stat().st_size, []
    for number in range(40):
        bag = tmp_path / f'{number}'
        shutil.copytree(cut, bag)
        with (bag / file.name).open('r+b') as torn:
            torn.truncate(size * (number + 1) // 40)
        if number == 0:
            with pytest.raises(PolicyRosError, match='holds no whole chunk'):
                repair(bag)
            continue
        try:
            repair(bag)
        except PolicyRosError:
            kept.append(0)
            continue
        values = [one.request.observation['value'] for one in Recording(bag).inferences()]
        assert values == [float(value) for value in range(len(values))]
        assert sorted(path.name for path in bag.iterdir()) == sorted([file.name, 'metadata.yaml'])
        kept.append(len(values))
    assert kept == sorted(kept)
    assert kept[-1] == 30
    assert len(set(kept)) > 3


def test_a_tail_of_zeros_is_cut_off(cut: Path, tmp_path: Path) -> None:
    """What a file system may leave after a power cut."""
    bag = tmp_path / 'bag'
    shutil.copytree(cut, bag)
    (file,) = bag.glob('*.mcap')
    size = file.stat().st_size
    with file.open('r+b') as torn:
        torn.truncate(size // 2)
        torn.truncate(size)
    repair(bag)
    assert len(list(Recording(bag).inferences())) > 3


def test_a_whole_bag_is_left_as_it_is(tmp_path: Path) -> None:
    with taped(tmp_path) as tape:
        tape.ask(1.0)
    (bag,) = tape.bags
    (file,) = bag.glob('*.mcap')
    before = file.read_bytes()
    assert repair(bag) == len(read(bag))
    assert file.read_bytes() == before


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyRosError, match='is no folder'):
        bags(tmp_path / 'none')
    with pytest.raises(PolicyRosError, match='holds no bag'):
        bags(tmp_path)
    (tmp_path / 'x.mcap').write_bytes(b'not mcap at all')
    with pytest.raises(PolicyRosError, match='holds no whole chunk'):
        repair(tmp_path)
