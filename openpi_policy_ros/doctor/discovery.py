# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether participants can find each other: domain, ports, range, multicast."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from pathlib import Path

from openpi_policy_ros.doctor.asked import Asked
from openpi_policy_ros.doctor.findings import Finding, fail, ok, warn

DOMAIN, RANGE, MULTICAST = 'ROS_DOMAIN_ID', 'discovery range', 'multicast'
HIGHEST = 232
"""DDS's ports end there (DDSI-RTPS 9.6.1.1: 7400 + 250 · domain + …)."""
_BASE, _GAIN = 7400, 250
_RANGES = ('SUBNET', 'LOCALHOST', 'OFF', 'SYSTEM_DEFAULT')
_GROUP = '239.255.0.1'
"""DDS's own group; the port is not."""
_EPHEMERAL = Path('/proc/sys/net/ipv4/ip_local_port_range')


def examine(asked: Asked) -> list[Finding]:
    """Look at the environment, and send one datagram to a group of this machine."""
    environment = asked.environment
    findings = [judge_domain(environment.get('ROS_DOMAIN_ID', ''), _ephemeral())]
    found, on_network = judge_range(environment)
    findings.append(found)
    if on_network:
        findings.append(judge_multicast(_multicast_problem()))
    return findings


def judge_domain(text: str, ephemeral: tuple[int, int]) -> Finding:
    """Judge ROS_DOMAIN_ID.

    Args:
        text: as set, '' = not set.
        ephemeral: ports that the kernel gives to whoever asks for any.

    """
    remedy = 'take a number from 0 to 101, the same on every machine of this robot'
    if text and not (text.isdigit() and int(text) <= HIGHEST):
        return fail(DOMAIN, f'{text!r} is no domain; expected 0 to {HIGHEST}', remedy)
    domain = int(text or 0)
    first = _BASE + _GAIN * domain
    last = first + _GAIN - 1
    if first <= ephemeral[1] and last >= ephemeral[0] and domain > 101:
        return warn(
            DOMAIN,
            f'{domain} uses the ports {first} to {last}, which the kernel also gives to others '
            f'({ephemeral[0]} to {ephemeral[1]}): now and then a node cannot start',
            remedy,
        )
    return ok(DOMAIN, f'{domain}, the ports {first} to {last}')


def judge_range(environment: Mapping[str, str]) -> tuple[Finding, bool]:
    """Return how far discovery reaches, and whether that is the network."""
    older = environment.get('ROS_LOCALHOST_ONLY', '')
    newer = environment.get('ROS_AUTOMATIC_DISCOVERY_RANGE', '')
    peers = environment.get('ROS_STATIC_PEERS', '')
    if newer and newer not in _RANGES:
        text = f'ROS_AUTOMATIC_DISCOVERY_RANGE is {newer!r}; expected one of {", ".join(_RANGES)}'
        return fail(RANGE, text, 'correct it, in capitals'), False
    if older == '1' and newer:
        text = f'ROS_LOCALHOST_ONLY=1 overrides ROS_AUTOMATIC_DISCOVERY_RANGE={newer}'
        return warn(RANGE, text, 'unset ROS_LOCALHOST_ONLY, which is the older one'), False
    if newer == 'OFF':
        return fail(
            RANGE, 'ROS_AUTOMATIC_DISCOVERY_RANGE is OFF: no node finds another', 'unset it'
        ), False
    if older == '1' or newer == 'LOCALHOST':
        text = 'this machine only: nodes on another computer are not found'
        return ok(RANGE, f'{text}; static peers: {peers}' if peers else text), False
    return ok(RANGE, 'the network that multicast reaches'), True


def judge_multicast(problem: str) -> Finding:
    """Judge whether a datagram to a group came back; '' = it did."""
    if not problem:
        return ok(MULTICAST, 'a datagram to a group comes back')
    return warn(
        MULTICAST,
        f'a datagram to a group does not come back: {problem}',
        'let the firewall pass UDP 7400 and up, allow multicast on the interface and access point, '
        'or name the others in ROS_STATIC_PEERS',
    )


def _multicast_problem(patience: float = 1.0) -> str:
    try:
        with contextlib.ExitStack() as stack:
            ears, mouth = (
                stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                for _ in range(2)
            )
            ears.bind(('', 0))
            group = socket.inet_aton(_GROUP) + socket.inet_aton('0.0.0.0')
            ears.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
            ears.settimeout(patience)
            # It goes no further than this machine.
            mouth.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            mouth.sendto(b'openpi_policy_ros', (_GROUP, ears.getsockname()[1]))
            ears.recv(64)
    except TimeoutError:
        return f'nothing within {patience:.0f} s'
    except OSError as error:
        return error.strerror or str(error)
    return ''


def _ephemeral() -> tuple[int, int]:
    if not _EPHEMERAL.is_file():
        return 32768, 60999
    low, high = _EPHEMERAL.read_text(encoding='ascii').split()
    return int(low), int(high)
