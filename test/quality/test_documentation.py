# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The pages say what is true: examples parse, commands exist, every key is listed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_args

import pytest
import yaml
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from openpi_policy_ros.client.options import RemoteOptions
from openpi_policy_ros.configuration.policy_file import load_policy_file
from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.configuration.schema import Section, validate
from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.policies import registry
from openpi_policy_ros.policies.dreamzero.options import DreamZeroOptions
from openpi_policy_ros.policies.pi0.options import Pi0Options, read_options
from openpi_policy_ros.policies.rehearsal.options import RehearsalOptions
from openpi_policy_ros.ros.launch_arguments import ARGUMENTS
from openpi_policy_ros.ros.launch_robots import FAKE_ARGUMENTS, TWO_ARGUMENTS
from openpi_policy_ros.ros.launch_simulation import SIMULATION_ARGUMENTS
from openpi_policy_ros.ros.settings import NodeConfig

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / 'README.md', ROOT / 'CONTRIBUTING.md', *sorted((ROOT / 'docs').glob('*.md'))]
# Installed by other people's packages; whether they are here does not matter.
FROM_ELSEWHERE = {'ros2', 'ssh', 'colcon', 'sudo', 'pip', 'git', 'python', '.'}


class Block(NamedTuple):
    page: str
    language: str
    text: str


def blocks(language: str) -> list[Block]:
    return [
        Block(page.name, language, text)
        for page in PAGES
        for text in re.findall(
            rf'^```{language}\n(.*?)^```', page.read_text(encoding='utf-8'), re.S | re.M
        )
    ]


def shell_commands() -> Iterator[list[str]]:
    for block in blocks('bash'):
        for line in block.text.splitlines():
            for part in re.split(r'\s(?:&&|\|)\s', line):
                if words := shlex.split(part, comments=True):
                    yield words


COMMANDS = list(shell_commands())


def options_of(command: str) -> list[list[str]]:
    return [words for words in COMMANDS if words[0] == command]


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_that_exist(page):
    text = page.read_text(encoding='utf-8')
    links = [link for link in re.findall(r'\]\(([^)#]+)', text) if '://' not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize('block', blocks('yaml'), ids=lambda block: block.page)
def test_a_yaml_example_is_a_file_that_loads(block, tmp_path):
    path = tmp_path / 'example.yaml'
    path.write_text(block.text, encoding='utf-8')
    if '/**' in yaml.safe_load(block.text):
        assert load_robot(str(path)) != RobotConfig()
    else:
        file = load_policy_file(str(path))
        if file.policy == 'remote':
            validate(RemoteOptions, file.options, str(path))
        elif not file.is_deploy_file:  # of which keys without effect are only named
            read_options(file.options, str(path))


@pytest.mark.parametrize('words', COMMANDS, ids=' '.join)
def test_a_command_in_the_pages_exists(words, tool):
    name = words[0]
    if (ROOT / name).is_file():
        assert (ROOT / name).stat().st_mode & 0o111
    elif name not in FROM_ELSEWHERE:
        assert tool(name)
    if name == '.' and words[1] != 'install/setup.bash':  # which colcon writes
        assert (ROOT / words[1]).is_file()
    if words[:3] == ['python', '-m', 'pytest']:
        assert (ROOT / words[3]).is_dir()


@pytest.mark.parametrize('words', options_of('openpi-policy'), ids=' '.join)
def test_options_of_openpi_policy_in_the_pages_are_known(words, run, tool):
    text = run([tool('openpi-policy'), words[1], '--help'])
    unknown = [w for w in words if w.startswith('--') and not re.search(rf'{w}\b', text)]
    assert unknown == []


@pytest.mark.parametrize('words', options_of('openpi-policy-sim'), ids=' '.join)
def test_options_of_openpi_policy_sim_in_the_pages_are_known(words, run, tool):
    text = run([tool('openpi-policy-sim'), words[1], '--help'])
    options = [word.partition('=')[0] for word in words if word.startswith('--')]
    assert [option for option in options if not re.search(rf'{option}\b', text)] == []


@pytest.mark.parametrize('block', blocks('python'), ids=lambda block: block.page)
def test_a_python_example_compiles(block):
    compile(block.text, block.page, 'exec')


def is_section(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def rows(section: type[Section], prefix: str = '') -> Iterator[tuple[str, FieldInfo]]:
    """Yield (dotted key, field) for every key a user can write."""
    for name, field in section.model_fields.items():
        arguments = get_args(field.annotation)
        if is_section(field.annotation):
            yield from rows(field.annotation, f'{prefix}{name}.')
        elif arguments and is_section(arguments[-1]):
            yield from rows(arguments[-1], f'{prefix}{name}.<name>.')
        else:
            yield f'{prefix}{name}', field


def table(section: type[Section]) -> str:
    """Return the table that documents ``section``."""
    lines = ['| key | default | meaning |', '|---|---|---|']
    for key, field in rows(section):
        default = field.get_default(call_default_factory=True)
        if default is PydanticUndefined:
            shown = 'required'
        elif default is None or default in ('', [], {}):
            shown = '–'
        else:
            shown = f'`{str(default).lower() if isinstance(default, bool) else default}`'
        meaning = str(field.description).replace('<', '&lt;').replace('|', '&#124;')
        lines.append(f'| `{key}` | {shown} | {meaning} |')
    return '\n'.join(lines)


@pytest.mark.parametrize(
    ('name', 'section'),
    [
        ('robot', RobotConfig),
        ('pi0', Pi0Options),
        ('dreamzero', DreamZeroOptions),
        ('rehearsal', RehearsalOptions),
        ('server', ServerConfig),
    ],
)
def test_the_configuration_page_lists_every_key(name, section):
    page = (ROOT / 'docs' / 'configuration.md').read_text(encoding='utf-8')
    expected = f'<!-- keys: {name} -->\n\n{table(section)}\n'
    assert expected in page, f'docs/configuration.md: replace this table by\n{expected}'


@pytest.mark.parametrize('path', sorted((ROOT / 'config').glob('*.yaml')), ids=lambda p: p.stem)
def test_a_shipped_configuration_file_loads(path):
    if '/**' in yaml.safe_load(path.read_text(encoding='utf-8')):
        assert load_robot(path.stem).profile.key_map
    else:
        assert load_policy_file(path.stem).policy in registry.names()


def test_a_launch_command_uses_arguments_that_the_launch_file_declares():
    launched = [words for words in options_of('ros2') if words[1] == 'launch']
    declared = {
        'serve': ARGUMENTS,
        'fake_robot': FAKE_ARGUMENTS,
        'two_robots': TWO_ARGUMENTS,
        'sim': SIMULATION_ARGUMENTS,
    }
    assert {words[3].partition('.')[0] for words in launched} == set(declared)
    for words in launched:
        assert words[2] == 'openpi_policy_ros'
        name, _, rest = words[3].partition('.')
        assert rest == 'launch.py'
        given = {word.partition(':=')[0] for word in words[4:] if ':=' in word}
        assert given <= {argument.name for argument in declared[name]}


def names_after(start: str) -> set[str]:
    """Return the names in backquotes of the README's paragraph that starts so."""
    text = (ROOT / 'README.md').read_text(encoding='utf-8')
    (paragraph,) = re.findall(rf'^{start}.*?(?=\n\n)', text, re.S | re.M)
    return set(re.findall(r'`(\w+)`', paragraph))


def test_the_readme_lists_every_launch_argument():
    assert names_after('Launch arguments:') == {argument.name for argument in ARGUMENTS}


def test_the_readme_lists_every_parameter_of_the_node_that_is_not_the_robot_files():
    own = set(NodeConfig.model_fields) - set(RobotConfig.model_fields)
    assert names_after('Parameters:') == own


def test_every_topic_and_service_of_the_readme_is_in_the_node():
    table = (ROOT / 'README.md').read_text(encoding='utf-8')
    source = ''.join(
        path.read_text(encoding='utf-8') for path in (ROOT / 'openpi_policy_ros/ros').glob('*.py')
    )
    named = set(re.findall(r'~/\w+', table))
    assert named == set(re.findall(r"'(~/\w+)'", source))
