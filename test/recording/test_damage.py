# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A bag whose disk has failed is refused in words, whatever of it is damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip('rosbags')
pytest.importorskip('mcap_ros2')

from recordings import taped

from openpi_policy_ros.cli import main
from openpi_policy_ros.recording.reader import Recording


@pytest.fixture(scope='module')
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bag that was closed."""
    with taped(tmp_path_factory.mktemp('whole')) as tape:
        for value in range(5):
            tape.ask(float(value))
    return tape.bags[0]


@pytest.fixture
def bag(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / whole.name))


def mcap(bag: Path) -> Path:
    (file,) = bag.glob('*.mcap')
    return file


def refuse(bag: Path, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['replay', str(bag)]) == 2
    said = capsys.readouterr()
    assert why in said.err
    assert '--repair' in said.err


def test_metadata_that_is_no_text(bag: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metadata = bag / 'metadata.yaml'
    metadata.write_bytes(metadata.read_bytes() + b'\xff')
    refuse(bag, 'cannot be read: UnicodeDecodeError', capsys)

    # It holds nothing that the file itself does not.
    assert main(['replay', str(bag), '--repair']) == 0
    assert len(list(Recording(bag).inferences())) == 5


def test_an_index_that_points_elsewhere(bag: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = mcap(bag)
    data = file.read_bytes()
    # As where the file system has put a stranger's block into the file.
    middle = len(data) // 2
    file.write_bytes(data[:middle] + b'\x5a' * 7 + data[middle:])
    refuse(bag, str(bag), capsys)


def test_messages_that_cannot_be_unpacked(bag: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = mcap(bag)
    data = bytearray(file.read_bytes())
    begin = data.index(b'zstd') + len(b'zstd') + 8 + 40
    data[begin : begin + 200] = bytes(200)
    file.write_bytes(data)
    refuse(bag, f'{bag} is damaged', capsys)
    assert len(data) > begin + 200


@pytest.mark.parametrize('text', ['{"number": 1', '[]', '{"observed_ns": "soon"}'])
def test_an_inference_that_is_told_wrongly(
    text: str, bag: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = Recording._messages

    def damaged(self: Recording, wanted: object) -> object:
        for topic, time_ns, message in messages(self, wanted):
            if topic.endswith('/inference'):
                message.data = text
            yield topic, time_ns, message

    monkeypatch.setattr(Recording, '_messages', damaged)
    refuse(bag, f'{bag} is damaged', capsys)


def test_a_strangers_topic_of_that_name(
    bag: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = Recording._messages

    def strange(self: Recording, wanted: object) -> object:
        for topic, time_ns, message in messages(self, wanted):
            message.data = '{"schema": 1}'
            yield topic, time_ns, message

    monkeypatch.setattr(Recording, '_messages', strange)
    assert main(['replay', str(bag)]) == 2
    assert 'is a bag, but not one of this package' in capsys.readouterr().err
