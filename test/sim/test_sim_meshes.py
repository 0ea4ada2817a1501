# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot drawn with somebody's meshes looks different, and is the same robot."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from openpi_standin import run
from serving import serving

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.wire import Dialect

mujoco = pytest.importorskip('mujoco')

from menagerie import CENTRE, write_gripper, write_panda  # noqa: E402

from openpi_policy_ros_sim import constants as c  # noqa: E402
from openpi_policy_ros_sim.cli import main  # noqa: E402
from openpi_policy_ros_sim.environment import Environment  # noqa: E402
from openpi_policy_ros_sim.expert import Expert  # noqa: E402
from openpi_policy_ros_sim.meshes import DRAWN, UNSEEN, read_meshes  # noqa: E402
from openpi_policy_ros_sim.scene import OBJECTS  # noqa: E402

INERT = ('body_mass', 'body_inertia', 'body_ipos', 'body_iquat', 'dof_M0', 'dof_invweight0')


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp('menagerie')
    write_panda(root / 'franka_emika_panda')
    write_gripper(root / 'robotiq_2f85')
    return root


@pytest.fixture(scope='module')
def meshed(folder):
    with Environment(meshes=read_meshes(folder)) as made:
        yield made


def lift(environment, kinematics, *, look: bool) -> list[np.ndarray]:
    """Return the states of an expert's episode, drawn on the way or not."""
    state, expert, history = environment.reset(3), Expert('lift', kinematics), []
    for number in range(45):
        state = environment.step(expert.act(state))
        history.append(environment.snapshot())
        if look and number % 9 == 0:
            environment.render('wrist', 32, 32)
    assert state.cube[2] > 0.1
    return history


def test_the_physics_is_the_same_to_the_last_bit(meshed, environment, kinematics):
    for name in INERT:
        np.testing.assert_array_equal(
            getattr(meshed.model, name), getattr(environment.model, name), name
        )
    plain = lift(environment, kinematics, look=False)
    np.testing.assert_array_equal(lift(meshed, kinematics, look=False), plain)


def test_drawing_changes_nothing_either(meshed, drawing, kinematics):
    plain = lift(drawing, kinematics, look=False)
    np.testing.assert_array_equal(lift(meshed, kinematics, look=True), plain)


@pytest.mark.parametrize('camera', c.CAMERAS)
def test_it_looks_different(camera, meshed, drawing):
    meshed.reset(3), drawing.reset(3)
    one, other = (each.render(camera, 126, 224) for each in (meshed, drawing))
    assert (one != other).any(axis=2).mean() > 0.005
    # Only the robot and its shadow: what stands on the table does not.
    assert (one == other).all(axis=2).mean() > 0.3


def test_what_touches_is_hidden_and_what_is_seen_touches_nothing(meshed):
    model = meshed.model
    for name in (*(f'link{number}' for number in range(8)), 'gripper', 'left_finger'):
        geoms = [
            each for each in range(model.ngeom) if model.geom_bodyid[each] == model.body(name).id
        ]
        drawn = [each for each in geoms if model.geom_group[each] == DRAWN]
        assert len(drawn) >= 1
        for each in drawn:
            assert not model.geom_contype[each]
            assert not model.geom_conaffinity[each]
        named = {model.geom(each).name for each in geoms if model.geom_group[each] == 0}
        assert named == ({'wrist_bracket', 'wrist_housing'} if name == 'gripper' else set())
        assert len(drawn) + len(named) < len(geoms)
        others = set(geoms) - set(drawn) - {model.geom(each).id for each in named}
        assert {int(model.geom_group[each]) for each in others} == {UNSEEN}
    for name in OBJECTS:
        assert model.geom_group[model.body_geomadr[model.body(name).id]] == 0


def test_each_mesh_is_where_its_file_says(meshed):
    meshed.reset(0)
    meshed.step([*np.array(c.HOME) + 0.1, 0.0])
    data = meshed.data
    for number in range(8):
        body = data.body(f'link{number}')
        x, y, z = CENTRE
        # Link 4's box is turned by a quarter about z and moved by 1 cm along x.
        centre = (0.01 - y, x, z) if number == 4 else CENTRE
        wanted = body.xpos + body.xmat.reshape(3, 3) @ centre
        np.testing.assert_allclose(data.geom(f'panda/link{number}/0').xpos, wanted, atol=1e-6)
    first, second = (data.geom(f'panda/link0/{number}').xpos for number in (0, 1))
    np.testing.assert_allclose(second - first, [0.1, 0, 0], atol=1e-6)


def test_colours_are_those_of_the_file(meshed):
    model = meshed.model
    found = [
        model.mat_rgba[model.geom_matid[model.geom(f'panda/{name}').id]].tolist()
        for name in ('link1/0', 'link0/1')
    ]
    np.testing.assert_allclose(found, [[0.2, 0.9, 0.3, 1], [0.9, 0.2, 0.9, 1]], atol=1e-6)


@pytest.mark.parametrize('plate', ['1 0 0 1', '1 0 0 0'])
def test_the_rods_stay_linked_to_fingers_that_slide(plate, tmp_path):
    write_panda(tmp_path / 'franka_emika_panda')
    write_gripper(tmp_path / 'robotiq_2f85', plate=plate)
    with Environment(meshes=read_meshes(tmp_path)) as environment:
        data, model = environment.data, environment.model
        gripper = data.body('gripper')

        def at(part: str) -> np.ndarray:
            position = data.geom(f'2f85/{part}/0').xpos - gripper.xpos
            return gripper.xmat.reshape(3, 3).T @ position

        for travel in np.linspace(0, c.STROKE, 6):
            data.qpos[c.JOINTS : c.JOINTS + 2] = travel
            mujoco.mj_kinematics(model, data)
            environment.prepare_drawing()
            np.testing.assert_allclose(at('base'), [0, 0, 0.0108], atol=1e-6)
            for side, sign in (('right', 1), ('left', -1)):
                tip = (0, sign * (0.0493 - travel), 0.12272)
                np.testing.assert_allclose(at(f'{side}_pad'), tip, atol=1e-6)
                np.testing.assert_allclose(at(f'{side}_silicone_pad'), tip, atol=1e-6)
                inner, outer = at(f'{side}_spring_link'), at(f'{side}_driver')
                # In the housing they give way along it by what the real tip moves outwards.
                arc = np.sqrt(0.037**2 + 0.044**2 - (0.037 - travel) ** 2) - 0.044
                np.testing.assert_allclose(
                    inner, [0, sign * 0.0132, 0.0108 + 0.0609 - arc], atol=1e-6
                )
                assert abs(outer - inner - [0, sign * 0.0174, -0.006]).max() < 0.001
                elbow = at(f'{side}_coupler') - outer
                assert np.hypot(*elbow[1:]) == pytest.approx(np.hypot(0.0315, 0.0041))


def test_an_image_shows_the_rods_turned(meshed, drawing):
    rod = meshed.data.geom('2f85/right_driver/0')
    meshed.reset(0)
    for _ in range(15):
        meshed.step([*c.HOME, 1.0])
    before = rod.xpos.copy()
    meshed.render('wrist', 8, 8)
    assert np.abs(rod.xpos - before).max() > 0.01


def test_a_scale_is_kept(meshed):
    # Half an edge is 10 in the file, whose unit is the millimetre.
    reach = meshed.model.geom_rbound[meshed.model.geom('2f85/base/0').id]
    assert reach == pytest.approx(0.01 * np.sqrt(3))


def test_the_arms_own_folder_leaves_the_gripper_as_it_is(folder):
    with Environment(meshes=read_meshes(folder / 'franka_emika_panda')) as environment:
        model = environment.model
        gripper = model.body('gripper').id
        groups = {
            int(model.geom_group[each])
            for each in range(model.ngeom)
            if model.geom_bodyid[each] == gripper
        }
        assert groups == {0}


def test_the_arm_without_a_hand_will_do(tmp_path):
    write_panda(tmp_path, name='panda_nohand.xml')
    assert len(read_meshes(str(tmp_path)).pictures) == 9


def told(folder: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_meshes(folder)
    return str(caught.value)


def test_a_folder_that_is_none_is_told(tmp_path):
    assert 'nowhere: 1 problem\n  - no such folder; expected mujoco' in told(tmp_path / 'nowhere')
    file = tmp_path / 'panda.xml'
    file.touch()
    assert 'is a file; expected' in told(file)


def test_another_layout_is_told(tmp_path):
    (tmp_path / 'franka_emika_panda' / 'assets').mkdir(parents=True)
    assert 'has neither panda.xml nor panda_nohand.xml, nor franka_emika_panda/' in told(tmp_path)


def changed(file: Path, *pairs: tuple[str, str]) -> Path:
    text = file.read_text(encoding='utf-8')
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text, encoding='utf-8')
    return file


def test_everything_that_is_wrong_with_the_arm_is_told_at_once(tmp_path):
    file = write_panda(tmp_path)
    for name in ('link5', 'link6'):
        (tmp_path / 'assets' / f'{name}.obj').unlink()
    changed(
        file,
        ('name="hand"', 'name="claw"'),
        ('class="visual" mesh="link2"', 'class="collision" mesh="link2"'),
        ('name="link7"', 'name="wrist7"'),
        ('pos="0 0 0.333"', 'pos="0 0 0.35"'),
    )
    text = told(tmp_path)
    assert '7 problems' in text
    for said in (
        'claw has a mesh, but the robot of the scene has no such link',
        'wrist7 has a mesh, but the robot of the scene has no such link',
        'has no body link7',
        'has no mesh to draw on link2',
        'link1 is at [0.0, 0.0, 0.35]',
        'expected [0.0, 0.0, 0.333], [1.0, 0.0, 0.0, 0.0] from link0',
        'assets/link5.obj is missing (of link5)',
        'assets/link6.obj is missing (of link6)',
    ):
        assert said in text


def test_everything_that_is_wrong_with_the_gripper_is_told_at_once(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    changed(
        tmp_path / 'robotiq_2f85' / '2f85.xml',
        ('pos="0 -0.0189 0.01352"', 'pos="0 -0.0189 0.02"'),
        ('pos="0 -0.018 0.0065"', 'pos="0 -0.018 0.01"'),
        ('file="driver.obj"', 'file="gone.obj"'),
        ('mesh="driver"', 'mesh="gone"'),
    )
    text = told(tmp_path)
    assert '6 problems' in text
    for side in ('right', 'left'):
        assert f'gone.obj is missing (of {side}_driver)' in text
        assert f'{side}_pad is at [0.0' in text
        assert f'{side}_spring_link spans [0.0' in text


def test_a_gripper_without_its_file_is_told(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / 'robotiq_2f85' / '2f85.xml').unlink()
    assert 'robotiq_2f85/ has no 2f85.xml' in told(tmp_path)


def test_a_gripper_with_other_parts_is_told(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    changed(tmp_path / 'robotiq_2f85' / '2f85.xml', ('"left_coupler"', '"left_thumb"'))
    text = told(tmp_path)
    assert 'left_thumb has a mesh, but the robot of the scene has no such link' in text
    assert 'has no body left_coupler' in text


def test_a_file_that_is_no_model_is_told(tmp_path):
    (tmp_path / 'panda.xml').write_text('<mujoco><worldbody>', encoding='utf-8')
    assert '1 problem\n  - panda.xml: ' in told(tmp_path)


def test_angles_are_refused(tmp_path):
    changed(write_panda(tmp_path), ('quat="1 0 0 1"', 'euler="0 0 1.57"'))
    assert 'link4 is turned by angles or axes, expected quaternions' in told(tmp_path)


def test_a_mesh_that_is_not_among_the_assets_is_told(tmp_path):
    changed(write_panda(tmp_path), ('<mesh file="link3.obj"/>', ''))
    assert "link3 has mesh 'link3', which is not among the assets" in told(tmp_path)


def test_a_mesh_that_cannot_be_read_is_told(tmp_path):
    write_panda(tmp_path)
    (tmp_path / 'assets' / 'link5.obj').write_text('v 0 0\n', encoding='utf-8')
    meshes = read_meshes(tmp_path)
    with pytest.raises(ConfigurationError, match='panda/link5/0') as caught:
        Environment(meshes=meshes)
    assert str(tmp_path) in str(caught.value)


def test_the_command_refuses_a_bad_folder_before_it_asks_anybody(tmp_path, capsys):
    arguments = ['--url', 'ws://127.0.0.1:9/', '--meshes', str(tmp_path / 'nowhere')]
    assert main(['ws', *arguments]) == 2
    assert 'nowhere: 1 problem\n  - no such folder' in capsys.readouterr().err


def test_the_loop_draws_with_them_and_the_results_say_so(folder, tmp_path):
    pytest.importorskip('openpi_client')
    with serving(load_policy('', policy='sim_expert')) as served:
        options = ('--episodes', '1', '--seed', '5', '--meshes', str(folder))
        found = run(served.url(Dialect.OPENPI), tmp_path / 'results.json', *options)
    assert found['settings']['meshes'] == str(folder)
    assert found['summary'][0]['successes'] == 1
