# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Each finding about the machine, by facts that stand in for one that lacks something."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.doctor import (
    clock,
    discovery,
    gpu,
    memory,
    middleware,
    model,
    packages,
    ports,
    realtime,
)
from openpi_policy_ros.doctor.asked import Asked, read_robot
from openpi_policy_ros.doctor.findings import Finding, Outcome
from openpi_policy_ros.doctor.model import ModelFacts
from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies.hub import HubUnreachable, Listing
from openpi_policy_ros.recording.ready import missing_extra

DATA = Path(__file__).resolve().parents[1] / 'data'
COMMIT = 'a' * 40


def assert_found(finding: Finding, outcome: Outcome, *texts: str) -> None:
    assert finding.outcome is outcome, finding
    assert (finding.remedy == '') == (outcome in (Outcome.OK, Outcome.SKIPPED)), finding
    said = f'{finding.found} -> {finding.remedy}'
    assert [text for text in texts if text not in said] == [], said


def test_a_python_that_is_too_old_fails():
    assert_found(packages.judge_python('3.9.2', '>=3.10'), Outcome.FAIL, 'Python 3.9.2', '>=3.10')
    assert_found(packages.judge_python('3.12.1', '>=3.10'), Outcome.OK)


def test_packages_that_lack_or_are_too_old_fail_each_and_the_others_share_a_line():
    versions = {'numpy': '2.4.0', 'torch': '2.4.1+cpu', 'tqdm': '4.70'}
    wanted = ['numpy>=1.22', 'torch>=2.5', 'pydantic>=2.7', 'tqdm>=4.57', 'uvloop; extra == "x"']
    old, absent, fine = packages.judge_packages(wanted, versions.get)
    assert_found(old, Outcome.FAIL, 'torch 2.4.1+cpu', 'pip install "torch>=2.5"')
    assert_found(absent, Outcome.FAIL, 'pydantic is not installed')
    assert_found(fine, Outcome.OK, 'numpy 2.4.0, tqdm 4.70')


def test_a_clock_nobody_keeps_and_one_that_is_moved_are_told():
    assert_found(clock.judge_kernel(0x0040, 16_000_000), Outcome.WARN, 'chrony')
    assert_found(clock.judge_kernel(0x2001, 12_000), Outcome.OK, '0.012 s')
    assert_found(clock.judge_pace(-0.7), Outcome.WARN, '-0.700 s', 'S13')
    assert_found(clock.judge_pace(0.0001), Outcome.OK)


def test_missing_extras_are_warned_of_with_what_to_install():
    recording, plots = packages.judge_extras(
        lambda module, extra: missing_extra(f'no_{module}', extra)
    )
    assert_found(recording, Outcome.WARN, 'record:=', "pip install 'openpi_policy_ros[record]'")
    assert_found(plots, Outcome.WARN, '--out', "pip install 'openpi_policy_ros[plot]'")
    assert packages.judge_extras(lambda module, extra: '') == []


def test_a_port_in_use_fails_with_what_to_do():
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        config = ServerConfig(host='127.0.0.1', port=taken.getsockname()[1])
        (found,) = ports.examine(Asked(server=config))
    assert_found(found, Outcome.FAIL, 'the port is in use', 'stop the other server')


def test_an_open_address_is_warned_of_and_the_firewall_cannot_be_seen():
    bound, open_door, firewall = ports.examine(Asked(server=ServerConfig(host='0.0.0.0', port=0)))
    assert_found(bound, Outcome.OK)
    assert_found(open_door, Outcome.WARN, 'whoever can connect can use the policy', 'api_key_file')
    assert_found(firewall, Outcome.WARN, 'openpi-policy client --url ws://')


def test_a_key_file_that_is_not_there_fails():
    found = ports.examine(Asked(server=ServerConfig(port=0, api_key_file='/nowhere/keys')))
    assert_found(found[-1], Outcome.FAIL, '/nowhere/keys')


def test_a_refused_priority_is_warned_of_with_where_to_grant_it():
    refusal = 'not permitted (Operation not permitted); grant rtprio in limits.conf'
    assert_found(realtime.judge_priority(refusal), Outcome.WARN, 'grant rtprio', 'not permitted')
    assert_found(realtime.judge_priority(''), Outcome.OK)


def test_too_few_cores_and_a_busy_machine_are_warned_of():
    assert_found(realtime.judge_cores(8, 1.5, 0.0, 'X'), Outcome.WARN, 'limited to 1.5')
    assert_found(realtime.judge_cores(4, None, 9.0, 'X'), Outcome.WARN, 'load average 9.0')
    assert_found(realtime.judge_cores(4, 4.0, 1.0, 'X'), Outcome.OK)


def test_a_saving_governor_is_warned_of_and_silence_says_nothing():
    (found,) = realtime.judge_governors(['powersave', 'performance'])
    assert_found(found, Outcome.WARN, 'powersave', 'cpupower')
    assert realtime.judge_governors([]) == []
    (found,) = realtime.judge_governors(['performance'])
    assert_found(found, Outcome.OK)


@pytest.mark.parametrize(
    ('text', 'outcome', 'said'),
    [
        ('', Outcome.OK, '0, the ports 7400 to 7649'),
        ('101', Outcome.OK, '101'),
        ('110', Outcome.WARN, 'ports 34900 to 35149'),
        ('220', Outcome.OK, '220'),
        ('233', Outcome.FAIL, 'expected 0 to 232'),
        ('left', Outcome.FAIL, "'left' is no domain"),
    ],
)
def test_a_domain_is_judged_by_its_ports(text, outcome, said):
    assert_found(discovery.judge_domain(text, (32768, 60999)), outcome, said)


@pytest.mark.parametrize(
    ('environment', 'outcome', 'on_network'),
    [
        ({}, Outcome.OK, True),
        ({'ROS_AUTOMATIC_DISCOVERY_RANGE': 'SUBNET'}, Outcome.OK, True),
        ({'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'}, Outcome.OK, False),
        ({'ROS_LOCALHOST_ONLY': '1'}, Outcome.OK, False),
        ({'ROS_AUTOMATIC_DISCOVERY_RANGE': 'OFF'}, Outcome.FAIL, False),
        ({'ROS_AUTOMATIC_DISCOVERY_RANGE': 'localhost'}, Outcome.FAIL, False),
        (
            {'ROS_LOCALHOST_ONLY': '1', 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'SUBNET'},
            Outcome.WARN,
            False,
        ),
    ],
)
def test_the_range_of_discovery_is_judged(environment, outcome, on_network):
    finding, reaches = discovery.judge_range(environment)
    assert_found(finding, outcome)
    assert reaches is on_network


def test_multicast_that_does_not_come_back_is_warned_of():
    found = discovery.judge_multicast('nothing within 1 s')
    assert_found(found, Outcome.WARN, 'nothing within 1 s', 'ROS_STATIC_PEERS')
    assert_found(discovery.judge_multicast(''), Outcome.OK)


def test_the_middleware_must_be_installed_and_chosen():
    two = ['rmw_cyclonedds_cpp', 'rmw_fastrtps_cpp']
    assert_found(middleware.judge_rmw('rmw_zenoh_cpp', two), Outcome.FAIL, 'rmw-zenoh-cpp')
    assert_found(middleware.judge_rmw('', two), Outcome.WARN, 'is not set')
    assert_found(middleware.judge_rmw('', two[1:]), Outcome.OK)
    assert_found(middleware.judge_rmw('', []), Outcome.SKIPPED)


def test_middlewares_are_found_in_the_ament_index(tmp_path):
    index = tmp_path / 'share/ament_index/resource_index/rmw_typesupport'
    index.mkdir(parents=True)
    for name in ('rmw_fastrtps_cpp', 'rmw_implementation'):
        (index / name).touch()
    assert middleware.installed_in([str(tmp_path), '']) == ['rmw_fastrtps_cpp']


def test_a_profile_must_be_named_and_readable(tmp_path):
    (found,) = middleware.examine_profile({})
    assert_found(found, Outcome.WARN, 'export FASTDDS_DEFAULT_PROFILES_FILE=', 'camera drivers')
    broken = tmp_path / 'p.xml'
    broken.write_text('<dds>', encoding='utf-8')
    for path in (str(broken), str(tmp_path / 'absent.xml')):
        (found,) = middleware.examine_profile({'FASTDDS_DEFAULT_PROFILES_FILE': path})
        assert_found(found, Outcome.FAIL, path, 'cannot be read')
    shipped = str(Path(__file__).resolve().parents[2] / 'config' / 'fastdds_profile.xml')
    found = middleware.examine_profile({'FASTRTPS_DEFAULT_PROFILES_FILE': shipped})[0]
    assert_found(found, Outcome.OK, shipped)


def test_buffers_that_the_kernel_does_not_grant_are_warned_of():
    asked: dict[str, Any] = {'receive_max': 212_992, 'shared_free': 67_000_000}
    small, shared = middleware.judge_buffers([4_194_304], [33_554_432], **asked)
    assert_found(small, Outcome.WARN, 'sysctl -w net.core.rmem_max=4194304')
    assert_found(shared, Outcome.WARN, '--shm-size')
    asked = {'receive_max': 4_194_304, 'shared_free': 10**9}
    fine = middleware.judge_buffers([4_194_304], [33_554_432], **asked)
    assert [one.outcome for one in fine] == [Outcome.OK, Outcome.OK]


def test_memory_is_judged_against_the_weights_and_the_container():
    def judge(available: int | None, limit: int | None, weights: int | None) -> Finding:
        return memory.judge_memory(available, limit, weights, on_cpu=True)

    found = judge(32 * 10**9, 8 * 10**9, 13 * 10**9)
    assert_found(found, Outcome.FAIL, '8.0 GB free', 'the machine has 32.0 GB', 'raise the limit')
    assert_found(judge(8 * 10**9, None, 13 * 10**9), Outcome.FAIL, 'free some memory')
    assert_found(judge(20 * 10**9, None, 13 * 10**9), Outcome.WARN, 'loading will be slow')
    assert_found(judge(64 * 10**9, None, 13 * 10**9), Outcome.OK)
    assert_found(judge(64 * 10**9, None, None), Outcome.OK, 'not known')
    assert_found(judge(None, None, None), Outcome.SKIPPED)


def test_a_disk_without_room_for_the_download_fails():
    facts = ModelFacts((), weights=None, missing=13 * 10**9)
    found = memory.judge_disk('a/b', facts, free=10**9)
    assert_found(found, Outcome.FAIL, '1.0 GB free', 'HF_HOME')
    assert_found(memory.judge_disk('a/b', facts, free=10**11), Outcome.OK)
    assert_found(memory.judge_disk('', ModelFacts(())), Outcome.SKIPPED)


CARD = {'name': 'Card', 'capability': [8, 9], 'free': 10 * 10**9, 'total': 24 * 10**9}


def torch_says(**changes: Any) -> Mapping[str, Any]:
    said = {'torch': '2.9.0', 'cuda': '12.8', 'architectures': ['sm_80'], 'devices': [CARD]}
    return {**said, 'why': '', **changes}


@pytest.mark.parametrize(
    ('device', 'answer', 'facts', 'outcome', 'said'),
    [
        ('cuda', {'problem': 'no answer', 'slow': True}, {}, Outcome.NOT_MADE, 'no answer'),
        ('cuda', {'problem': 'no libtorch.so'}, {}, Outcome.FAIL, 'no libtorch.so'),
        ('cuda', torch_says(cuda='', devices=[]), {}, Outcome.FAIL, 'torch build with CUDA'),
        ('cuda', torch_says(cuda='', devices=[]), {'jetson': True}, Outcome.FAIL, 'JetPack'),
        (
            'cuda',
            torch_says(devices=[], why='driver too old'),
            {'driver': '470.1'},
            Outcome.FAIL,
            'driver too old; driver 470.1',
        ),
        ('cuda:1', torch_says(), {}, Outcome.FAIL, 'it sees 1 devices'),
        ('cuda', torch_says(architectures=['sm_90']), {}, Outcome.FAIL, 'capability 8.9'),
        ('cuda', torch_says(architectures=['compute_70']), {}, Outcome.OK, 'Card'),
        ('cuda', torch_says(), {'weights': 13 * 10**9}, Outcome.FAIL, '14.9 GB needed'),
        ('cuda', torch_says(), {'weights': 5 * 10**9}, Outcome.OK, '5.8 GB needed'),
        ('cuda', torch_says(), {}, Outcome.OK, 'not known'),
        ('cpu', torch_says(), {}, Outcome.WARN, 'device:=cuda'),
        ('cpu', torch_says(cuda='', devices=[]), {'driver': '550'}, Outcome.WARN, 'with CUDA'),
        ('cpu', torch_says(cuda='', devices=[]), {}, Outcome.SKIPPED, 'for CPUs'),
    ],
)
def test_the_gpu_is_judged_by_build_driver_and_memory(device, answer, facts, outcome, said):
    given = {'driver': '', 'jetson': False, 'weights': None, **facts}
    (found,) = gpu.judge(device, answer, **given)
    assert_found(found, outcome, said)


def test_a_checkpoint_in_a_folder_is_judged_as_inspect_does(tmp_path):
    facts = model.look(Asked(model=str(DATA / 'pi0_tiny')))
    assert facts.findings[0].outcome is Outcome.OK
    assert facts.missing == 0
    assert facts.weights is not None
    assert facts.weights > 100_000
    (tmp_path / 'config.json').write_text('{"type": "act"}', encoding='utf-8')
    (found, *_) = model.look(Asked(model=str(tmp_path))).findings
    assert_found(found, Outcome.FAIL, 'act')
    (found,) = model.look(Asked(model='no such thing')).findings
    assert_found(found, Outcome.FAIL, "'no such thing' is no directory")


def test_without_a_model_nothing_is_said_of_one():
    (found,) = model.look(Asked()).findings
    assert_found(found, Outcome.SKIPPED, '--model')
    (found,) = model.look(Asked(policy='rehearsal')).findings
    assert_found(found, Outcome.OK, 'rehearsal needs none')
    (found,) = model.look(Asked(policy='nobody')).findings
    assert_found(found, Outcome.FAIL, "'nobody' is not shipped")


def test_a_server_that_does_not_answer_fails_and_one_that_does_is_well():
    with socket.socket() as server:
        server.bind(('127.0.0.1', 0))
        address = f'ws://127.0.0.1:{server.getsockname()[1]}/'
        (found,) = model.look(Asked(model=address)).findings
        assert_found(found, Outcome.FAIL, 'does not answer', 'start that server')
        server.listen()
        (found,) = model.look(Asked(model=address)).findings
        assert_found(found, Outcome.OK, 'takes connections')
    (found,) = model.look(Asked(model='http://x:1/')).findings
    assert_found(found, Outcome.FAIL, 'write ws://x:1/')


def test_a_model_of_the_hub_is_judged_by_what_the_hub_and_the_cache_have():
    listing = Listing(COMMIT, {'config.json': 5, 'model.safetensors': 13 * 10**9})
    facts = model.judge_hub('a/b', listing, None, offline=False)
    assert_found(facts.findings[0], Outcome.OK, '13.0 GB to be downloaded')
    assert (facts.weights, facts.missing) == (13 * 10**9, 13 * 10**9)
    facts = model.judge_hub('a/b', listing, COMMIT, offline=False)
    assert_found(facts.findings[0], Outcome.OK, 'downloaded already')
    assert facts.missing == 0
    facts = model.judge_hub('a/b', Listing(COMMIT, {'README.md': 9}), None, offline=False)
    assert_found(facts.findings[0], Outcome.FAIL, 'holds no weights')


@pytest.mark.parametrize(
    ('cached', 'offline', 'outcome', 'said'),
    [
        (None, False, Outcome.FAIL, 'log in'),
        (COMMIT, False, Outcome.WARN, 'is in the cache'),
        (COMMIT, True, Outcome.OK, 'HF_HUB_OFFLINE is set'),
    ],
)
def test_a_hub_that_does_not_tell_is_judged_by_the_cache(cached, offline, outcome, said):
    error = HubUnreachable('a/b cannot be fetched', expected='a repository', remedy='log in')
    facts = model.judge_hub('a/b', error, cached, offline=offline)
    assert_found(facts.findings[0], outcome, said)


def test_an_error_of_ours_keeps_its_three_parts():
    found = model.refused(CheckpointError('it is red', expected='green', remedy='paint it'))
    assert_found(found, Outcome.FAIL, 'it is red; expected green -> paint it')


def test_a_robot_file_that_is_wrong_fails_and_is_not_used(tmp_path):
    assert read_robot('') == (None, [])
    robot, (found,) = read_robot('droid')
    assert robot is not None
    assert_found(found, Outcome.OK, '2 cameras')
    path = tmp_path / 'robot.yaml'
    path.write_text('/**:\n  ros__parameters:\n    camera_names: [front]\n', encoding='utf-8')
    robot, (found,) = read_robot(str(path))
    assert robot is None
    assert_found(found, Outcome.FAIL, 'front')
