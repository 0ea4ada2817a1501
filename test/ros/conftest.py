# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Prepare DDS before the first participant of the test process is made."""

import os
import sys
import tempfile
from pathlib import Path

from openpi_policy_ros.configuration.files import config_directory
from openpi_policy_ros.ros.launch_arguments import PROFILE_VARIABLES, dds_environment

# Two participants find each other with the next announcement, every 3 s unless told otherwise;
# each test process would wait for it. All else is the shipped profile.
_ANCHOR = '<useBuiltinTransports>false</useBuiltinTransports>'
_ANNOUNCE = (
    '<builtin><discovery_config><leaseAnnouncement><sec>0</sec><nanosec>200000000</nanosec>'
    '</leaseAnnouncement></discovery_config></builtin>'
)
_SHIPPED = (config_directory() / 'fastdds_profile.xml').read_text(encoding='utf-8')
assert _ANCHOR in _SHIPPED
_DIRECTORY = tempfile.TemporaryDirectory(prefix='openpi_policy_ros_test_')
_PROFILE = Path(_DIRECTORY.name) / 'fastdds_profile.xml'
_PROFILE.write_text(_SHIPPED.replace(_ANCHOR, _ANCHOR + _ANNOUNCE), encoding='utf-8')

_WITHOUT = {k: v for k, v in os.environ.items() if k not in PROFILE_VARIABLES}
os.environ.update(dict.fromkeys(dds_environment(_WITHOUT), str(_PROFILE)))
os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
if 'ROS_DISTRO' not in os.environ:
    # The wheels live in the environment's own prefix.
    os.environ.setdefault('AMENT_PREFIX_PATH', sys.prefix)
# Helpers beside the tests.
sys.path.insert(0, os.path.dirname(__file__))
