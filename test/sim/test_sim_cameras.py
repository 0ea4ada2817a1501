# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The cameras look from where sim-evals' do, and a pixel is where geometry says."""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

pytest.importorskip('mujoco')

import mujoco

from openpi_policy_ros.policies.pi0.preprocess import preprocess_image
from openpi_policy_ros_sim.environment import letterbox
from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.request import view_of

HEIGHT, WIDTH = 180, 320
FOVY = {'exterior_1': 71.5, 'exterior_2': 71.5, 'wrist': 56.7}


def project(environment, camera: str, point, height=HEIGHT, width=WIDTH):
    """Return (column, row) of a point for a pinhole camera."""
    view = environment.data.camera(camera)
    right, up, backwards = (point - view.xpos) @ view.xmat.reshape(3, 3)
    focal = height / 2 / math.tan(math.radians(FOVY[camera]) / 2)
    return (
        width / 2 + focal * right / -backwards - 0.5,
        height / 2 - focal * up / -backwards - 0.5,
    )


def reds(image) -> np.ndarray:
    """Return (column, row) of every red pixel."""
    red, green, blue = np.moveaxis(image.astype(int), -1, 0)
    rows, columns = np.nonzero((red > 70) & (red > 3 * green) & (red > 3 * blue))
    return np.stack([columns, rows], axis=1)


@pytest.mark.parametrize('camera', ['exterior_1', 'exterior_2', 'wrist'])
def test_the_red_cube_is_seen_where_it_is(drawing, camera):
    seen = 0
    for seed in range(6):
        state = drawing.reset(seed)
        column, row = project(drawing, camera, state.cube[:3])
        if not (8 < column < WIDTH - 8 and 8 < row < HEIGHT - 8):
            assert camera == 'wrist'  # the exterior ones see the whole workspace
            continue
        found = reds(drawing.render(camera, HEIGHT, WIDTH))
        assert len(found) >= 20, (seed, camera)
        np.testing.assert_allclose(found.mean(axis=0), (column, row), atol=3.0)
        seen += 1
    assert seen >= 3


def test_the_exterior_camera_looks_where_sim_evals_does(environment):
    environment.reset(0)
    view = environment.data.camera('exterior_1')
    np.testing.assert_allclose(view.xpos, [0.05, 0.57, 0.66])
    ahead = -view.xmat.reshape(3, 3)[:, 2]
    on_table = view.xpos - ahead * view.xpos[2] / ahead[2]
    np.testing.assert_allclose(on_table, [0.734, 0.037, 0.0], atol=2e-3)


def test_the_second_exterior_camera_is_the_mirror_of_the_first(drawing):
    state = drawing.reset(1)
    width, height = 160, 90
    first = reds(drawing.render('exterior_1', height, width)).mean(axis=0)
    mirrored = state.cube.copy()
    mirrored[1] *= -1
    mirrored[6] *= -1  # a turn about z the other way
    away = {'bowl': (0.7, -0.5), 'can': (0.7, 0.5), 'box': (0.3, 0.5)}
    moved = {name: np.array([*spot, *getattr(state, name)[2:]]) for name, spot in away.items()}
    drawing.set_state(dataclasses.replace(state, cube=mirrored, **moved))
    second = reds(drawing.render('exterior_2', height, width)).mean(axis=0)
    np.testing.assert_allclose(second, (width - 1 - first[0], first[1]), atol=0.75)


def test_the_wrist_camera_sits_and_looks_where_sim_evals_does(environment):
    view = environment.model.camera('wrist')
    assert view.bodyid == environment.model.body('gripper').id
    # Theirs: position, and w, x, y, z; their gripper frame has x, y, -z for our z, y, x.
    there, quaternion = np.array([0.011, -0.031, -0.074]), np.array([-0.420, 0.570, 0.576, -0.409])
    ours = np.array([[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(view.pos, ours @ there, atol=1e-9)
    expected, found = (np.zeros(9) for _ in range(2))
    mujoco.mju_quat2Mat(expected, quaternion / np.linalg.norm(quaternion))
    mujoco.mju_quat2Mat(found, view.quat)
    np.testing.assert_allclose(found.reshape(3, 3), ours @ expected.reshape(3, 3), atol=2e-3)


def test_the_wrist_camera_moves_with_the_hand_at_once(drawing):
    drawing.reset(2)
    for _ in range(5):
        state = drawing.step([0.3, -0.4, 0, -2.4, 0, 1.9, 0.2, 0])
    view = drawing.data.camera('wrist')
    offset = np.linalg.norm(view.xpos - state.tool_position)
    assert offset == pytest.approx(math.hypot(0.074, 0.031, 0.145 - 0.011), abs=1e-6)


def test_images_are_rgb_in_rows_and_columns_of_any_size(drawing):
    drawing.reset(0)
    for height, width in ((64, 64), (126, 224), (33, 57)):
        image = drawing.render('exterior_1', height, width)
        assert image.shape == (height, width, 3)
        assert image.dtype == np.uint8
    assert image.flags.writeable
    again = drawing.render('exterior_1', height, width)
    np.testing.assert_array_equal(image, again)
    assert not np.shares_memory(image, again)


def test_the_network_sees_the_same_pixels_whoever_adds_the_bars(drawing):
    drawing.reset(3)
    image = drawing.render('exterior_1', 126, 224)
    sent = view_of('exterior_1', 224, 224).look(drawing)
    for side in (128, 224):
        by_the_policy, by_the_loop = (
            preprocess_image('image', each, (side, side), torch.device('cpu'))
            for each in (image, letterbox(image, 224, 224))
        )
        assert torch.equal(by_the_policy, by_the_loop)
    np.testing.assert_array_equal(sent, letterbox(image, 224, 224))
    # A smaller one is not drawn large and scaled, but drawn small.
    small = view_of('exterior_1', 128, 128)
    assert (small.height, small.width) == (72, 128)


def test_a_letterbox_keeps_the_pixels_and_adds_black():
    image = np.full((126, 224, 3), 9, np.uint8)
    framed = letterbox(image, 224, 224)
    assert framed.shape == (224, 224, 3)
    np.testing.assert_array_equal(framed[49:175], image)
    assert framed[:49].max() == framed[175:].max() == 0
    with pytest.raises(SimulationError, match='expected at most 100x100'):
        letterbox(image, 100, 100)


@pytest.mark.parametrize(('camera', 'height', 'width', 'expected'), [
    ('left', 64, 64, "camera 'left'; expected exterior_1 or exterior_2 or wrist"),
    ('wrist', 0, 64, 'an image of 0x64'),
    ('wrist', 64, 4000, 'expected 1x1 to 1080x1920'),
])  # fmt: skip
def test_impossible_images_are_refused(environment, camera, height, width, expected):
    with pytest.raises(SimulationError, match=expected):
        environment.render(camera, height, width)


NO_BACKEND = """
from openpi_policy_ros_sim import backend
backend.works = lambda name: False
from openpi_policy_ros_sim.environment import Environment
with Environment() as environment:
    print('height', environment.step([0, -0.6, 0, -2.5, 0, 1.9, 0, 0]).tool_position[2])
    environment.render('wrist', 64, 64)
"""


def test_where_nothing_can_draw_physics_runs_and_the_packages_are_named():
    environment = {key: value for key, value in os.environ.items() if key != 'MUJOCO_GL'}
    done = subprocess.run(
        [sys.executable, '-c', NO_BACKEND],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert 'height 0.3' in done.stdout
    said = done.stderr.splitlines()[-1]
    assert 'RenderingUnavailable' in said
    assert "MUJOCO_GL='disable'" in said
    for package in ('libegl1', 'libgl1-mesa-dri', 'libosmesa6'):
        assert package in said


def test_a_backend_that_somebody_chose_is_left_alone(monkeypatch):
    from openpi_policy_ros_sim import backend

    monkeypatch.setenv('MUJOCO_GL', 'osmesa')
    monkeypatch.setattr(backend, 'works', lambda name: pytest.fail('tried although chosen'))
    assert backend.choose_backend() == 'osmesa'


def test_the_first_backend_that_works_is_taken(monkeypatch):
    from openpi_policy_ros_sim import backend

    monkeypatch.setenv('MUJOCO_GL', '')
    monkeypatch.delitem(sys.modules, 'mujoco')
    monkeypatch.setattr(backend, 'works', lambda name: name == 'osmesa')
    assert backend.choose_backend() == 'osmesa'
    assert os.environ['MUJOCO_GL'] == 'osmesa'


@pytest.mark.usefixtures('drawing')
def test_a_command_that_looks_for_mujoco_first_can_still_draw():
    code = (
        "from openpi_policy_ros_sim.extras import require; require('mujoco')\n"
        'from openpi_policy_ros_sim.environment import Environment\n'
        "with Environment() as environment: print(environment.render('wrist', 8, 8).shape)"
    )
    environment = {key: value for key, value in os.environ.items() if key != 'MUJOCO_GL'}
    done = subprocess.run(
        [sys.executable, '-c', code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == '(8, 8, 3)\n', done.stderr
