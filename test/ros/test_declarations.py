# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every parameter is declared from the schema, with type, range and description."""

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.configuration.schema import flatten
from openpi_policy_ros.ros.declarations import DYNAMIC, Kind, declarations, free_form
from openpi_policy_ros.ros.settings import effective_parameters


def test_every_key_a_robot_file_can_hold_is_declared_and_described() -> None:
    known = declarations(['exterior_1', 'wrist'])
    robot = load_robot('droid').model_dump(exclude={'profile': {'policy_server_config'}})
    assert {name for name, _ in flatten(robot)} <= set(known)
    assert all(len(one.description) > 15 for one in known.values())


def test_every_key_of_the_shipped_file_is_declared_or_free() -> None:
    known = declarations(['exterior_1', 'wrist'])
    for name in effective_parameters({'robot': 'droid'}):
        assert name in known or free_form(name) is not None, name


def test_types_ranges_and_choices_are_those_of_the_schema() -> None:
    known = declarations(['wrist'])
    port = known['port']
    assert (port.kind, port.default, port.minimum, port.maximum) == (Kind.INTEGER, 8000, 0, 65535)
    rate = known['timing.action_rate']
    assert (rate.kind, rate.default, rate.minimum, rate.maximum) == (Kind.DOUBLE, None, 0.0, 1000.0)
    assert rate.constraints == 'greater than 0.0'
    assert known['cameras.wrist.transport'].constraints == 'one of raw, compressed'
    rotate = known['cameras.wrist.rotate']
    assert (rotate.kind, rotate.default) == (Kind.INTEGER, 0)
    assert rotate.constraints == 'one of 0, 90, 180, 270'
    assert known['cameras.wrist.crop'].kind is Kind.INTEGER_ARRAY
    assert known['cameras.wrist.max_age'].kind is Kind.DOUBLE
    assert known['joints.scale'].kind is Kind.DOUBLE_ARRAY
    assert known['joints.scale'].default is None
    mask = known['profile.delta_mask']
    assert (mask.kind, mask.default) == (Kind.BOOL_ARRAY, None)
    assert known['autostart'].kind is Kind.BOOL


def test_every_output_is_declared_under_its_own_name() -> None:
    known = declarations([], ['arm', 'hand'])
    kind = known['outputs.arm.type']
    assert (kind.kind, kind.default) == (Kind.STRING, None)
    assert kind.constraints == 'one of trajectory, array, gripper'
    assert known['outputs.hand.action_indices'].kind is Kind.INTEGER_ARRAY
    assert (known['outputs.hand.open'].kind, known['outputs.hand.open'].default) == (
        Kind.DOUBLE,
        None,
    )
    assert known['outputs.arm.hysteresis'].minimum == 0.0
    assert known['limits.position_min'].kind is Kind.DOUBLE_ARRAY
    assert known['execution.open_loop_steps'].kind is Kind.INTEGER
    assert (known['safety.velocity_scale'].default, known['safety.velocity_scale'].maximum) == (
        0.5,
        1.0,
    )
    assert not [name for name in declarations(['w']) if name.startswith('outputs.')]


def test_only_keys_inside_a_free_group_are_free() -> None:
    handshake = free_form('profile.policy_server_config.n_external_cameras')
    assert handshake is not None
    assert handshake.kind is Kind.ANY
    for name in (
        'profile.policy_server_config',
        'profile.x',
        'x',
        'cameras.w.topic',
        'profile.a.b',
    ):
        assert free_form(name) is None, name


def test_only_what_is_safe_takes_effect_at_once_and_each_says_when() -> None:
    known = declarations(['wrist'], ['arm'])
    at_once = {name for name, one in known.items() if one.dynamic}
    assert set(DYNAMIC) <= at_once
    assert at_once - set(DYNAMIC) == {name for name in known if name.startswith('diagnostics.')}
    assert len(at_once) > len(DYNAMIC)
    for name, one in known.items():
        expected = 'when the node is configured'
        if name in at_once:
            expected = 'at once'
        elif name == 'autostart':
            expected = 'when the node starts'
        assert one.takes_effect == f'takes effect {expected}', name


def test_every_number_has_a_range() -> None:
    for name, one in declarations(['wrist'], ['arm']).items():
        if one.kind in (Kind.INTEGER, Kind.DOUBLE):
            assert one.minimum is not None or one.maximum is not None, name
    rotate = declarations(['wrist'])['cameras.wrist.rotate']
    assert (rotate.minimum, rotate.maximum) == (0, 270)
