# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Standard ROS 2 messages made without ROS: plain dataclasses that serialise themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.stores.ros2_humble import (
    builtin_interfaces__msg__Duration as Duration,
)
from rosbags.typesys.stores.ros2_humble import (
    builtin_interfaces__msg__Time as Time,
)
from rosbags.typesys.stores.ros2_humble import (
    diagnostic_msgs__msg__DiagnosticStatus as DiagnosticStatus,
)
from rosbags.typesys.stores.ros2_humble import (
    diagnostic_msgs__msg__KeyValue as KeyValue,
)
from rosbags.typesys.stores.ros2_humble import (
    sensor_msgs__msg__Image as Image,
)
from rosbags.typesys.stores.ros2_humble import (
    sensor_msgs__msg__JointState as JointState,
)
from rosbags.typesys.stores.ros2_humble import (
    std_msgs__msg__Float64MultiArray as Float64MultiArray,
)
from rosbags.typesys.stores.ros2_humble import (
    std_msgs__msg__Header as Header,
)
from rosbags.typesys.stores.ros2_humble import (
    std_msgs__msg__MultiArrayDimension as MultiArrayDimension,
)
from rosbags.typesys.stores.ros2_humble import (
    std_msgs__msg__MultiArrayLayout as MultiArrayLayout,
)
from rosbags.typesys.stores.ros2_humble import (
    std_msgs__msg__String as String,
)
from rosbags.typesys.stores.ros2_humble import (
    trajectory_msgs__msg__JointTrajectory as JointTrajectory,
)
from rosbags.typesys.stores.ros2_humble import (
    trajectory_msgs__msg__JointTrajectoryPoint as JointTrajectoryPoint,
)

from openpi_policy_ros.control.buffers import NANOSECONDS
from openpi_policy_ros.control.chunk import JointQuantity, LabelledRows

STORE = get_typestore(Stores.ROS2_HUMBLE)
"""Definitions of the messages used here; they are the same in every ROS 2 since."""

Message: TypeAlias = (
    DiagnosticStatus | Float64MultiArray | Image | JointState | JointTrajectory | String
)

ENCODINGS = {
    ('uint8', 1): ('mono8', 'mono8'),
    ('uint8', 3): ('rgb8', 'bgr8'),
    ('uint8', 4): ('rgba8', 'bgra8'),
    ('float32', 1): ('32FC1', '32FC1'),
    ('float32', 3): ('32FC3', '32FC3'),
    ('float32', 4): ('32FC4', '32FC4'),
}
"""(dtype, channels) → encoding of ``sensor_msgs/Image`` in RGB and in BGR order."""

_FLOATS = np.empty(0, np.float64)


def time_of(nanoseconds: int) -> Time:
    """Return nanoseconds since 1970 as a stamp."""
    seconds, rest = divmod(nanoseconds, NANOSECONDS)
    return Time(sec=seconds, nanosec=rest)


def nanoseconds(stamp: Any) -> int:
    """Return a stamp or duration as nanoseconds."""
    return int(stamp.sec) * NANOSECONDS + int(stamp.nanosec)


def text(value: str) -> String:
    """Return text as a message."""
    return String(data=value)


def image(pixels: npt.NDArray[Any], stamp_ns: int, frame_id: str, *, bgr: bool = False) -> Image:
    """Return pixels as a message, copied only where rows are not packed.

    Args:
        pixels: [height, width, channels], dtype and channels as in ``ENCODINGS``.
        stamp_ns: of the header.
        frame_id: of the header.
        bgr: the order of three or four channels.

    """
    height, width, channels = pixels.shape
    packed = np.ascontiguousarray(pixels)
    encoding = ENCODINGS[packed.dtype.name, channels][bgr]
    return Image(
        header=Header(stamp=time_of(stamp_ns), frame_id=frame_id),
        height=height,
        width=width,
        encoding=encoding,
        is_bigendian=0,
        step=width * channels * packed.itemsize,
        data=packed.reshape(-1).view(np.uint8),
    )


def pixels_of(message: Any) -> npt.NDArray[Any]:
    """Return the pixels of an image that ``image`` made, [height, width, channels]."""
    kinds = {name: key for key, names in ENCODINGS.items() for name in names}
    dtype, channels = kinds[message.encoding]
    data = np.asarray(message.data, np.uint8).view(dtype)
    return data.reshape(message.height, message.width, channels)


def numbers(values: npt.NDArray[Any], labels: Sequence[str] | None = ()) -> Float64MultiArray:
    """Return a vector, or rows labelled as on ``~/action_chunk_array``.

    Args:
        values: [D], or [H, D].
        labels: one per column of rows; None = no layout at all.

    """
    data = np.ascontiguousarray(values, np.float64)
    sizes: tuple[tuple[str, int, int], ...] = ()
    if labels is None:
        pass
    elif data.ndim == 2:
        sizes = LabelledRows(tuple(labels), data).dimensions
    else:
        sizes = ((','.join(labels), data.size, data.size),)
    return Float64MultiArray(
        layout=MultiArrayLayout(
            dim=[MultiArrayDimension(label=a, size=b, stride=c) for a, b, c in sizes],
            data_offset=0,
        ),
        data=data.reshape(-1),
    )


def rows_of(message: Any) -> npt.NDArray[np.float64]:
    """Return the numbers of a ``Float64MultiArray`` in the shape of its layout."""
    shape = [int(one.size) for one in message.layout.dim]
    data = np.asarray(message.data, np.float64)
    return data.reshape(shape) if shape else data


def trajectory(
    names: Sequence[str],
    quantity: JointQuantity,
    rows: Sequence[Sequence[float]] | npt.NDArray[np.float64],
    times_ns: Sequence[int],
    stamp_ns: int,
) -> JointTrajectory:
    """Return joint rows as a message; arguments as of ``JointTrajectoryRows``."""
    points = []
    for row, time_ns in zip(rows, times_ns, strict=True):
        values = {'positions': _FLOATS, 'velocities': _FLOATS}
        values[quantity] = np.ascontiguousarray(row, np.float64)
        points.append(
            JointTrajectoryPoint(
                **values,
                accelerations=_FLOATS,
                effort=_FLOATS,
                time_from_start=Duration(sec=time_ns // NANOSECONDS, nanosec=time_ns % NANOSECONDS),
            )
        )
    header = Header(stamp=time_of(stamp_ns), frame_id='')
    return JointTrajectory(header=header, joint_names=list(names), points=points)


def joint_state(message: Any) -> JointState:
    """Return a copy of a ``sensor_msgs/JointState`` of rclpy, which is read by its fields."""
    stamp = message.header.stamp
    return JointState(
        header=Header(
            stamp=Time(sec=stamp.sec, nanosec=stamp.nanosec), frame_id=message.header.frame_id
        ),
        name=list(message.name),
        position=np.array(message.position, np.float64),
        velocity=np.array(message.velocity, np.float64),
        effort=np.array(message.effort, np.float64),
    )


def diagnostic_status(
    level: bytes, name: str, message: str, values: Mapping[str, str]
) -> DiagnosticStatus:
    """Return what ``~/status`` says as a message."""
    return DiagnosticStatus(
        level=level[0],
        name=name,
        message=message,
        hardware_id='',
        values=[KeyValue(key=key, value=value) for key, value in values.items()],
    )
