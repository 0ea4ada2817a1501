# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Decide what is done around the network for a LeRobot checkpoint, or refuse it by name.

LeRobot itself passes over statistics that are missing and files that contradict one another; the
actions then are in other units, and look plausible.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.errors import CheckpointError, ConfigurationError
from openpi_policy_ros.policies.normalization import (
    IDENTITY,
    IDENTITY_MODE,
    MODES,
    STATISTICS,
    Normalizer,
)
from openpi_policy_ros.policies.pi0.config import ACTION, STATE, Pi0Config
from openpi_policy_ros.policies.pi0.options import NormStats, Pi0Options
from openpi_policy_ros.policies.pi0.options import Statistics as GivenStatistics
from openpi_policy_ros.policies.pi0.pipeline import Pipeline, PromptStyle
from openpi_policy_ros.policies.pi0.processing import (
    POSTPROCESSOR,
    PREPROCESSOR,
    NormalizerStep,
    Processing,
    RelativeStep,
)
from openpi_policy_ros.policies.pi0.statistics import (
    FeatureStatistics,
    equal,
    feature_statistics,
    read_statistics,
)
from openpi_policy_ros.policies.problems import Problems

logger = logging.getLogger('openpi_policy_ros.policies.pi0')

_IDENTITY_REMEDY = (
    'for a base checkpoint set normalization: identity in the policy file: states and actions then '
    'stay in the units of its training; statistics of your own go there as norm_stats'
)


def lerobot_pipeline(
    directory: Path,
    processing: Processing,
    config: Pi0Config,
    options: Pi0Options,
    source: str,
    problems: Problems,
) -> Pipeline | None:
    """Return what happens around the network of a LeRobot checkpoint.

    Args:
        directory: the checkpoint.
        processing: what its processors ask for.
        config: its sizes; statistics must have those of the state and the action.
        options: the policy file.
        source: what the policy file is called in messages.
        problems: gains everything that would make the numbers wrong.

    Returns:
        None where something was refused, now or in the processors.

    """
    if not processing.complete:
        problems.unchecked.append('normalisation')
        return None
    before = len(problems.errors)
    state = actions = IDENTITY
    units: tuple[tuple[str, str, str], ...] = ()
    delta_mask: tuple[bool, ...] = ()
    with problems.collecting():
        settled = _Normalisation(directory, processing, config, options, source).settle()
        state, actions, units = settled
    with problems.collecting():
        delta_mask = _delta_mask(directory, processing, config)
    with problems.collecting():
        _check_age(directory, processing, options, source)
    if len(problems.errors) > before:
        return None
    return Pipeline(
        action_dim=config.action_dim,
        state=state,
        actions=actions,
        prompt=_prompt_style(directory, processing, config),
        state_token=config.family == 'pi0',
        legacy_padding=options.legacy_padding,
        # The versions that drew other bars also wrote π0.5's state padded.
        text_state_dim=config.max_state_dim if options.legacy_padding else 0,
        units=units,
        delta_mask=delta_mask,
    )


def _check_age(directory: Path, processing: Processing, options: Pi0Options, source: str) -> None:
    """Compare ``legacy_padding`` with what little the files tell of the LeRobot that trained them.

    Raises:
        ConfigurationError: they hold what only later versions write.

    """
    # Both came with 0.5.1; the padding changed with 0.5.0.
    later = processing.relative is not None or processing.config_relative is not None
    if options.legacy_padding and later:
        raise ConfigurationError(
            source,
            [
                'legacy_padding is true, but this checkpoint holds settings of relative actions, '
                'which LeRobot writes from 0.5.1 on, and 0.4.4 was the last to pad otherwise; '
                'remove the line'
            ],
        )
    if not options.legacy_padding and not later and processing.preprocessor:
        logger.warning(
            '%s may have been trained with LeRobot 0.4.0 to 0.4.4, which padded images (and the '
            "state in π0.5's text) otherwise: if so, set legacy_padding: true in the policy file",
            directory,
        )


def _prompt_style(directory: Path, processing: Processing, config: Pi0Config) -> PromptStyle:
    if config.family == 'pi05':
        return PromptStyle.STATE
    if processing.preprocessor and not processing.newline:
        logger.warning(
            '%s has no step that ends the instruction with a newline, as every π0 is trained with: '
            'it is encoded as it is',
            directory / PREPROCESSOR,
        )
        return PromptStyle.PLAIN
    return PromptStyle.NEWLINE


@dataclass(frozen=True)
class _Normalisation:
    """Settles how state and actions are normalised."""

    directory: Path
    processing: Processing
    config: Pi0Config
    options: Pi0Options
    source: str

    def settle(self) -> tuple[Normalizer, Normalizer, tuple[tuple[str, str, str], ...]]:
        """Return the normalisation of the state and of the actions, and ``Pipeline.units``.

        Raises:
            CheckpointError: an unknown mode, statistics missing, of another width or damaged, or
                files that contradict one another.
            ConfigurationError: the policy file says what this checkpoint does not allow.

        """
        self._refuse_unknown_modes()
        given, given_source = self._given()
        carried = bool(self.processing.statistics)
        if self.options.normalization == 'identity':
            self._check_identity(given, given_source)
            return IDENTITY, IDENTITY, ()
        if given is not None and carried:
            raise CheckpointError(
                f'{given_source}: norm_stats beside the statistics of the checkpoint, '
                f'{self._files()}',
                expected='one of the two',
                remedy="remove norm_stats: the checkpoint's own are those of its training",
            )
        if given is None and not carried and self.processing.modes:
            raise CheckpointError(
                f'{self.directory}: normalisation {self._wanted()} is declared, but the checkpoint '
                'carries no statistics',
                expected='IDENTITY for VISUAL, STATE and ACTION, or statistics',
                remedy=_IDENTITY_REMEDY,
            )
        self._refuse_visual()
        written = NormalizerStep('config.json', self.config.normalization)
        inward = self.processing.normalizer or written
        outward = self.processing.unnormalizer or written
        self._refuse_contradiction(inward, outward)
        state_mode = IDENTITY_MODE if inward.skips(STATE) else inward.modes.get('STATE')
        if given is not None:
            state = self._from_given(given.state, STATE, state_mode, given_source)
            action = self._from_given(
                given.action, ACTION, outward.modes.get('ACTION'), given_source
            )
            steps = (NormalizerStep('', {}), NormalizerStep('', {}))
        else:
            state = self._from_file(inward, STATE, state_mode)
            action = self._from_file(outward, ACTION, outward.modes.get('ACTION'))
            self._refuse_two_truths(action, inward)
            steps = (inward, outward)
        self._warn_of_degenerate(
            [
                (statistics, step.eps)
                for statistics, step in zip((state, action), steps, strict=True)
            ]
        )
        return (
            IDENTITY if state is None else state.normalizer(steps[0].eps),
            IDENTITY if action is None else action.normalizer(steps[1].eps),
            tuple(
                (kind, statistics.mode, Path(statistics.source).name)
                for kind, statistics in (('STATE', state), ('ACTION', action))
                if statistics is not None
            ),
        )

    def _wanted(self) -> str:
        return ', '.join(f'{kind}: {mode} ({file})' for file, kind, mode in self.processing.modes)

    def _files(self) -> str:
        return ', '.join(sorted(set(self.processing.statistics)))

    def _refuse_unknown_modes(self) -> None:
        for file, kind, mode in self.processing.modes:
            if mode not in MODES:
                raise CheckpointError(
                    f'{self.directory}: {file} declares the unknown normalisation {mode!r} for '
                    f'{kind}',
                    expected=f'one of {", ".join(MODES)}',
                    remedy='correct the file; what an unknown mode does nobody knows',
                )

    def _given(self) -> tuple[NormStats | None, str]:
        """Return norm_stats, of the policy file or of config.json, and where they stand."""
        ours, theirs = self.options.norm_stats, self._in_config()
        path = str(self.directory / 'config.json')
        if ours is not None and theirs is not None and ours != theirs:
            raise ConfigurationError(
                self.source,
                [f'norm_stats differs from norm_stats in {path}; remove it here or there'],
            )
        return (ours, self.source) if ours is not None else (theirs, path)

    def _in_config(self) -> NormStats | None:
        values, what = self.processing.norm_stats, f'{self.directory / "config.json"}: norm_stats'
        # Some write an empty object where there are none.
        if values is None or values == {}:
            return None
        if not isinstance(values, dict):
            raise CheckpointError(
                f'{what} is {values!r}',
                expected='an object with state and action',
                remedy='correct or remove it',
            )
        try:
            return validate(NormStats, values, what)
        except ConfigurationError as error:
            raise CheckpointError(str(error), remedy='correct or remove it') from None

    def _check_identity(self, given: NormStats | None, given_source: str) -> None:
        """Refuse ``normalization: identity`` beside statistics, else say what it overrides."""
        if given is not None:
            raise ConfigurationError(
                self.source,
                [
                    f'normalization: identity is refused, because {given_source} has norm_stats; '
                    'remove one of them'
                ],
            )
        if not self.processing.modes:
            return
        if self.processing.statistics:
            raise CheckpointError(
                f'{self.directory}: normalisation {self._wanted()} has the statistics '
                f'{self._files()}',
                expected=f'no normalization in {self.source}',
                remedy='normalization: identity is refused, because this checkpoint carries '
                'statistics and would answer in other units; remove the line',
            )
        logger.warning(
            '%s: normalisation %s is overridden by normalization: identity',
            self.directory,
            self._wanted(),
        )

    def _refuse_visual(self) -> None:
        for file, kind, mode in self.processing.modes:
            if kind == 'VISUAL':
                raise CheckpointError(
                    f'{self.directory}: {file} declares {mode} for VISUAL',
                    expected='IDENTITY: images are scaled to -1..1, as π0 is trained',
                    remedy='images normalised with statistics are not supported: serve it with '
                    'LeRobot',
                )

    def _refuse_contradiction(self, inward: NormalizerStep, outward: NormalizerStep) -> None:
        one, other = (step.modes.get('ACTION', IDENTITY_MODE) for step in (inward, outward))
        if one != other and self.processing.normalizer and self.processing.unnormalizer:
            raise CheckpointError(
                f'{self.directory}: {inward.file} declares {one} for ACTION, {outward.file} '
                f'{other}',
                expected='one mode in both',
                remedy='put the processor files of one training together',
            )

    def _from_file(
        self, step: NormalizerStep, feature: str, mode: str | None
    ) -> FeatureStatistics | None:
        """Return the statistics of a mode; None where nothing is to be done."""
        if mode is None or mode == IDENTITY_MODE:
            return None
        kind, width = self._feature(feature)
        # Actions are recognised by what they are, whether the step lists them or not.
        if feature == STATE and step.file != 'config.json' and step.features.get(STATE) != 'STATE':
            raise CheckpointError(
                f'{self.directory}: {step.file} declares {kind}: {mode}, but its features do not '
                f'list {feature} as STATE',
                expected=f'{feature} among them: LeRobot normalises only those',
                remedy='put the processor files of one training together',
            )
        found = None
        if step.state_file is not None:
            # A fine-tune keeps the inputs its base declares, whose state is as wide as the model's.
            padded = feature == STATE and width == self.config.max_state_dim
            path = self.directory / step.state_file
            found = read_statistics(path, feature, mode, width, padded=padded)
        if found is None:
            needed = ' and '.join(f'{feature}.{name}' for name in STATISTICS[mode])
            raise CheckpointError(
                f'{self.directory}: {step.file} declares {kind}: {mode}, but '
                f'{step.state_file or "the file of statistics that it would name"} is without them',
                expected=needed,
                remedy='copy the processor files and their statistics from the training; '
                'normalization: identity is refused, because this checkpoint carries statistics '
                f'({self._files()})',
            )
        return found

    def _from_given(
        self, given: GivenStatistics, feature: str, declared: str | None, source: str
    ) -> FeatureStatistics | None:
        """Return the statistics of one feature of norm_stats."""
        kind, width = self._feature(feature)
        statistics = feature_statistics(given, feature, f'{source}: norm_stats', width)
        if declared not in (None, IDENTITY_MODE, statistics.mode):
            logger.warning(
                '%s: norm_stats of %s normalises %s as %s, the checkpoint declares %s',
                self.directory,
                source,
                kind,
                statistics.mode,
                declared,
            )
        return statistics

    def _feature(self, feature: str) -> tuple[str, int]:
        if feature == STATE:
            return 'STATE', self.config.state_dim
        return 'ACTION', self.config.action_dim

    def _refuse_two_truths(self, action: FeatureStatistics | None, inward: NormalizerStep) -> None:
        """Refuse action statistics that training and answering do not share."""
        if action is None or inward.state_file is None:
            return
        other = read_statistics(
            self.directory / inward.state_file, ACTION, action.mode, self.config.action_dim
        )
        if other is not None and not equal(action, other):
            raise CheckpointError(
                f'{self.directory}: the statistics of {ACTION} in {inward.state_file} and '
                f'{Path(action.source).name} differ',
                expected='the same in both',
                remedy='put the processor files of one training together',
            )

    def _warn_of_degenerate(self, found: Sequence[tuple[FeatureStatistics | None, float]]) -> None:
        flat = [
            f'{statistics.feature}[{index}]{self._name(statistics.feature, index)}: {values}'
            for statistics, eps in found
            if statistics is not None
            for index, values in statistics.degenerate(eps)
        ]
        if flat:
            logger.warning(
                '%s: degenerate ranges, of dimensions that did not move in the training data; a '
                'value beside the one seen there is blown up: %s',
                self.directory,
                '; '.join(flat),
            )

    def _name(self, feature: str, index: int) -> str:
        names = self.processing.action_names or self.config.action_names
        return f' ({names[index]})' if feature == ACTION and index < len(names) else ''


def _delta_mask(directory: Path, processing: Processing, config: Pi0Config) -> tuple[bool, ...]:
    """Return which actions are differences from the state, per column; () = none.

    Raises:
        CheckpointError: the files contradict one another, or the state is too narrow.

    """
    step = processing.relative or RelativeStep()
    if step.enabled != bool(processing.absolute):
        on, off = (PREPROCESSOR, POSTPROCESSOR) if step.enabled else (POSTPROCESSOR, PREPROCESSOR)
        raise CheckpointError(
            f'{directory}: actions are relative to the state in {on}, but not in {off}',
            expected='relative_actions_processor and absolute_actions_processor both enabled, or '
            'neither',
            remedy='put the processor files of one training together: differences would be sent '
            'as positions, or positions twice',
        )
    if processing.config_relative is not None and processing.config_relative != step.enabled:
        raise CheckpointError(
            f'{directory}: config.json has use_relative_actions '
            f'{str(processing.config_relative).lower()}, but '
            + ('its processors do it' if step.enabled else 'no processor does it'),
            expected='the same in both',
            remedy='put the files of one training together; where a training was started from '
            "another checkpoint's processors, those are what it did: correct config.json",
        )
    if not step.enabled:
        return ()
    mask = _differences(step, config.action_dim)
    if step.exclude and step.names is None:
        logger.warning(
            '%s: exclude_joints names %s, but action_names is null: no column is excluded, as in '
            'training',
            directory / PREPROCESSOR,
            ', '.join(step.exclude),
        )
    needed = max((column + 1 for column, delta in enumerate(mask) if delta), default=0)
    if config.state_dim < needed:
        raise CheckpointError(
            f'{directory}: {needed} columns of the actions are differences from the state, which '
            f'has {config.state_dim} values',
            expected=f'a state of at least {needed}',
            remedy='put the files of one training together',
        )
    return mask


def _differences(step: RelativeStep, columns: int) -> tuple[bool, ...]:
    """Return per column whether no entry of ``exclude`` is part of its name, case aside."""
    excluded = [part.lower() for part in step.exclude if part]
    names = [name.lower() for name in step.names or ()][:columns]
    return (
        *(not any(part in name for part in excluded) for name in names),
        *(True,) * (columns - len(names)),
    )
