# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Read a robot description (URDF) into its joints and links, and nothing that is outside of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from openpi_policy_ros.errors import ConfigurationError

SOURCE = 'robot_description'

_PIECE = 8192
"""Characters that are parsed at once. The parser keeps the interpreter to itself meanwhile: a whole
description of 1 MB, which may come at any time, would let control ticks fail to come."""


@dataclass(frozen=True)
class Urdf:
    """The joints and links of one robot description.

    Attributes:
        joints: name → its element, in the order of the text.
        links: names, in the order of the text.

    """

    joints: Mapping[str, ElementTree.Element]
    links: tuple[str, ...]


def read_urdf(text: str) -> Urdf:
    """Return what a robot description consists of.

    Entities are not expanded: a document type, which could define some, is refused.

    Raises:
        ConfigurationError: no XML, or with a document type, or not of a robot, or joints or links
            that share a name or have none.

    """
    parser = ElementTree.XMLParser(target=_NoDocumentType())
    try:
        for start in range(0, len(text), _PIECE):
            parser.feed(text[start : start + _PIECE])
        root = parser.close()
    except (ElementTree.ParseError, _DocumentType, ValueError) as error:
        raise ConfigurationError(
            SOURCE, [f'cannot be read: {error}; expected a URDF as xacro writes it']
        ) from None
    if root.tag != 'robot':
        raise ConfigurationError(SOURCE, [f'holds a <{root.tag}>, expected <robot>: a URDF'])
    joints, links = root.findall('joint'), root.findall('link')
    problems = [*_name_problems('joint', joints), *_name_problems('link', links)]
    if problems:
        raise ConfigurationError(SOURCE, problems)
    return Urdf(
        {joint.attrib['name']: joint for joint in joints},
        tuple(one.attrib['name'] for one in links),
    )


def mimicked(joint: ElementTree.Element) -> str | None:
    """Return the joint that this one mimics, '' where it does not say; None = it mimics none."""
    mimic = joint.find('mimic')
    return None if mimic is None else mimic.get('joint', '')


def _name_problems(kind: str, elements: Sequence[ElementTree.Element]) -> list[str]:
    names = Counter(one.get('name', '') for one in elements)
    problems = [
        f'{name!r} is the name of {count} {kind}s, expected a name for each'
        for name, count in names.items()
        if name and count > 1
    ]
    if names['']:
        problems.append(f'{names[""]} {kind}s have no name, expected a name for each')
    return problems


class _DocumentType(Exception):
    """The text has a document type."""


class _NoDocumentType(ElementTree.TreeBuilder):
    """Refuses a document type, before what it defines is used."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        del name, pubid, system
        raise _DocumentType('it has a document type (<!DOCTYPE)')
