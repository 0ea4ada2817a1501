# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``policy: sim_expert``: the scripted expert behind a server, for tests of whole loops.

It looks at no image. It is told where things are, under keys that only a simulator can fill, and
asks for them in its handshake. Equal observations give equal answers, whatever came before.

Importing this needs no MuJoCo: every registered policy is imported to see what it serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pydantic import Field

from openpi_policy_ros.configuration.robot import STATE_FEATURES, Profile, load_robot
from openpi_policy_ros.configuration.schema import Section, validate
from openpi_policy_ros.errors import ConfigurationError, InvalidObservation
from openpi_policy_ros.policies.base import (
    ACTIONS,
    ActionChunk,
    InferenceRequest,
    InferenceResult,
    Observation,
    Policy,
    PolicySpec,
    StateSpec,
)
from openpi_policy_ros.policies.handshake import HandshakeFacts, build_handshake, derive
from openpi_policy_ros.policies.registry import LoadRequest, PolicyPlugin
from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.extras import require
from openpi_policy_ros_sim.privileged import POSES, PRIVILEGED_KEYS
from openpi_policy_ros_sim.state import State, Vector
from openpi_policy_ros_sim.tasks import PROMPTED, TASKS

if TYPE_CHECKING:
    from openpi_policy_ros_sim.environment import Environment
    from openpi_policy_ros_sim.kinematics import Kinematics

NAME: Final = 'sim_expert'
ROBOT: Final = 'droid_jointpos'
"""Robot file where none is named."""
RESOLUTION: Final = (224, 224)
POSITION, VELOCITY = 'joint_position', 'joint_velocity'
_TASKS: Final = {TASKS[name].prompt: name for name in PROMPTED}


class SimExpertOptions(Section):
    """How the expert answers."""

    horizon: int = Field(
        default=10, ge=1, le=100, description='Rows of a chunk, where the robot file has no crop.'
    )
    policy_server_config: dict[str, Any] = Field(
        default_factory=dict, description='Keys to add to the handshake for OpenPI clients.'
    )


class SimExpert(Policy):
    """Runs the expert ahead in a simulation of its own, from what it is told.

    Args:
        spec: for the doors.
        prompt_key: of the observation.
        sizes: state key → how many numbers it has.

    """

    def __init__(self, spec: PolicySpec, prompt_key: str, sizes: dict[str, int]) -> None:
        self._spec = spec
        self._prompt_key = prompt_key
        self._sizes = sizes
        self._world: tuple[Environment, Kinematics] | None = None

    @property
    def spec(self) -> PolicySpec:
        """Return what the robot file makes of it."""
        return self._spec

    def warm_up(self) -> None:
        """Build the simulation, and run it ahead once."""
        environment, _ = self._open()
        self._chunk(environment.reset(0), PROMPTED[0])

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Answer each request; see ``Policy.infer``."""
        return [self._answer(request.observation) for request in requests]

    def close(self) -> None:
        """Free the simulation."""
        if self._world is not None:
            self._world[0].close()
            self._world = None

    def _answer(self, observation: Observation) -> InferenceResult:
        try:
            task = self._task(observation)
            parts = [_numbers(observation, key, size) for key, size in self._sizes.items()]
            measured = np.concatenate(parts)
            poses = {name: _pose(observation, key) for key, name in POSES.items()}
        except InvalidObservation as error:
            return error
        state = self._state(measured, poses)
        return ActionChunk(
            {ACTIONS: self._chunk(state, task).astype(np.float32)},
            state=measured.astype(np.float32),
        )

    def _task(self, observation: Observation) -> str:
        prompt = observation.get(self._prompt_key)
        if isinstance(prompt, np.ndarray) and prompt.size == 1:
            prompt = prompt.item()
        words = prompt.strip().lower() if isinstance(prompt, str) else ''
        if words not in _TASKS:
            raise InvalidObservation(
                self._prompt_key,
                f'is {str(prompt)[:80]!r}',
                expected=' or '.join(repr(known) for known in _TASKS),
                remedy='the expert is scripted and knows no other words',
            )
        return _TASKS[words]

    def _state(self, measured: Vector, poses: dict[str, Vector]) -> State:
        """Return the state as far as it is told: at rest, which the drives soon make up for."""
        _, kinematics = self._open()
        position, turn = kinematics.pose(measured[: c.JOINTS])
        return State(
            time=0.0,
            joint_position=measured[: c.JOINTS],
            joint_velocity=np.zeros(c.JOINTS),
            gripper_position=float(np.clip(measured[c.JOINTS], 0.0, 1.0)),
            tool_position=position,
            tool_quaternion=_quaternion(turn),
            cube_velocity=np.zeros(6),
            **poses,
        )

    def _chunk(self, state: State, task: str) -> Vector:
        from openpi_policy_ros_sim.expert import Expert

        environment, kinematics = self._open()
        expert = Expert(task, kinematics)
        environment.set_state(state)
        rows = []
        for _ in range(self._spec.horizon):
            row = expert.act(state)
            if self._spec.action_space == VELOCITY:
                rate = (row[: c.JOINTS] - state.joint_position) / c.VELOCITY_SCALE
                row[: c.JOINTS] = rate / max(1.0, float(np.abs(rate).max()))
            rows.append(row)
            state = environment.step(row)
        return np.stack(rows)

    def _open(self) -> tuple[Environment, Kinematics]:
        from openpi_policy_ros_sim.environment import Environment
        from openpi_policy_ros_sim.kinematics import Kinematics

        if self._world is None:
            self._world = Environment(self._spec.action_space), Kinematics()
        return self._world


def load(request: LoadRequest) -> SimExpert:
    """Return the expert for the robot of ``request``; DROID's with joint positions where none is.

    Raises:
        ConfigurationError: the robot is another than the simulated one.
        SimulationError: MuJoCo is not installed.

    """
    require('mujoco')
    source = request.options_source or f'policy: {NAME}'
    options = validate(SimExpertOptions, request.options or {}, source)
    profile = request.profile or load_robot(ROBOT).profile
    keys = profile.state_keys() or [STATE_FEATURES[0]]
    dims = profile.state_dims or ([c.ACTION_DIM] if len(keys) == 1 else [])
    names = tuple(profile.action_names) or (*c.JOINT_NAMES, 'gripper')
    problems = []
    if sum(dims) != c.ACTION_DIM:
        problems.append(
            f'the state has {sum(dims) or "?"} numbers (profile.state_dims), expected '
            f'{c.ACTION_DIM}: seven angles and the gripper'
        )
    if len(names) != c.ACTION_DIM or profile.crop_columns not in (None, c.ACTION_DIM):
        problems.append(
            f'the actions have {profile.crop_columns or len(names)} columns, expected '
            f'{c.ACTION_DIM}: seven joints and the gripper'
        )
    if profile.action_space not in (POSITION, VELOCITY):
        problems.append(
            f'profile.action_space is {profile.action_space!r}, expected {POSITION} or {VELOCITY}'
        )
    if problems:
        raise ConfigurationError(
            source, [f'{problem}; name a robot file of DROID (robot)' for problem in problems]
        )
    return SimExpert(
        _spec(profile, options, keys, names, source),
        profile.prompt_key,
        dict(zip(keys, dims, strict=True)),
    )


def _spec(
    profile: Profile, options: SimExpertOptions, keys: list[str], names: tuple[str, ...],
    source: str,
) -> PolicySpec:  # fmt: skip
    horizon = profile.crop_rows or options.horizon
    facts = HandshakeFacts(
        image_resolution=RESOLUTION,
        cameras=(),
        # A robot file may ask for the images of a model that has eyes.
        camera_slots=len(c.CAMERAS),
        horizon=horizon,
        action_dim=c.ACTION_DIM,
    )
    declared = {
        **derive(facts, profile.action_space),
        PRIVILEGED_KEYS: list(POSES),
        **options.policy_server_config,
    }
    return PolicySpec(
        name=NAME,
        model='',
        cameras=(),
        state=StateSpec(tuple(keys), max_dim=c.ACTION_DIM),
        horizon=horizon,
        action_dim=c.ACTION_DIM,
        action_space=profile.action_space,
        action_names=names,
        output_shapes={ACTIONS: (horizon, c.ACTION_DIM)},
        handshake=build_handshake(declared, facts, profile, source=source),
        default_prompt=TASKS[PROMPTED[0]].prompt,
    )


def _numbers(observation: Observation, key: str, size: int) -> Vector:
    if key not in observation:
        hint = f'a simulator sends it; the handshake asks for it ({PRIVILEGED_KEYS})'
        raise InvalidObservation(
            key, 'is missing', expected=f'{size} numbers', remedy=hint if key in POSES else ''
        )
    try:
        values = np.array(observation[key], dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array(np.nan)
    if values.shape != (size,) or not np.isfinite(values).all():
        raise InvalidObservation(
            key, f'has shape {list(values.shape)} or is not finite', expected=f'{size} numbers'
        )
    return values


def _pose(observation: Observation, key: str) -> Vector:
    pose = _numbers(observation, key, 7)
    length = float(np.linalg.norm(pose[3:]))
    if not 0.99 < length < 1.01:
        raise InvalidObservation(
            key,
            f'has a quaternion of length {length:.3g}',
            expected='position in m, then a unit quaternion w, x, y, z',
        )
    pose[3:] /= length
    return pose


def _quaternion(turn: Vector) -> Vector:
    import mujoco

    quaternion = np.empty(4)
    mujoco.mju_mat2Quat(quaternion, turn.ravel())
    return quaternion


PLUGIN = PolicyPlugin(
    load=load, option_names=tuple(SimExpertOptions.model_fields), needs_model=False
)
