# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A recorded DreamZero session, with a reset in it, comes again to the bit."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

pytest.importorskip('rosbags')
pytest.importorskip('mcap_ros2')
pytest.importorskip('diffusers')
pytest.importorskip('transformers')

from dreamzero_door import QUICK, load, session
from recordings import WAIT, taped

from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.policies.base import InferenceRequest, SessionKey
from openpi_policy_ros.recording.reader import Recording
from openpi_policy_ros.recording.replay import replay


def test_it_differs_by_nothing_and_its_own_seed_is_no_missing_one(
    tiny_dreamzero: Path, tmp_path: Path
) -> None:
    folder = tmp_path / 'recorded'
    with taped(folder, load(tiny_dreamzero, tmp_path, **QUICK)) as tape:
        for number, reset in enumerate((True, False, True, False)):
            one = InferenceRequest(session(10, number % 2), SessionKey('c', 'a'), reset=reset)
            tape.engine.submit(one, Lane.REMOTE).result(WAIT)
    (bag,) = folder.iterdir()
    engine = Engine(load(tiny_dreamzero, tmp_path, **QUICK))
    engine.start()
    with contextlib.closing(engine):
        result = replay(Recording(bag), engine)
    assert len(result.recorded) == 4
    assert result.largest == 0.0
    assert result.unseeded == 4
    assert not result.notes
