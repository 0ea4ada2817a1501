# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy bench`` from end to end with tiny settings: what it writes, never how fast."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from openpi_policy_ros.bench import control, topics, transport
from openpi_policy_ros.bench.child import Child, ChildFailed
from openpi_policy_ros.bench.topics import overhead
from openpi_policy_ros.cli import main


@pytest.fixture(autouse=True)
def _threads_stay_as_they_were() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def bench(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    file = tmp_path / 'bench.json'
    assert main(['bench', '--json', str(file), *arguments]) == 0
    result: dict[str, Any] = json.loads(file.read_text(encoding='utf-8'))
    assert result['machine']['cores'] >= 1
    assert result['machine']['packages']['numpy']
    assert len(result['machine']['load_average']) == 3
    return result


def ordered(spread: dict[str, float]) -> bool:
    return 0.0 < spread['min'] <= spread['median'] <= spread['max']


@pytest.mark.parametrize('extra', [[], ['--heap', 'system'], ['--uvloop']])
def test_transport_compares_both_servers_at_both_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: list[str]
) -> None:
    if '--uvloop' in extra:
        pytest.importorskip('uvloop')
    result = bench(tmp_path, '--only', 'transport', '--rounds', '2', '--requests', '12', *extra)[
        'transport'
    ]
    assert result['keep_heap'] == ('system' not in extra)
    assert result['uvloop'] == ('--uvloop' in extra)
    assert [size['frame_bytes'] // 1000 for size in result['sizes'].values()] == [452, 2765]
    for size in result['sizes'].values():
        assert ordered(size['cpu_ratio'])
        assert size['round_trip_ratio'] > 0.0
        for who in ('ours', 'rival'):
            assert ordered(size[who]['server_cpu_ms'])
            trips = size[who]['round_trip_ms']
            assert 0.0 < trips['p50'] <= trips['p95'] <= trips['max']
    printed = capsys.readouterr().out
    assert 'numpy' in printed.splitlines()[0], 'the machine comes first'
    assert '| 3x480x640x3 (2.77 MB) | rival' in printed


def test_model_names_every_stage_and_equals_the_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = bench(
        tmp_path,
        *('--only', 'model', '--rounds', '2', '--steps', '2', '--threads', '1'),
        *('--cameras', '3', '1'),
    )['model']
    assert (result['steps'], result['threads'], result['dtype']) == (2, 1, 'float32')
    assert list(result['cameras']) == ['3', '1']
    for one in result['cameras'].values():
        assert all(ordered(stage) for stage in one['stages_ms'].values())
        assert ordered(one['speedup'])
        # The command itself refuses a difference that is too large; none at all would mean that
        # it compared a chunk with itself.
        assert 0.0 < one['difference'] < 1e-4
    assert 'made: small' in capsys.readouterr().out


def test_a_checkpoint_without_that_many_cameras_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = tmp_path / 'pi0'
    assert main(['make-checkpoint', str(checkpoint)]) == 0
    config = json.loads((checkpoint / 'config.json').read_text())
    del config['input_features']['observation.images.right_wrist_0_rgb']
    (checkpoint / 'config.json').write_text(json.dumps(config))
    assert main(['bench', '--only', 'model', '--model', str(checkpoint)]) == 2
    assert '3 cameras, but' in capsys.readouterr().err


@pytest.mark.ros
@pytest.mark.timeout(120)
def test_topics_measures_a_real_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip('rclpy')
    # One of two transports, and no time to settle: a node takes seconds to start.
    monkeypatch.setattr(topics, 'TRANSPORTS', ('jpeg',))
    monkeypatch.setattr(topics, 'SETTLE', 0.0)
    result = bench(tmp_path, '--only', 'topics', '--seconds', '1', '--threads', '1')['topics']
    assert list(result['transports']) == ['jpeg']
    for one in result['transports'].values():
        assert one['chunks'] > 0
        assert one['images_published_per_s'] > 0.0
        assert one['overhead_ms']['p50'] <= one['stages_ms']['total']['p50']
        assert one['node_cpu_percent'] > 0.0


def test_overhead_is_all_but_preprocessing_and_model() -> None:
    chunk = {'total': 40.0, 'preprocess': 8.0, 'model': 30.0, 'assemble': 1.0, 'publish': 0.5}
    assert overhead(chunk) == pytest.approx(2.0)


def test_a_missing_rival_is_an_error_where_asked_for_and_a_word_where_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name in ('openpi_client', 'rclpy') else found(name, *more)

    monkeypatch.setattr(transport.importlib.util, 'find_spec', without)
    assert main(['bench', '--only', 'transport,topics']) == 2
    refused = capsys.readouterr().err
    assert 'pip install --no-deps openpi-client' in refused
    assert 'source a ROS 2 installation' in refused
    assert topics.missing() is not None
    # What it measures is pinned elsewhere; it needs none of the two.
    monkeypatch.setattr(control, 'measure', lambda **_: {'measured': True})
    monkeypatch.setattr(control, 'report', str)
    result = bench(
        tmp_path,
        *('--rounds', '1', '--steps', '1', '--threads', '1', '--cameras', '1', '--no-reference'),
    )
    assert set(result) == {'machine', 'control', 'model'}
    assert 'speedup' not in result['model']['cameras']['1']
    assert 'transport: left out: the rival decodes with openpi_client' in capsys.readouterr().err


def test_a_part_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(['bench', '--only', 'transport,teleport'])
    assert ended.value.code == 2
    assert 'teleport: expected some of transport, topics, control, model' in capsys.readouterr().err


def test_a_result_file_that_cannot_be_written_is_refused_before_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / 'none' / 'result.json'
    assert main(['bench', '--only', 'model', '--json', str(file)]) == 2
    told = capsys.readouterr()
    assert told.out == ''
    assert f'cannot write {file}: No such file or directory; give another path' in told.err


@pytest.mark.parametrize('rounds', ['0', 'many'])
def test_a_number_of_rounds_that_is_none_is_refused(
    rounds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(['bench', '--rounds', rounds])
    assert f'{rounds}: expected a whole number, at least 1' in capsys.readouterr().err


def test_a_child_that_fails_shows_its_log() -> None:
    with (
        pytest.raises(ChildFailed, match=r'(?s)transport_server ended.*invalid choice'),
        Child('openpi_policy_ros.bench.transport_server', ['teapot']),
    ):
        pass
