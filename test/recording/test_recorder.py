# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a recorder writes, read by the reader of another project; and what it never does: wait."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

pytest.importorskip('rosbags')
pytest.importorskip('mcap_ros2')

from fakes import EchoPolicy
from recordings import ROBOT, SPEC, WAIT, observe, read, taped

from openpi_policy_ros.engine import Lane
from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies.base import InferenceRequest, RtcPrefix, SessionKey
from openpi_policy_ros.recording import messages
from openpi_policy_ros.recording.bag import BagWriter
from openpi_policy_ros.recording.reader import Recording, bags

NODE = '/openpi_policy'


def eventually(condition: Any, what: str) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end, f'never happened: {what}'
        time.sleep(0.01)


def test_another_reader_finds_every_message_with_its_type_and_its_content(tmp_path: Path) -> None:
    with taped(tmp_path, robot=ROBOT) as tape:
        chunk = tape.ask(3.0, seed=7, reset=True, num_inference_steps=5)
    (bag,) = tape.bags
    found = {topic: (kind, message) for topic, kind, _, message in read(bag)}
    assert {topic: kind for topic, (kind, _) in found.items()} == {
        f'{NODE}/recording': 'std_msgs/msg/String',
        f'{NODE}/observation/image': 'sensor_msgs/msg/Image',
        f'{NODE}/observation/state': 'std_msgs/msg/Float64MultiArray',
        f'{NODE}/observation/value': 'std_msgs/msg/Float64MultiArray',
        f'{NODE}/current_prompt': 'std_msgs/msg/String',
        f'{NODE}/action_chunk': 'trajectory_msgs/msg/JointTrajectory',
        f'{NODE}/action_chunk_array': 'std_msgs/msg/Float64MultiArray',
        f'{NODE}/inference': 'std_msgs/msg/String',
    }
    wanted = observe(3.0)
    image = found[f'{NODE}/observation/image'][1]
    assert (image.height, image.width, image.encoding, image.step) == (8, 10, 'rgb8', 30)
    assert image.header.frame_id == 'observation/image'
    assert bytes(image.data) == wanted['image'].tobytes()
    assert list(found[f'{NODE}/observation/state'][1].data) == [3.0, -3.0]
    assert found[f'{NODE}/current_prompt'][1].data == 'pick the cup'

    array = found[f'{NODE}/action_chunk_array'][1]
    assert [(one.label, one.size, one.stride) for one in array.layout.dim] == [
        ('step', 4, 12),
        ('dimension: joint_0,joint_1,joint_2', 3, 3),
    ]
    assert np.array_equal(np.reshape(array.data, (4, 3)), chunk.actions)
    rows = found[f'{NODE}/action_chunk'][1]
    assert rows.joint_names == ['a', 'b']
    assert [point.time_from_start.nanosec for point in rows.points] == [
        100_000_000,
        200_000_000,
        300_000_000,
        400_000_000,
    ]
    assert np.array_equal([point.positions for point in rows.points], chunk.actions[:, :2])

    told = json.loads(found[f'{NODE}/inference'][1].data)
    assert (told['seed'], told['reset'], told['num_inference_steps']) == (7, True, 5)
    assert told['timing_ms'] == pytest.approx(dict(chunk.timing_ms))
    header = json.loads(found[f'{NODE}/recording'][1].data)
    assert header['policy']['weights_hash'] == SPEC.weights_hash
    assert header['policy']['handshake'] == dict(SPEC.handshake or {})
    assert header['robot']['file'] == 'joints: {}'
    assert header['robot']['config']['joints']['names'] == ['a', 'b']


def test_the_folder_is_a_rosbag2_that_the_oldest_supported_ros_can_read(tmp_path: Path) -> None:
    with taped(tmp_path) as tape:
        tape.ask(1.0)
        tape.ask(2.0)
    (bag,) = tape.bags
    about = yaml.safe_load((bag / 'metadata.yaml').read_text())['rosbag2_bagfile_information']
    assert (about['version'], about['storage_identifier']) == (8, 'mcap')
    assert about['relative_file_paths'] == [f'{bag.name}.mcap']
    messages_ = read(bag)
    assert about['message_count'] == len(messages_)
    counts = {
        one['topic_metadata']['name']: one['message_count']
        for one in about['topics_with_message_count']
    }
    assert counts == {
        topic: sum(other == topic for other, *_ in messages_) for topic, *_ in messages_
    }
    # Older versions want them as one text.
    assert {
        one['topic_metadata']['offered_qos_profiles'] for one in about['topics_with_message_count']
    } == {''}
    times = [time_ns for *_, time_ns, _ in messages_]
    assert about['starting_time']['nanoseconds_since_epoch'] == min(times)
    assert abs(min(times) - time.time_ns()) < 600 * 10**9
    assert tape.recorder.stats.written == len(messages_)
    assert tape.recorder.stats.dropped == 0


def test_sessions_side_by_side_go_into_a_bag_each(tmp_path: Path) -> None:
    with taped(tmp_path) as tape:
        for value in range(4):
            tape.ask(float(value), 'c1')
            tape.ask(float(10 + value), 'c2')
    assert [bag.name.split('_', 1)[1] for bag in tape.bags] == [
        'remote_c1-default',
        'remote_c2-default',
    ]
    for bag, first in zip(tape.bags, (0.0, 10.0), strict=True):
        seen = [one.request.observation['value'] for one in Recording(bag).inferences()]
        assert seen == [first, first + 1, first + 2, first + 3]


def test_a_session_that_begins_afresh_begins_a_bag(tmp_path: Path) -> None:
    with taped(tmp_path) as tape:
        tape.ask(1.0)
        tape.engine.close_session(SessionKey('c1', 'default'))
        tape.ask(2.0)
        tape.ask(3.0)
    assert len(tape.bags) == 2
    counts = sorted(len(list(Recording(bag).inferences())) for bag in tape.bags)
    assert counts == [1, 2]


def test_a_failed_inference_is_recorded_with_its_reason(tmp_path: Path) -> None:
    class Picky(EchoPolicy):
        def answer(self, one: InferenceRequest) -> Any:
            return InvalidObservation('value', 'is not to our taste')

    with taped(tmp_path, Picky(SPEC)) as tape, pytest.raises(InvalidObservation):
        tape.ask(1.0)
    (one,) = Recording(tape.bags[0]).inferences()
    assert one.actions is None
    assert one.error == 'InvalidObservation: value: is not to our taste'


def test_the_rest_of_a_chunk_comes_back_as_it_was(tmp_path: Path) -> None:
    rtc = RtcPrefix(
        np.linspace(-1.0, 1.0, 96, dtype=np.float32).reshape(3, 32),
        2,
        execution_horizon=8,
        state=np.array([0.1, 0.2], np.float32),
        robot_units=True,
    )
    with taped(tmp_path) as tape:
        tape.ask(1.0, rtc=rtc)
    (one,) = Recording(tape.bags[0]).inferences()
    read_ = one.request.rtc
    assert read_ is not None
    assert np.array_equal(read_.leftover, rtc.leftover)
    assert read_.leftover.dtype == np.float32
    assert read_.state is not None
    assert np.array_equal(read_.state, np.array([0.1, 0.2], np.float32))
    assert (read_.inference_delay, read_.execution_horizon, read_.robot_units) == (2, 8, True)


def test_frames_of_a_history_stay_in_order_across_chunks_of_the_file(tmp_path: Path) -> None:
    """Readers sort by time alone; one inference here is larger than a chunk of the file."""
    frames = np.random.default_rng(0).integers(0, 256, (4, 400, 500, 3), np.uint8)
    with taped(tmp_path) as tape:
        for value in range(3):
            seen = {**observe(value), 'image': np.roll(frames, value, axis=0)}
            tape.ask(value, observation=seen)
    for value, one in enumerate(Recording(tape.bags[0]).inferences()):
        assert np.array_equal(one.request.observation['image'], np.roll(frames, value, axis=0))
        assert one.actions is not None


def test_the_robots_own_messages_go_with_its_session(tmp_path: Path) -> None:
    def text(value: str) -> Any:
        return lambda: messages.text(value)

    with taped(tmp_path, robot=ROBOT) as tape:
        recorder = tape.recorder
        recorder.note('/joint_states', text('before any session'), 1)
        recorder.note_latched(f'{NODE}/status', text('READY'), 2)
        chunk = tape.ask(1.0, 'ros:/x', '1', Lane.ROBOT)
        recorder.note_chunk(chunk, t_obs_ns=5 * 10**9, time_ns=6 * 10**9)
        recorder.note('/arm', text('go'), time.time_ns())
        tape.engine.close_session(SessionKey('ros:/x', '1'))
        eventually(lambda: recorder.stats.waiting == 0, 'an empty queue')
        recorder.note('/arm', text('hold'), time.time_ns())
        tape.ask(2.0, 'ros:/x', '2', Lane.ROBOT)
        tape.ask(3.0, 'c7')
    names = [bag.name.split('_', 1)[1] for bag in tape.bags]
    assert sorted(names) == ['remote_c7-default', 'robot_1', 'robot_2']
    by_name = dict(zip(names, tape.bags, strict=True))
    first = read(by_name['robot_1'])
    assert [m.data for topic, *_, m in first if topic == '/arm'] == ['go', 'hold']
    assert not any(topic == '/joint_states' for topic, *_ in first)
    (planned,) = [message for topic, *_, message in first if topic == f'{NODE}/action_chunk']
    assert planned.header.stamp.sec == 5
    for name in ('robot_1', 'robot_2'):
        states = [m.data for topic, *_, m in read(by_name[name]) if topic == f'{NODE}/status']
        assert states == ['READY']
    assert not any(topic == f'{NODE}/status' for topic, *_ in read(by_name['remote_c7-default']))


def test_a_slow_disk_costs_messages_but_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stuck = threading.Event()
    write = BagWriter.write

    def slow(*arguments: Any) -> int:
        assert stuck.wait(WAIT)
        return write(*arguments)

    monkeypatch.setattr(BagWriter, 'write', slow)
    with caplog.at_level(logging.WARNING), taped(tmp_path, queue_bytes=20_000) as tape:
        # Nothing is written before all of them were answered.
        answers = [tape.ask(float(value)).actions[0, 0] for value in range(40)]
        stats = tape.recorder.stats
        stuck.set()
    assert answers == list(range(40))
    assert stats.written == 0
    assert 0 < stats.waiting <= 20_000
    assert 0 < stats.dropped < 40
    assert 'the disk is slower than what is recorded' in caplog.text
    kept = list(Recording(tape.bags[0]).inferences())
    assert len(kept) + tape.recorder.stats.dropped == 40
    # Whole ones only, and those that are missing can be told.
    numbers = [one.number for one in kept]
    assert [one.request.observation['value'] for one in kept] == [n - 1 for n in numbers]


def test_a_disk_that_fails_ends_the_recording_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with taped(tmp_path) as tape:
        tape.ask(1.0)
        eventually(lambda: tape.recorder.stats.written, 'the first inference')

        def full(*_: Any) -> int:
            raise OSError(errno.ENOSPC, 'No space left on device')

        monkeypatch.setattr(BagWriter, 'write', full)
        tape.ask(2.0)
        eventually(lambda: tape.recorder.stats.stopped, 'the end of the recording')
        assert tape.ask(3.0).actions[0, 0] == 3.0
    assert 'No space left on device' in tape.recorder.stats.stopped
    assert caplog.text.count('recording has stopped, all else goes on') == 1
    # What was written before is whole.
    assert [one.number for one in Recording(tape.bags[0]).inferences()] == [1]


def test_a_folder_that_goes_away_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / 'disk'
    with taped(folder) as tape:
        tape.ask(1.0)
        eventually(lambda: tape.recorder.stats.written, 'the first inference')
        shutil.rmtree(folder)
        eventually(lambda: tape.recorder.stats.stopped, 'the end of the recording')
        assert tape.ask(2.0).actions[0, 0] == 2.0
    assert 'No such file' in tape.recorder.stats.stopped
    assert 'recording has stopped' in caplog.text
    assert not folder.exists()


def test_the_last_of_the_disk_is_left_to_others(tmp_path: Path) -> None:
    with taped(tmp_path, stop_free=2**62) as tape:
        tape.ask(1.0)
        eventually(lambda: tape.recorder.stats.stopped, 'the end of the recording')
    assert 'MB are free' in tape.recorder.stats.stopped
    assert bags(tmp_path)
    assert Recording(tape.bags[0])


def test_the_writer_goes_behind_no_other_thread(tmp_path: Path) -> None:
    if sys.platform != 'linux':
        pytest.skip('only Linux knows the priority of a thread')
    with taped(tmp_path) as tape:
        tape.ask(1.0)
        eventually(lambda: tape.recorder.stats.written, 'the first inference')
        writer = tape.recorder._thread.native_id
        assert writer is not None
        mine = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        # Pushed aside while it has the interpreter, it would hold up the control thread as well.
        assert os.getpriority(os.PRIO_PROCESS, writer) == mine


def test_what_cannot_be_serialised_is_counted_and_the_next_is_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with taped(tmp_path) as tape:
        tape.recorder.note_latched('/bad', lambda: messages.text(5), 1)  # type: ignore[arg-type]
        tape.ask(1.0)
        tape.ask(2.0, 'ros:/x', '1', Lane.ROBOT)
        tape.ask(3.0, 'ros:/x', '1', Lane.ROBOT)
    assert tape.recorder.stats.dropped >= 1
    assert not tape.recorder.stats.stopped
    assert 'a message could not be recorded' in caplog.text
    (robot,) = [bag for bag in tape.bags if 'robot' in bag.name]
    assert 3.0 in [one.request.observation['value'] for one in Recording(robot).inferences()]
