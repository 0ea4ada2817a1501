# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated DROID setup: reset, step at 15 Hz, look; it knows of no policy."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

import numpy as np
import numpy.typing as npt

from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.closing import Closing
from openpi_policy_ros_sim.errors import InvalidAction, SimulationError
from openpi_policy_ros_sim.layout import place
from openpi_policy_ros_sim.linkage import Swinging
from openpi_policy_ros_sim.meshes import Meshes
from openpi_policy_ros_sim.renderer import Renderer, mujoco
from openpi_policy_ros_sim.scene import OBJECTS, build_xml
from openpi_policy_ros_sim.state import State, Vector

_log = logging.getLogger('openpi_policy_ros_sim.environment')

POSITION, VELOCITY = 'joint_position', 'joint_velocity'
ACTION_SPACES: Final = (POSITION, VELOCITY)
_LOWER, _UPPER = np.array(c.LOWER), np.array(c.UPPER)
# A damped drive moves at (target − angle) × kp / kd: a target this far away asks for the limit.
_REACH = np.array(c.VELOCITY) * c.DAMPING / c.STIFFNESS
SERVO_STEPS: Final = 8
"""Calls of ``servo`` that are one action: 120 a second."""
# The physics steps between two looks at the speed.
_SLICE = c.SUBSTEPS // SERVO_STEPS
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
_BROKEN = (
    mujoco.mjtWarning.mjWARN_BADQPOS,
    mujoco.mjtWarning.mjWARN_BADQVEL,
    mujoco.mjtWarning.mjWARN_BADQACC,
)
_LARGEST = (1080, 1920)
_SETTLE = 4


def _warn(text: str) -> None:
    _log.warning('MuJoCo: %s', text.strip())


# Where nobody listens MuJoCo writes a file into the working directory.
if mujoco.get_mju_user_warning() is None:
    mujoco.set_mju_user_warning(_warn)


class Environment(Closing):
    """One robot at one table. Not for several threads at once; close it, or use ``with``.

    ``clamped`` counts, since the last reset, how often a limit came to bear: ``position`` (a
    target beyond a joint's range), ``velocity`` (a target too far away to be reached at the
    joint's speed limit: approached at that), ``scale`` (a velocity action beyond ±1, scaled
    down as a whole).

    Args:
        action_space: ``joint_position`` (absolute targets in rad) or ``joint_velocity`` (−1..1:
            the target lies that times 0.2 rad from the measured angle).
        meshes: draw the robot with these, of ``read_meshes``; None = with primitives. The physics
            is the same.

    Raises:
        SimulationError: there is no such action space.
        ConfigurationError: a mesh cannot be read.

    """

    def __init__(self, action_space: str = POSITION, meshes: Meshes | None = None) -> None:
        if action_space not in ACTION_SPACES:
            raise SimulationError(
                f'action space {action_space!r}', expected=' or '.join(ACTION_SPACES)
            )
        self.action_space = action_space
        self.model = (
            mujoco.MjModel.from_xml_string(build_xml()) if meshes is None else meshes.model()
        )
        self.data = mujoco.MjData(self.model)
        self._rods = Swinging(self.model, () if meshes is None else meshes.fingers)
        self.clamped: Counter[str] = Counter()
        self._tool = self.model.site('tool').id
        self._poses = {name: int(self.model.joint(name).qposadr[0]) for name in OBJECTS}
        self._cube_velocity = int(self.model.joint('cube').dofadr[0])
        self._renderer: Renderer | None = None
        self._closed = False
        self.reset(0)

    def reset(self, seed: int) -> State:
        """Put everything where ``seed`` says, the arm at DROID's reset pose; return the state.

        Raises:
            SimulationError: the seed is no whole number >= 0.

        """
        poses = place(seed)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[: c.JOINTS] = c.HOME
        self.data.ctrl[: c.JOINTS] = c.HOME
        for name, pose in poses.items():
            self._set_pose(name, pose)
        self.clamped.clear()
        # Things stand a hair deep in the table afterwards, as MuJoCo's soft contacts have it.
        mujoco.mj_step(self.model, self.data, nstep=_SETTLE * c.SUBSTEPS)
        self.data.time = 0.0
        mujoco.mj_forward(self.model, self.data)
        return self.state()

    def step(self, action: npt.ArrayLike) -> State:
        """Run one action of 1/15 s and return the state after it.

        Args:
            action: [8], seven joints as ``action_space`` says, then the gripper: above 0.5 close,
                else open.

        Raises:
            InvalidAction: the shape is another, or a value is not finite; nothing has moved.
            SimulationError: the physics broke down.

        """
        values = _checked(action)
        measured = self.data.qpos[: c.JOINTS]
        if self.action_space == VELOCITY:
            most = np.abs(values[: c.JOINTS]).max()
            if most > 1.0:
                self._count('scale')
                values[: c.JOINTS] /= most
            target = measured + c.VELOCITY_SCALE * values[: c.JOINTS]
        else:
            target = values[: c.JOINTS]
        clipped = np.clip(target, _LOWER, _UPPER)
        if (clipped != target).any():
            self._count('position')
        self.data.ctrl[c.JOINTS] = c.STROKE if values[c.JOINTS] > 0.5 else 0.0
        self._drive(clipped)
        return self.state()

    def servo(self, joints: Vector, fingers: float) -> None:
        """Run 1/120 s towards set points: for controllers that are finer than actions.

        Args:
            joints: float64 [7], rad, finite.
            fingers: how far each has come from open, 0 to ``STROKE`` m, finite.

        Raises:
            SimulationError: the physics broke down.

        """
        data = self.data
        target = np.clip(joints, _LOWER, _UPPER)
        if (target != joints).any():
            self._count('position')
        measured = data.qpos[: c.JOINTS]
        near = np.clip(target, measured - _REACH, measured + _REACH)
        if (near != target).any():
            self._count('velocity')
        data.ctrl[: c.JOINTS] = near
        data.ctrl[c.JOINTS] = min(max(fingers, 0.0), c.STROKE)
        mujoco.mj_step(self.model, data, nstep=_SLICE)
        self._settle()

    def state(self) -> State:
        """Return the present state, a copy."""
        data = self.data
        quaternion = np.empty(4)
        mujoco.mju_mat2Quat(quaternion, data.site_xmat[self._tool])
        fingers = data.qpos[c.JOINTS : c.JOINTS + 2]
        poses = {name: data.qpos[at : at + 7].copy() for name, at in self._poses.items()}
        return State(
            time=float(data.time),
            joint_position=data.qpos[: c.JOINTS].copy(),
            joint_velocity=data.qvel[: c.JOINTS].copy(),
            gripper_position=float(np.clip(fingers.mean() / c.STROKE, 0.0, 1.0)),
            tool_position=data.site_xpos[self._tool].copy(),
            tool_quaternion=quaternion,
            cube_velocity=data.qvel[self._cube_velocity : self._cube_velocity + 6].copy(),
            **poses,
        )

    def set_state(self, state: State, *, closing: bool = False) -> None:
        """Put everything where ``state`` says; targets are where the joints are.

        Args:
            state: its tool pose is not read, it follows from the joints.
            closing: the gripper is being closed, so that it holds what is between its fingers.

        """
        mujoco.mj_resetData(self.model, self.data)
        self.data.time = state.time
        self.data.qpos[: c.JOINTS] = state.joint_position
        self.data.qvel[: c.JOINTS] = state.joint_velocity
        self.data.qpos[c.JOINTS : c.JOINTS + 2] = state.gripper_position * c.STROKE
        self.data.ctrl[: c.JOINTS] = state.joint_position
        self.data.ctrl[c.JOINTS] = c.STROKE if closing else 0.0
        for name in OBJECTS:
            self._set_pose(name, getattr(state, name))
        self.data.qvel[self._cube_velocity : self._cube_velocity + 6] = state.cube_velocity
        mujoco.mj_forward(self.model, self.data)

    def snapshot(self) -> Vector:
        """Return what ``restore`` needs to go on from here exactly."""
        size = mujoco.mj_stateSize(self.model, _STATE)
        saved = np.empty(size)
        mujoco.mj_getState(self.model, self.data, saved, _STATE)
        return saved

    def restore(self, saved: Vector) -> State:
        """Go back to a snapshot and return its state; ``clamped`` is left as it is."""
        mujoco.mj_setState(self.model, self.data, saved, _STATE)
        mujoco.mj_forward(self.model, self.data)
        return self.state()

    def render(
        self, camera: str, height: int, width: int, *, shadows: bool = False
    ) -> npt.NDArray[np.uint8]:
        """Return what a camera sees now, uint8 RGB [height, width, 3].

        Args:
            camera: ``exterior_1``, ``exterior_2`` or ``wrist``.
            height: in pixels; the field of view over it is the camera's, whatever the width.
            width: in pixels.
            shadows: nicer for people; takes several times as long.

        Raises:
            SimulationError: no such camera, or an impossible size.
            RenderingUnavailable: this machine cannot draw.

        """
        if camera not in c.CAMERAS:
            raise SimulationError(f'camera {camera!r}', expected=' or '.join(c.CAMERAS))
        if not (0 < height <= _LARGEST[0] and 0 < width <= _LARGEST[1]):
            raise SimulationError(
                f'an image of {height}x{width} (height x width)',
                expected=f'1x1 to {_LARGEST[0]}x{_LARGEST[1]}',
            )
        if self._closed:
            raise SimulationError('the environment is closed', remedy='make another one')
        if self._renderer is None:
            self._renderer = Renderer(self.model)
        self.prepare_drawing()
        return self._renderer.draw(self.data, camera, height, width, shadows=shadows)

    def prepare_drawing(self) -> None:
        """Put what only is drawn where it belongs now, for those who draw ``data`` themselves."""
        self._rods.draw_from(self.data)

    def close(self) -> None:
        """Free what drawing holds; nothing is drawn afterwards. Harmless when repeated."""
        self._closed = True
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _drive(self, target: Vector) -> None:
        """Move towards the target for one action, no joint asked to be faster than its limit."""
        data = self.data
        joints = data.qpos[: c.JOINTS]
        if (np.abs(target - joints) <= _REACH).all():
            data.ctrl[: c.JOINTS] = target
            mujoco.mj_step(self.model, data, nstep=c.SUBSTEPS)
        else:
            self._count('velocity')
            for _ in range(c.SUBSTEPS // _SLICE):
                data.ctrl[: c.JOINTS] = np.clip(target, joints - _REACH, joints + _REACH)
                mujoco.mj_step(self.model, data, nstep=_SLICE)
        self._settle()

    def _settle(self) -> None:
        """See that the physics holds, and put what hangs on the joints where they are now."""
        data = self.data
        # MuJoCo starts from zero where it breaks down, and only counts it.
        if broken := [kind.name for kind in _BROKEN if data.warning[kind].number]:
            raise SimulationError(
                f'the physics broke down ({", ".join(broken)})', remedy='reset the environment'
            )
        # mj_step ends with new angles, but the old poses of what hangs on them.
        mujoco.mj_kinematics(self.model, data)
        mujoco.mj_camlight(self.model, data)

    def _count(self, limit: str) -> None:
        self.clamped[limit] += 1
        if self.clamped[limit] == 1:
            _log.warning('limit on %s came to bear at %.2f s', limit, self.data.time)

    def _set_pose(self, name: str, pose: Vector) -> None:
        at = self._poses[name]
        self.data.qpos[at : at + 7] = pose


def _checked(action: npt.ArrayLike) -> Vector:
    """Return the action as float64 [8], a copy."""
    try:
        values = np.array(action, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidAction(
            f'action is no array of numbers ({error})', expected=f'{c.ACTION_DIM} numbers'
        ) from error
    if values.shape != (c.ACTION_DIM,):
        raise InvalidAction(
            f'action has shape {values.shape}',
            expected=f'({c.ACTION_DIM},): seven joints and the gripper',
        )
    if not np.isfinite(values).all():
        raise InvalidAction(f'action {values.tolist()}', expected='finite numbers')
    return values


def letterbox(image: npt.NDArray[np.uint8], height: int, width: int) -> npt.NDArray[np.uint8]:
    """Return the image centred on black bars, unscaled; it must fit.

    Raises:
        SimulationError: it is larger than that.

    """
    rows, columns = image.shape[:2]
    if rows > height or columns > width:
        raise SimulationError(
            f'an image of {rows}x{columns} (height x width)', expected=f'at most {height}x{width}'
        )
    framed = np.zeros((height, width, 3), np.uint8)
    top, left = (height - rows) // 2, (width - columns) // 2
    framed[top : top + rows, left : left + columns] = image
    return framed
