# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot families of the shipped robot files: what their clients send, and running servers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from serving import TIMEOUT, Served, serving

from openpi_policy_ros.configuration.files import config_directory
from openpi_policy_ros.configuration.robot import Profile, load_robot
from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.policies.base import InferenceRequest, Policy, SessionKey
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.policies.registry import CheckpointOptions, find
from openpi_policy_ros.wire import Dialect

MODEL_SEED = 3
"""Of the weights of every checkpoint behind these servers."""
SEED = 5
PROMPT = 'put the cup on the plate'
DEFAULT_PROMPT = 'uncap the pen'
OWN_NAMES = ''
BASE = 'observation.images.base_0_rgb'
LEFT = 'observation.images.left_wrist_0_rgb'
RIGHT = 'observation.images.right_wrist_0_rgb'
DROID_JOINTS = np.linspace(-1.2, 1.4, 7)


def image(number: int) -> np.ndarray:
    """Return an image unlike any other, uint8 [224, 224, 3] RGB."""
    return np.random.default_rng(number).integers(0, 256, (224, 224, 3), dtype=np.uint8)


@dataclass(frozen=True)
class Family:
    """What one family's client sends, and what the model is to see of it.

    Attributes:
        robot: shipped file.
        observation: as the client sends it.
        images: model feature → image [224, 224, 3].
        state: as the model sees it.
        shape: of the reply.
        action_space: as the handshake says it.
        rate: actions per second of the family's loop.
        misspelt: a camera key, a mistake for it, and what the log says of that.
        prompt: what the model is told.
        positions: joint → position in ROS units that stands for ``state``; empty = no ROS side.
        differences: leading columns that its checkpoints answer as differences from the state.

    """

    robot: str
    observation: dict[str, Any]
    images: dict[str, np.ndarray]
    state: np.ndarray
    shape: tuple[int, int]
    action_space: str
    rate: float
    misspelt: tuple[str, str, str]
    prompt: str = PROMPT
    positions: dict[str, float] = field(default_factory=dict)
    differences: int = 0


def chw(pixels: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def droid(
    robot: str,
    action_space: str,
    joint: str = 'panda_joint',
    differences: int = 0,
    **fingers: float,
) -> Family:
    return Family(
        robot,
        {
            'observation/exterior_image_1_left': image(1),
            'observation/wrist_image_left': image(2),
            'observation/joint_position': DROID_JOINTS,
            'observation/gripper_position': np.array([0.25]),
            'prompt': PROMPT,
        },
        {BASE: image(1), LEFT: image(2)},
        np.append(DROID_JOINTS, 0.25),
        (10, 8),
        action_space,
        15.0,
        (
            'observation/exterior_image_1_left',
            'observation/exterior_image_1_lft',
            "did you mean 'observation/exterior_image_1_left'?",
        ),
        positions={f'{joint}{i + 1}': angle for i, angle in enumerate(DROID_JOINTS)} | fingers,
        differences=differences,
    )


def roboarena() -> Family:
    return Family(
        'roboarena',
        {
            'observation/exterior_image_0_left': image(1),
            'observation/exterior_image_1_left': image(9),
            'observation/wrist_image_left': image(2),
            'observation/joint_position': DROID_JOINTS.astype(np.float32),
            'observation/cartesian_position': np.ones(6, np.float32),
            'observation/gripper_position': np.array([0.25], np.float32),
            'prompt': PROMPT,
        },
        {BASE: image(1), LEFT: image(2)},
        np.append(DROID_JOINTS, 0.25),
        (10, 8),
        'joint_position',
        15.0,
        (
            'observation/exterior_image_0_left',
            'observation/exterior_image_2_left',
            'observation/exterior_image_2_left: is an array [224, 224, 3] of uint8 that nobody '
            'reads',
        ),
        positions={f'panda_joint{i + 1}': angle for i, angle in enumerate(DROID_JOINTS)}
        | {'finger_joint': 0.2},
    )


def aloha() -> Family:
    state = np.concatenate([np.linspace(-1, 1, 6), [0.0], np.linspace(1, -1, 6), [1.0]])
    arm = ('waist', 'shoulder', 'elbow', 'forearm_roll', 'wrist_angle', 'wrist_rotate')
    names = [f'{side}/{joint}' for side in ('left', 'right') for joint in (*arm, 'left_finger')]
    positions = dict(zip(names, state, strict=True))
    positions |= {'left/left_finger': 0.0440, 'right/left_finger': 0.0579}
    return Family(
        'aloha',
        {
            'state': state,
            'images': {
                'cam_high': chw(image(1)),
                'cam_low': chw(image(9)),
                'cam_left_wrist': chw(image(2)),
                'cam_right_wrist': chw(image(3)),
            },
        },
        {BASE: image(1), LEFT: image(2), RIGHT: image(3)},
        state,
        (50, 14),
        'joint_position',
        50.0,
        ('images/cam_high', 'images/cam_hi', "did you mean 'images/cam_high'?"),
        prompt=DEFAULT_PROMPT,
        positions=positions,
    )


def libero() -> Family:
    state = np.linspace(-0.2, 0.5, 8)
    return Family(
        'libero',
        {
            'observation/image': image(1),
            'observation/wrist_image': image(2),
            'observation/state': state,
            'prompt': PROMPT,
        },
        {BASE: image(1), LEFT: image(2)},
        state,
        (50, 7),
        'cartesian_delta',
        20.0,
        (
            'observation/wrist_image',
            'observation/wrist_img',
            "did you mean 'observation/wrist_image'?",
        ),
    )


def so101() -> Family:
    state = np.array([-45.0, 30.0, 12.5, -60.0, 90.0, 100.0], np.float32)
    arm = ('shoulder_pan', 'shoulder_lift', 'elbow_flex', 'wrist_flex', 'wrist_roll')
    radians = dict(zip(arm, np.deg2rad(state[:5].astype(float)), strict=True))
    return Family(
        'so101',
        {
            'observation.images.front': image(1),
            'observation.images.wrist': image(2),
            'observation.state': state,
            'prompt': PROMPT,
        },
        {BASE: image(1), LEFT: image(2)},
        state,
        (50, 6),
        'joint_position',
        30.0,
        (
            'observation.images.front',
            'observation.images.frnt',
            "did you mean 'observation.images.front'?",
        ),
        positions=radians | {'gripper': 1.74533},
    )


FAMILIES = {
    family.robot: family
    for family in (
        droid('droid', 'joint_velocity', finger_joint=0.2),
        droid('droid_jointpos', 'joint_position', finger_joint=0.2),
        droid('droid_jointpos_delta', 'joint_position', differences=7, finger_joint=0.2),
        droid('fr3', 'joint_position', 'fr3_joint', fr3_finger_joint1=0.03),
        droid('sim_droid', 'joint_position', finger_joint=0.25 * 0.0425),
        roboarena(),
        aloha(),
        libero(),
        so101(),
    )
}


def misspell(observation: dict[str, Any], key: str, typo: str) -> dict[str, Any]:
    """Return the observation with one camera under another key, nested ones too."""
    if '/' in key and key not in observation:
        group, key = key.split('/')
        return {**observation, group: misspell(observation[group], key, typo.split('/')[1])}
    return {typo if name == key else name: value for name, value in observation.items()}


def flatten(observation: dict[str, Any]) -> dict[str, Any]:
    """Return the observation with a/b for nested keys."""
    flat = {}
    for key, value in observation.items():
        if isinstance(value, dict):
            flat |= {f'{key}/{inner}': item for inner, item in value.items()}
        else:
            flat[key] = value
    return flat


class Servers:
    """One running server per robot file, started when first asked for."""

    def __init__(self, checkpoint: Path, policy_file: Path) -> None:
        self._stack = contextlib.ExitStack()
        self._running: dict[str, Served] = {}
        self._checkpoint = checkpoint
        # What the shipped file says, the prompt that ALOHA's client relies on, and haste.
        shipped = (config_directory() / 'pi0.yaml').read_text(encoding='utf-8')
        policy_file.write_text(
            f'{shipped}\ndefault_prompt: {DEFAULT_PROMPT}\nnum_inference_steps: 2\n',
            encoding='utf-8',
        )
        self._policy_file = policy_file

    def load(self, profile: Profile | None) -> Policy:
        """Return the policy under these conventions."""
        checkpoint = self._checkpoint
        if profile is not None and profile.delta_mask:
            checkpoint = self._relative()
        return load_policy(str(checkpoint), policy=str(self._policy_file), profile=profile)

    def _relative(self) -> Path:
        """Return a checkpoint of the same network, whose joints are differences from the state."""
        directory = self._policy_file.parent / 'relative'
        if not directory.exists():
            make = find('pi0').make_checkpoint
            assert make is not None
            options = CheckpointOptions(relative=True, state_dim=8, action_dim=8)
            make(directory, 'small', MODEL_SEED, options)
        return directory

    def __getitem__(self, robot: str) -> Served:
        if robot not in self._running:
            profile = load_robot(robot).profile if robot != OWN_NAMES else None
            self._running[robot] = self._stack.enter_context(serving(self.load(profile)))
        return self._running[robot]

    def model_chunk(self, family: Family) -> np.ndarray:
        """Return what the model answers under its own names, float32 [50, 32].

        The state is added where the family's checkpoints answer differences from it.
        """
        observation = {**family.images, 'state': family.state, 'prompt': family.prompt}
        chunk = infer(self[OWN_NAMES].engine, observation).copy()
        added = family.state[: family.differences].astype(np.float32)
        chunk[:, : family.differences] += added
        return chunk

    def close(self) -> None:
        """Stop all."""
        self._stack.close()


def infer(engine: Engine, observation: dict[str, Any]) -> np.ndarray:
    """Return the chunk of one seeded request on the robot's lane; raises what it fails with."""
    request = InferenceRequest(observation, SessionKey('test', 'test'), seed=SEED)
    return engine.submit(request, Lane.ROBOT).result(TIMEOUT).actions


@contextlib.contextmanager
def connected(one: Served, dialect: Dialect = Dialect.STOCK) -> Iterator[WebsocketClientPolicy]:
    """Connect the stock client as its users do: host and port, or an address and no port."""
    if dialect is Dialect.STOCK:
        client = WebsocketClientPolicy(host='127.0.0.1', port=one.port)
    else:
        client = WebsocketClientPolicy(host=one.url(dialect), port=None)
    try:
        yield client
    finally:
        client._ws.close()


def answered(one: Served) -> int:
    """Return how many requests this server's engine has answered."""
    return one.engine.stats().succeeded
