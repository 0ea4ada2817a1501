# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the robot's side hands on when parameters change; its parts are stand-ins here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip('rclpy')

from rig import make_spec

from openpi_policy_ros.ros.listener import Listeners
from openpi_policy_ros.ros.robot_side import RobotSide
from openpi_policy_ros.ros.settings import NodeConfig

pytestmark = pytest.mark.ros


def make_config(rate: float, prompt: str = '') -> NodeConfig:
    return NodeConfig.model_validate(
        {'model': 'm', 'default_prompt': prompt, 'timing': {'inference_rate': rate}}
    )


class Side(RobotSide):
    """Keeps what its parts are told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        super().__init__(
            SimpleNamespace(),
            make_config(1.0),
            SimpleNamespace(spec=make_spec()),  # type: ignore[arg-type]
            prompt=SimpleNamespace(publish=self._ear('published')),  # type: ignore[arg-type]
            seed=lambda: None,
            report=lambda state: None,
            report_tick=lambda tick: None,
            listeners=Listeners(),
        )

    def _build(self, *_: object) -> None:
        self.door: Any = SimpleNamespace(set_rate=self._ear('rate'), set_prompt=self._ear('prompt'))
        self.actuation: Any = SimpleNamespace(actuation=SimpleNamespace(tune=self._ear('tuned')))

    def _ear(self, name: str) -> Any:
        return lambda said: self.told.append((name, said))


def test_another_rate_reaches_the_door_and_the_rest_what_drives_the_robot() -> None:
    side = Side()
    config = make_config(2.5, 'from the file')
    side.tune(config, frozenset({'timing.inference_rate'}))
    # The prompt in use may have come on its topic: it stays.
    assert side.told == [('rate', 2.5), ('tuned', config)]
    assert side.config is config


def test_another_prompt_reaches_the_policy_and_whoever_listens() -> None:
    side = Side()
    config = make_config(0.0, 'tidy up')
    side.tune(config, frozenset({'default_prompt'}))
    assert side.told[:2] == [('prompt', 'tidy up'), ('published', 'tidy up')]
    assert side.told[2:] == [('rate', 0.0), ('tuned', config)]


def test_without_outputs_nothing_is_driven() -> None:
    side = Side()
    side.actuation = None
    side.tune(make_config(4.0), frozenset({'timing.inference_rate'}))
    assert side.told == [('rate', 4.0)]
