# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The node's typed settings: its own parameters and one robot file, validated together.

No ROS in here: the parameters come in as dotted names and plain values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import Field, field_validator

from openpi_policy_ros.configuration import files
from openpi_policy_ros.configuration.policy_file import load_policy_file
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.configuration.robot_file import read_robot_values, untold
from openpi_policy_ros.configuration.schema import flatten, unflatten, validate
from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.loading import needs_model
from openpi_policy_ros.recording.imagined import imagined_problems
from openpi_policy_ros.recording.ready import record_problems
from openpi_policy_ros.server import Exposure

SOURCE = 'parameters of openpi_policy'
SLOW = 'timing.inference_timeout'


class NodeConfig(RobotConfig, ServerConfig):
    """Everything the node is told: where the policy is, how to serve it, and the robot."""

    model: str = Field(
        default='',
        description='Checkpoint: a directory, or a hub id. Required, unless the policy has no '
        'model (rehearsal).',
    )
    policy: str = Field(
        default='',
        description='Policy file: a stem of config/ (pi0) or a path; empty = derived from the '
        'checkpoint.',
    )
    robot: str = Field(
        default='',
        description='Robot file: a stem of config/ (droid) or a path; its values are defaults, '
        'parameters set elsewhere win. Empty = none.',
    )
    revision: str = Field(
        default='', description='Revision of a hub id; empty = its default. No use for a directory.'
    )
    device: str = Field(
        default='cpu', min_length=1, description='Torch device: cpu, cuda or cuda:N.'
    )
    default_prompt: str = Field(
        default='', description='Instruction until one comes on the prompt topic; empty = none.'
    )
    dry_run: bool = Field(
        default=False, description='Never let chunks reach the robot, whatever else is asked.'
    )
    seed: int = Field(
        default=-1,
        ge=-1,
        description="Seed of every inference of the robot's own door; -1 = a new one each time.",
    )
    record: str = Field(
        default='',
        description='Folder to record every session into, as rosbag2 (MCAP); empty = nothing is '
        "recorded. Needs pip install 'openpi_policy_ros[record]'.",
    )
    imagined_dir: str = Field(
        default='',
        description='Folder for a video per session of the future that the policy imagines, where '
        'it does (imagined of the policy file); empty = none is kept.',
    )
    autostart: bool = Field(
        default=True,
        description='Configure and activate at start; false = wait for a lifecycle manager.',
    )

    @field_validator(
        'model',
        'policy',
        'robot',
        'revision',
        'device',
        'default_prompt',
        'host',
        'api_key_file',
        'tls_certificate',
        'tls_key',
        'record',
        'imagined_dir',
        mode='before',
    )
    @classmethod
    def _text(cls, value: Any) -> Any:
        if not isinstance(value, str):
            raise ValueError(
                f'expected text, found {value!r}; quote it twice so that ROS does not take it for '
                f'a {type(value).__name__}: \'"{value}"\''
            )
        return value

    @property
    def has_robot_door(self) -> bool:
        """Return whether there is a sensor to build observations from; else server only."""
        return bool(self.camera_names or self.joints.names)

    def server(self) -> ServerConfig:
        """Return the settings of the WebSocket server."""
        return ServerConfig(**{name: getattr(self, name) for name in ServerConfig.model_fields})


def effective_parameters(explicit: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted parameters: those of the file ``robot`` names, overridden by ``explicit``.

    An explicit None (ROS has it for an empty list and for a key without value) means none, also
    where the file has a value.

    Raises:
        ConfigurationError: no such robot file, or it holds what a robot file cannot.

    """
    values, error, _ = _merge(explicit)
    if error is not None:
        raise error
    return values


def _merge(
    explicit: Mapping[str, Any],
) -> tuple[dict[str, Any], ConfigurationError | None, Collection[str]]:
    """Return the parameters as far as known, what is wrong with the robot file, and its keys."""
    robot = explicit.get('robot', '')
    if not isinstance(robot, str) or not robot:
        return _without_none(explicit), None, ()
    try:
        path = files.resolve(robot, 'robot')
        values, told = read_robot_values(path)
    except ConfigurationError as error:
        return _without_none(explicit), error, ()
    of_node = set(NodeConfig.model_fields) - set(RobotConfig.model_fields)
    foreign = sorted(of_node.intersection(values))
    problems = [
        *(f'{key}: is a parameter of the node, not of a robot; set it there' for key in foreign),
        *told.values(),
    ]
    defaults = {name: value for name, value in flatten(values) if name not in foreign}
    for listing, group in (('camera_names', 'cameras.'), ('output_names', 'outputs.')):
        if listing in explicit and isinstance(explicit[listing] or [], list):
            # Naming fewer cameras or outputs, or none, switches the file's others off.
            wanted = tuple(f'{group}{name}.' for name in explicit[listing] or [])
            defaults = {
                name: value
                for name, value in defaults.items()
                if not name.startswith(group) or name.startswith(wanted)
            }
    fault = ConfigurationError(str(path), problems) if problems else None
    merged = _without_none({**defaults, **explicit})
    # A robot whose policy thinks long says so; what the node is told itself counts more.
    if SLOW in merged:
        merged.setdefault('inference_timeout', merged[SLOW])
    return merged, fault, told.keys()


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def validate_parameters(explicit: Mapping[str, Any]) -> NodeConfig:
    """Return the node's settings.

    Args:
        explicit: dotted name → value, as set by the user.

    Raises:
        ConfigurationError: every problem of the parameters, the robot file and the policy file's
            name, in one message.

    """
    problems: list[str] = []
    parameters, fault, told = _merge(explicit)
    if fault is not None:
        problems += [f'robot: {fault.source}: {problem}' for problem in fault.problems]
    policy = explicit.get('policy', '')
    if isinstance(policy, str) and policy:
        try:
            load_policy_file(policy)
        except ConfigurationError as error:
            problems += [f'policy: {error.source}: {problem}' for problem in error.problems]
    problems += _model_problems(parameters)
    problems += _server_file_problems(parameters)
    record = parameters.get('record', '')
    if isinstance(record, str) and record:
        problems += [f'record: {problem}' for problem in record_problems(record)]
    imagined = parameters.get('imagined_dir', '')
    if isinstance(imagined, str) and imagined:
        problems += [f'imagined_dir: {problem}' for problem in imagined_problems(imagined)]
    try:
        config = validate(NodeConfig, unflatten(parameters), SOURCE)
    except ConfigurationError as error:
        problems += untold(error.problems, told)
        raise ConfigurationError(SOURCE, list(dict.fromkeys(problems))) from None
    if problems:
        raise ConfigurationError(SOURCE, problems)
    return config


def _model_problems(parameters: Mapping[str, Any]) -> list[str]:
    """Return that a model is missing, where the policy needs one."""
    policy = parameters.get('policy', '')
    if parameters.get('model', '') != '':
        return []
    try:
        needed = isinstance(policy, str) and needs_model(policy)
    except ConfigurationError:
        # Which policy is meant is not known, and told already.
        needed = False
    wanted = 'required: a checkpoint directory or a hub id, e.g. model:=/data/pi0_droid'
    without = 'policy:=rehearsal needs none'
    return [f'model: {wanted}; {without}'] if needed else []


def changed_settings(effective: Mapping[str, Any], changes: Mapping[str, Any]) -> NodeConfig:
    """Return the settings of a configured node after a few of them were changed.

    Args:
        effective: dotted name → value, all that hold; no file is read again.
        changes: likewise, of those that change; None = the default.

    Raises:
        ConfigurationError: every problem.

    """
    return validate(NodeConfig, unflatten(_without_none({**effective, **changes})), SOURCE)


def _server_file_problems(parameters: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the files of keys and certificates, before a model is loaded."""
    names = ('api_key_file', 'tls_certificate', 'tls_key')
    files = {name: parameters[name] for name in names if isinstance(parameters.get(name), str)}
    try:
        Exposure.load(validate(ServerConfig, files, SOURCE))
    except ConfigurationError as error:
        return list(error.problems)
    return []
