# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated robot behind controllers, and its pace: all that needs no ROS."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip('mujoco')

from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.fake_robot.trajectory_controller import Trajectory
from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.environment import SERVO_STEPS, Environment, letterbox
from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.ros.arm import NAMES, NANOSECONDS, SERVO_RATE, SimulatedArm, check_robot
from openpi_policy_ros_sim.ros.pace import CATCH_UP_NS, Pace
from openpi_policy_ros_sim.urdf import FINGER_JOINT

PERIOD_NS = round(NANOSECONDS / SERVO_RATE)
ROBOT = load_robot('sim_droid')


class Played:
    """An arm and its clock."""

    def __init__(self, environment: Environment, seed: int = 3, robot: RobotConfig = ROBOT) -> None:
        self.now_ns = 10 * NANOSECONDS
        self.arm = SimulatedArm(robot, environment, self.now_ns)
        self.arm.reset(seed, self.now_ns)

    def run(self, seconds: float) -> dict[str, float]:
        for _ in range(round(seconds * SERVO_RATE)):
            self.arm.step(self.now_ns)
            self.now_ns += PERIOD_NS
        return self.arm.positions()

    def send(self, target: np.ndarray, seconds: float) -> str:
        message = Trajectory(
            tuple(ROBOT.outputs['arm'].joints),
            (round(seconds * NANOSECONDS),),
            (tuple(target.tolist()),),
        )
        return self.arm.model.take_trajectory('arm', message, self.now_ns)


def arm_of(positions: dict[str, float]) -> np.ndarray:
    return np.array([positions[name] for name in c.JOINT_NAMES])


def test_eight_servo_steps_are_one_action(environment):
    state = environment.reset(4)
    target = state.joint_position + 0.05
    after = environment.step([*target, 1.0])
    environment.reset(4)
    for _ in range(SERVO_STEPS):
        environment.servo(target, c.STROKE)
    fine = environment.state()
    assert fine.time == pytest.approx(after.time)
    np.testing.assert_array_equal(fine.joint_position, after.joint_position)
    assert fine.gripper_position == after.gripper_position


def test_targets_beyond_limits_are_clamped_and_counted(environment):
    environment.reset(0)
    environment.servo(np.full(c.JOINTS, 9.0), 1.0)
    assert environment.clamped['position'] == 1
    assert environment.clamped['velocity'] == 1


def test_without_commands_the_arm_stands_where_it_was_reset(environment):
    played = Played(environment)
    positions = played.run(0.5)
    np.testing.assert_allclose(arm_of(positions), c.HOME, atol=2e-3)
    assert positions[FINGER_JOINT] == pytest.approx(0.0, abs=1e-4)
    assert set(positions) == set(NAMES)


def test_a_trajectory_is_followed_and_its_last_point_held(environment):
    played = Played(environment)
    target = np.array(c.HOME) + np.array([0.3, 0.1, -0.2, 0.1, 0.2, 0.1, 0.4])
    assert played.send(target, 0.2) == ''
    soon = arm_of(played.run(0.2))
    # As soft as DROID's drives: it follows, late.
    assert 0.05 < soon[0] - c.HOME[0] < 0.25
    np.testing.assert_allclose(arm_of(played.run(1.5)), target, atol=5e-3)
    np.testing.assert_allclose(arm_of(played.run(1.0)), target, atol=5e-3)


def test_the_gripper_follows_its_array(environment):
    played = Played(environment)
    assert played.arm.model.take_values('gripper', [c.STROKE], played.now_ns) == ''
    assert played.run(0.6)[FINGER_JOINT] == pytest.approx(c.STROKE, abs=1e-3)
    assert environment.state().gripper_position == pytest.approx(1.0, abs=0.03)
    played.arm.model.take_values('gripper', [0.0], played.now_ns)
    assert played.run(0.6)[FINGER_JOINT] == pytest.approx(0.0, abs=1e-3)


def test_an_array_of_velocities_moves_the_arm_at_them(environment):
    values = ROBOT.model_dump()
    values['profile'] |= {'action_space': 'joint_velocity', 'policy_server_config': {}}
    values['outputs']['arm'] |= {'type': 'array', 'topic': 'velocity_controller/commands'}
    robot = RobotConfig.model_validate(values)
    check_robot(robot, 'mine')
    played = Played(environment, robot=robot)
    speeds = [0.3, 0.0, 0.0, 0.0, 0.0, 0.0, -0.6]
    assert played.arm.model.take_values('arm', speeds, played.now_ns) == ''
    before = arm_of(played.run(0.8))
    after = arm_of(played.run(0.5))
    np.testing.assert_allclose((after - before) / 0.5, speeds, atol=0.03)


def test_a_reset_forgets_what_was_commanded(environment):
    played = Played(environment)
    played.send(np.array(c.HOME) + 0.3, 0.1)
    played.run(0.3)
    state = played.arm.reset(7, played.now_ns)
    assert state.cube[0] == environment.reset(7).cube[0]
    np.testing.assert_allclose(arm_of(played.run(0.3)), c.HOME, atol=2e-3)
    assert played.arm.model.taken == {'arm': 0, 'gripper': 0}


@pytest.mark.parametrize(
    ('name', 'said'),
    [
        ('so101', r'cameras\.front: the simulator has no such camera'),
        ('so101', 'joints shoulder_pan, .*: the simulator has none of that name'),
        ('libero', 'names no camera or no joint'),
    ],
)
def test_a_robot_that_is_another_is_refused_by_name(name: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        check_robot(load_robot(name), name)


def test_the_shipped_file_is_the_simulated_robot() -> None:
    check_robot(ROBOT, 'sim_droid')


def test_a_file_for_another_gripper_is_refused_by_its_limits() -> None:
    with pytest.raises(
        ConfigurationError, match=r'finger_joint.* 0\.8, .* 0 \(open\) to 0\.0425 m'
    ):
        check_robot(load_robot('droid_jointpos'), 'droid_jointpos')


def test_a_turned_camera_and_an_interlock_are_refused() -> None:
    values = ROBOT.model_dump()
    values['cameras']['wrist']['rotate'] = 180
    values['safety']['interlock_topic'] = 'estop'
    with pytest.raises(ConfigurationError) as caught:
        check_robot(RobotConfig.model_validate(values), 'mine')
    assert len(caught.value.problems) == 2


def test_the_robot_file_speaks_of_the_same_gripper() -> None:
    joints, gripper = ROBOT.joints, ROBOT.outputs['gripper']
    assert joints.scale[joints.names.index(FINGER_JOINT)] * c.STROKE == pytest.approx(1.0)
    assert (gripper.open, gripper.closed) == (0.0, c.STROKE)
    assert set(joints.names) == set(NAMES)
    assert ROBOT.timing.action_rate == c.CONTROL_RATE


def test_the_robot_file_observes_and_acts_as_droid_does() -> None:
    droid = load_robot('droid_jointpos')
    assert ROBOT.profile == droid.profile
    assert ROBOT.cameras == droid.cameras
    assert ROBOT.joints.keys == droid.joints.keys


def test_a_policy_sees_the_cameras_picture_as_it_sees_the_clients(drawing) -> None:
    """16:9 on a topic, in a square frame on the wire: the same pixels once scaled."""
    torch = pytest.importorskip('torch')
    from openpi_policy_ros.policies.pi0.preprocess import preprocess_image

    drawing.reset(3)
    for camera in ROBOT.camera_names:
        picture = drawing.render(camera, 126, 224)
        for size in (128, 224):
            seen = [
                preprocess_image(camera, image, (size, size), torch.device('cpu'))
                for image in (picture, letterbox(picture, 224, 224))
            ]
            assert torch.equal(*seen)


class Watch:
    """A steady clock that is set by hand."""

    def __init__(self) -> None:
        self.ns = 5_000_000_000

    def __call__(self) -> int:
        return self.ns


def test_the_next_step_is_due_when_its_time_has_passed() -> None:
    watch = Watch()
    pace = Pace(0.5, watch)
    assert pace.advance(8_000_000) == 16_000_000
    watch.ns += 16_000_000
    assert pace.advance(8_000_000) == 16_000_000
    assert pace.factor() == pytest.approx(1.0)  # the second step is not waited for yet
    watch.ns += 16_000_000
    assert pace.factor() == pytest.approx(0.5)


def test_a_moment_is_made_up_for_and_more_is_not() -> None:
    watch = Watch()
    pace = Pace(1.0, watch)
    watch.ns += 30_000_000
    made_up = 0
    while pace.advance(8_000_000) == 0:
        made_up += 8_000_000
    assert 16_000_000 <= made_up <= 30_000_000
    watch.ns += 10 * NANOSECONDS
    made_up = 0
    while pace.advance(8_000_000) == 0:
        made_up += 8_000_000
    assert made_up <= CATCH_UP_NS + 8_000_000


def test_without_a_rate_every_step_is_due_at_once() -> None:
    pace = Pace(0.0, Watch())
    assert [pace.advance(8_000_000) for _ in range(3)] == [0, 0, 0]


@pytest.mark.parametrize('rate', [-1.0, float('nan')])
def test_time_does_not_go_back(rate: float) -> None:
    with pytest.raises(SimulationError, match='more than 0'):
        Pace(rate)


def test_a_record_over_ros_is_one_of_every_loop() -> None:
    from openpi_policy_ros_sim.results import Record, Settings
    from openpi_policy_ros_sim.ros.results import RosRecord, RosResults

    results = RosResults(Settings(('lift',), 3, 0, 450), {'loop': 'ros'}, 'ros:/openpi_policy')

    def add(seed: int, **values: object) -> None:
        done = 2.0 if seed == 0 else None
        results.records.append(
            RosRecord(
                seed=seed, task='lift', prompt='p', success=seed == 0,
                seconds={'reach': 1.0, 'lift': done, 'bowl': None}, steps=30, inferences=4,
                latency_ms=[80.0, 90.0], clamped={}, gates={'slowed': 3, 'holds': seed},
                real_time_factor=0.5, **values,
            )
        )  # fmt: skip

    add(0)
    add(1, ended='HOLD: S2: gone')
    add(2, error='stopped by a signal')
    (entry,) = results.summary()
    # What the node ended is a failure; what broke off is nothing.
    assert (entry['successes'], entry['episodes'], entry['ended_by_the_node']) == (1, 2, 1)
    assert entry['gates'] == {'slowed': 6, 'holds': 1}
    assert entry['real_time_factor'] == 0.5
    table = results.table()
    assert 'seed 1: ended by the node: HOLD: S2: gone' in table
    assert 'lift: 0.50 times real time; gates: clamped 0, slowed 6' in table
    episode = results.content()['episodes'][1]
    assert {field.name for field in dataclasses.fields(Record)} < set(episode)
    assert episode['ended'] == 'HOLD: S2: gone'
