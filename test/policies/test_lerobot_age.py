# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""LeRobot up to 0.4.4 padded otherwise, and no file names the version that trained."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from lerobot_files import POSTPROCESSOR, PREPROCESSOR, drop_step, pipeline, rejected, write_files

from openpi_policy_ros.policies.pi0.pipeline import PromptStyle
from openpi_policy_ros.policies.pi0.prompt import make_prompt


def as_of_0_4(directory: Path, family: str) -> None:
    """Write a checkpoint without the settings of relative actions, as up to LeRobot 0.5.0."""
    write_files(directory, family)
    drop_step(directory / PREPROCESSOR, 'relative_actions_processor')
    drop_step(directory / POSTPROCESSOR, 'absolute_actions_processor')
    path = directory / 'config.json'
    values = json.loads(path.read_text())
    del values['use_relative_actions']
    path.write_text(json.dumps(values))


@pytest.mark.parametrize('family', ['pi0', 'pi05'])
def test_the_old_padding_is_an_option(tmp_path: Path, family: str) -> None:
    as_of_0_4(tmp_path, family)
    around = pipeline(tmp_path, legacy_padding=True)
    assert around.legacy_padding
    # 0.5 is bin 192 of 256, and the zeros that follow are 128.
    padded = around.text_state(np.array([0.5, 0.0, 0.0]))
    text = make_prompt(PromptStyle.STATE, 'go', padded).parts[0]
    assert text == f'Task: go, State: 192{" 128" * 31};\nAction: '
    plain = pipeline(tmp_path).text_state(np.array([0.5, 0.0, 0.0]))
    assert plain.tolist() == [0.5, 0.0, 0.0]


def test_a_checkpoint_that_may_be_old_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    as_of_0_4(tmp_path / 'old', 'pi05')
    pipeline(tmp_path / 'old')
    assert 'set legacy_padding: true' in caplog.text
    caplog.clear()
    pipeline(tmp_path / 'old', legacy_padding=True)
    write_files(tmp_path / 'new', 'pi05')
    pipeline(tmp_path / 'new')
    assert caplog.text == ''


def test_the_old_padding_refuses_beside_what_only_later_versions_write(tmp_path: Path) -> None:
    write_files(tmp_path)
    assert 'LeRobot writes from 0.5.1 on' in str(rejected(tmp_path, legacy_padding=True))
