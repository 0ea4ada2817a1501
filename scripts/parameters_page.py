# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write docs/parameters.md from the declarations of the node's parameters.

Run it after a change of the configuration: python scripts/parameters_page.py
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.ros.declarations import Declaration, Kind, declarations

PAGE = Path(__file__).resolve().parents[1] / 'docs' / 'parameters.md'

TITLES = {
    'node': 'The node',
    'server': 'The server',
    'profile': 'What the policy is told of the robot',
    'cameras': 'Cameras',
    'joints': 'Joints',
    'timing': 'Timing',
    'outputs': 'Outputs',
    'limits': 'Limits',
    'execution': 'Execution',
    'safety': 'Safety',
    'diagnostics': 'Diagnostics',
    'visual': 'Visualisation',
}

LISTINGS = {'camera_names': 'cameras', 'output_names': 'outputs'}

TYPES = {
    Kind.BOOL: 'bool',
    Kind.INTEGER: 'integer',
    Kind.DOUBLE: 'double',
    Kind.STRING: 'string',
    Kind.BOOL_ARRAY: 'bool array',
    Kind.INTEGER_ARRAY: 'integer array',
    Kind.DOUBLE_ARRAY: 'double array',
    Kind.STRING_ARRAY: 'string array',
}

HEAD = """\
# Parameters of the node

<!-- Written by scripts/parameters_page.py from the declarations; change those, not this page. -->

Every parameter of the node `openpi_policy`, as `ros2 param describe` shows it. `<camera>` is an
entry of `camera_names`, `<output>` of `output_names`. The file that `robot` names supplies defaults
for all groups but [the node](#the-node) and [the server](#the-server); a parameter set elsewhere
wins. Keys under `profile.policy_server_config.` are free.

**–** as default means: absent unless set. A number may be as large as its type where no range is
given, and every number is finite. Values that do not fit together are refused when the node is
configured, all in one message.

**At once**: may be set at any time. While the node is configured, such a change is checked together
with all that holds, is refused with the reason or taken over as a whole (all of one
`set_parameters_atomically`, or none), and counts between two control ticks: a lower
`safety.velocity_scale` slows the robot from the next tick on; `execution.blend_steps` and
`execution.ensemble_decay` count from the next chunk on, `seed` and `timing.inference_rate` from the
next inference. `default_prompt` replaces the prompt in use, shown on `~/current_prompt`, until
another comes on the `prompt` topic. **When the node is configured**: refused while it is;
deactivate and clean it up first ([lifecycle](lifecycle.md)), or start it anew.
"""


def page() -> str:
    """Return the page."""
    known = declarations(['<camera>'], ['<output>']).values()
    groups: dict[str, list[Declaration]] = {}
    for one in known:
        groups.setdefault(group_of(one.name), []).append(one)
    # One without a title is a test's failure, and comes last.
    order = [*TITLES, *(group for group in groups if group not in TITLES)]
    sections = [
        f'## {TITLES.get(group, group)}\n\n{table(groups[group])}'
        for group in order
        if group in groups
    ]
    return '\n\n'.join([HEAD.rstrip(), *sections]) + '\n'


def group_of(name: str) -> str:
    """Return the group of a parameter."""
    group, dot, _ = name.partition('.')
    if dot:
        return group
    if name in ServerConfig.model_fields:
        return 'server'
    return LISTINGS.get(name, 'node')


def table(parameters: list[Declaration]) -> str:
    """Return the table of some parameters."""
    rows = [
        (
            f'`{one.name}`',
            TYPES[one.kind],
            extent(one),
            shown(one.default),
            one.takes_effect.removeprefix('takes effect '),
            escape(one.description),
        )
        for one in parameters
    ]
    head = ('parameter', 'type', 'range', 'default', 'takes effect', 'meaning')
    lines = itertools.chain([head, ('---',) * len(head)], rows)
    return '\n'.join(f'| {" | ".join(cells)} |' for cells in lines)


def extent(one: Declaration) -> str:
    """Return what values are allowed."""
    if one.constraints.startswith('one of '):
        return ', '.join(f'`{choice}`' for choice in one.constraints[len('one of ') :].split(', '))
    if one.minimum is None and one.maximum is None:
        return '–'
    low = '' if one.minimum is None else f'{one.minimum:g}'
    high = '' if one.maximum is None else f'{one.maximum:g}'
    above = one.constraints.startswith('greater than')
    if not high:
        return f'{"&gt;" if above else "≥"} {low}'
    if not low:
        return f'≤ {high}'
    return f'{"&gt; " if above else ""}{low} to {high}'


def shown(default: Any) -> str:
    """Return a default as YAML has it."""
    if default is None or default == '':
        return '–'
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return f'`{text}`'


def escape(text: str) -> str:
    """Return text that a table cell can hold."""
    return text.replace('<', '&lt;').replace('|', '&#124;')


if __name__ == '__main__':
    PAGE.write_text(page(), encoding='utf-8')
