# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The middleware: which one, its profile, and whether the kernel grants the buffers it asks for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from openpi_policy_ros.configuration.files import config_directory
from openpi_policy_ros.doctor.asked import Asked
from openpi_policy_ros.doctor.findings import Finding, fail, gigabytes, ok, skipped, warn
from openpi_policy_ros.ros.launch_arguments import PROFILE_VARIABLES

RMW, PROFILE, BUFFERS = 'rmw', 'Fast DDS profile', 'socket buffers'
_DEFAULT = 'rmw_fastrtps_cpp'
_SEGMENTS = 3
"""Shared memory that a node, a camera driver and a tool take, in segments."""


def examine(asked: Asked) -> list[Finding]:
    """Look at the chosen middleware and its profile."""
    prefixes = asked.environment.get('AMENT_PREFIX_PATH', '').split(os.pathsep)
    installed = installed_in(prefixes)
    chosen = asked.environment.get('RMW_IMPLEMENTATION', '')
    findings = [judge_rmw(chosen, installed)]
    if 'fastrtps' in (chosen or _DEFAULT):
        findings += examine_profile(asked.environment)
    return findings


def installed_in(prefixes: Sequence[str]) -> list[str]:
    """Return the middlewares that the ament index of these prefixes names."""
    found: set[str] = set()
    for prefix in prefixes:
        index = Path(prefix, 'share', 'ament_index', 'resource_index', 'rmw_typesupport')
        if prefix and index.is_dir():
            # The one of that name only loads the others.
            found |= {path.name for path in index.iterdir()} - {'rmw_implementation'}
    return sorted(found)


def judge_rmw(chosen: str, installed: Sequence[str]) -> Finding:
    """Judge the choice.

    Args:
        chosen: RMW_IMPLEMENTATION, '' = not set.
        installed: what the ament index names.

    """
    if not installed:
        return skipped(RMW, 'no ROS is sourced (AMENT_PREFIX_PATH names no middleware)')
    there = ', '.join(installed)
    if chosen and chosen not in installed:
        remedy = f'sudo apt install ros-<distro>-{chosen.replace("_", "-")}, or unset the variable'
        return fail(RMW, f'RMW_IMPLEMENTATION is {chosen}; installed: {there}', remedy)
    if not chosen and len(installed) > 1:
        text = f'RMW_IMPLEMENTATION is not set; installed: {there}'
        return warn(
            RMW, text, 'set it alike on every machine: different ones hear each other badly'
        )
    return ok(RMW, f'{chosen or installed[0]} is used; installed: {there}')


def examine_profile(environment: Mapping[str, str]) -> list[Finding]:
    """Look at the profile that the environment names."""
    named = {name: environment[name] for name in PROFILE_VARIABLES if environment.get(name)}
    if not named:
        shipped = config_directory() / 'fastdds_profile.xml'
        remedy = (
            'serve.launch.py sets it for the node; set it for the camera drivers too: '
            f'export {PROFILE_VARIABLES[0]}={shipped}'
        )
        text = 'no profile is set here: the default buffers are too small for images'
        return [warn(PROFILE, text, remedy)]
    findings = []
    for name, path in dict.fromkeys((name, path) for name, path in named.items()):
        try:
            root = ElementTree.fromstring(Path(path).read_bytes())
        except (OSError, ElementTree.ParseError) as error:
            text = f'{name} names {path}, which cannot be read: {error}'
            findings.append(fail(PROFILE, text, 'correct the variable or the file'))
            continue
        findings.append(ok(PROFILE, f'{name} names {path}'))
        findings += judge_buffers(
            _numbers(root, 'receiveBufferSize'),
            _numbers(root, 'segment_size'),
            receive_max=_kernel('net/core/rmem_max'),
            shared_free=_shared_free(),
        )
    return findings


def judge_buffers(
    receive: Sequence[int],
    segments: Sequence[int],
    *,
    receive_max: int | None,
    shared_free: int | None,
) -> list[Finding]:
    """Judge what a profile asks of the kernel.

    Args:
        receive: sizes of socket buffers that it asks for, bytes.
        segments: of shared memory, bytes for each participant.
        receive_max: net.core.rmem_max; None = not known.
        shared_free: free bytes of /dev/shm; None = not known.

    """
    findings = []
    want = max(receive, default=0)
    if receive_max is not None and want:
        text = f'the profile asks for {want} bytes, net.core.rmem_max is {receive_max}'
        if receive_max < want:
            remedy = (
                f'sudo sysctl -w net.core.rmem_max={want}, and the same line in /etc/sysctl.d/ to '
                'keep it; on one machine images go through shared memory anyhow'
            )
            findings.append(warn(BUFFERS, f'{text}: the kernel grants no more', remedy))
        else:
            findings.append(ok(BUFFERS, text))
    memory = max(segments, default=0)
    if shared_free is not None and memory:
        text = (
            f'{gigabytes(shared_free)} free in /dev/shm, {gigabytes(memory)} for each participant'
        )
        if shared_free < _SEGMENTS * memory:
            remedy = 'start the container with --shm-size=1g, or remove what lies in /dev/shm'
            findings.append(warn('shared memory', text, remedy))
        else:
            findings.append(ok('shared memory', text))
    return findings


def _numbers(root: ElementTree.Element, name: str) -> list[int]:
    """Return the numbers under a tag, whatever its namespace."""
    texts = (one.text or '' for one in root.iter() if one.tag.rpartition('}')[2] == name)
    return [int(text) for text in texts if text.strip().isdigit()]


def _kernel(name: str) -> int | None:
    path = Path('/proc/sys') / name
    return int(path.read_text(encoding='ascii')) if path.is_file() else None


def _shared_free() -> int | None:
    if not os.path.isdir('/dev/shm'):
        return None
    found = os.statvfs('/dev/shm')
    return found.f_bavail * found.f_frsize
