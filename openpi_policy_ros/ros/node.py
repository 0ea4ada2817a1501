# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The ROS 2 node: one policy, one engine, the WebSocket server, the robot's own door and outputs.

The lifecycle decides what lives when: configure loads, warms up, subscribes and opens the server;
activate opens the robot's door, after which ``~/enable`` lets chunks through to the outputs;
deactivate holds the robot and closes the door while the server stays; cleanup frees all.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_srvs.srv import SetBool, Trigger

from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.control.controller import Tick
from openpi_policy_ros.control.machine import State
from openpi_policy_ros.control.match import robot_problems
from openpi_policy_ros.engine import Engine
from openpi_policy_ros.errors import ConfigurationError, PolicyRosError
from openpi_policy_ros.policies.base import PolicySpec
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.ros.actuation_side import NO_OUTPUTS, ActuationSide
from openpi_policy_ros.ros.diagnostics import Diagnostics
from openpi_policy_ros.ros.door import DoorState
from openpi_policy_ros.ros.imagined import ImaginedRecording, make_imagined_topic
from openpi_policy_ros.ros.listener import Listeners, RobotListener
from openpi_policy_ros.ros.namesake import NamesakeWatch
from openpi_policy_ros.ros.outputs import output_problems
from openpi_policy_ros.ros.parameters import ParameterBook
from openpi_policy_ros.ros.planned_path import make_planned_path
from openpi_policy_ros.ros.publishers import PromptPublisher, Status, StatusPublisher
from openpi_policy_ros.ros.recording import make_recording
from openpi_policy_ros.ros.robot_side import RobotSide
from openpi_policy_ros.ros.robot_status import robot_status
from openpi_policy_ros.ros.settings import NodeConfig
from openpi_policy_ros.ros.state_log import StateLog
from openpi_policy_ros.ros.teardown import Teardown
from openpi_policy_ros.ros.vitals import Recorder, Vitals
from openpi_policy_ros.server import ServerThread, refuse_taken_address

_log = logging.getLogger('openpi_policy_ros.ros.node')

CHUNKS = 'raw and ungated: the robot gets only what passes the gates'
NOT_CONFIGURED = 'refused: the node is not configured; configure and activate it first'
HOLD = State.HOLD.value
ASKED = '~/hold was called'
SERVER_ONLY = 'server only: the robot file names no camera and no joint'


class PolicyNode(LifecycleNode):
    """Serves a policy to remote clients and to the robot whose topics it subscribes."""

    def __init__(self, name: str = 'openpi_policy', **options: Any) -> None:
        """Be unconfigured; whoever runs the node calls ``start_up`` or a lifecycle manager does.

        Args:
            name: of the node, unless remapped.
            options: those of ``rclpy.lifecycle.LifecycleNode``: context, namespace, ...

        """
        super().__init__(name, **options)
        self._separate_services()
        self._parameters_book = ParameterBook(self, self._tune)
        self._transition = threading.Lock()
        # Held while the robot's threads start: none does once the node is to stop.
        self._starting = threading.Lock()
        self._leaving = False
        self._trouble = ''
        # What configure built.
        self._built = Teardown()
        self._listeners = Listeners()
        self._robot: RobotSide | None = None
        self._recorder: Recorder | None = None
        self._configured = False
        self._active = False
        self._dry_run = False
        self._finalized = False
        self._loading = False
        self._facts: dict[str, str] = {'chunks': CHUNKS}
        # Told by the door's thread and by the control thread.
        self._telling = threading.Lock()
        self._door_state = DoorState()
        self._tick: Tick | None = None
        self._state_log = StateLog(_log, ASKED, time.monotonic)
        self._status = StatusPublisher(self, self._listeners.on_status)
        self._diagnostics = Diagnostics(self, self._status.newest)
        self._prompt = PromptPublisher(self)
        self._namesakes = NamesakeWatch(self, self._status.alarm)
        for kind, name, answer in (
            (SetBool, '~/enable', self._on_enable),
            (Trigger, '~/hold', self._on_hold),
            (Trigger, '~/reset', self._on_reset),
        ):
            self.create_service(kind, name, answer, callback_group=MutuallyExclusiveCallbackGroup())
        self._status.show(Status('INIT', 'unconfigured', facts=self._facts))

    @property
    def autostart(self) -> bool:
        """Return whether the node is to configure and activate itself."""
        return self._parameters_book.autostart

    @property
    def loading(self) -> bool:
        """Return whether a configuration is in progress, which cannot be cut short."""
        return self._loading

    def start_up(self) -> bool:
        """Configure and activate, as a lifecycle manager would; return whether both succeeded.

        Sensors may be late: chunks flow once all are there.
        """
        _log.info('starting by itself; under a lifecycle manager set autostart:=false')
        success = TransitionCallbackReturn.SUCCESS
        return self.trigger_configure() == success and self.trigger_activate() == success

    def halt(self) -> None:
        """Disarm the robot now and for good: the hold is the last that its controllers hear."""
        with self._starting:
            self._leaving = True
        robot = self._robot
        if robot is not None:
            robot.halt()

    def shut_down(self, patience: float) -> bool:
        """Take everything down for good; return whether that went through.

        Call it when no executor spins the node any more.

        Args:
            patience: seconds to wait for a transition in progress.

        """
        deadline = time.monotonic() + patience
        while not self._finalized:
            if self._transition.acquire(timeout=max(0.0, deadline - time.monotonic())):
                self._transition.release()
                # Fails while rcl completes the transition that has just released the lock.
                with contextlib.suppress(RuntimeError):
                    self.trigger_shutdown()
            if not self._finalized:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(0.01)
        self._status.flush()
        return True

    def destroy_node(self) -> None:
        """Take down what is still up, and leave the graph."""
        self.halt()
        with self._transition:
            self._take_down()
        super().destroy_node()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Validate every parameter, load, warm up, subscribe, open the server."""
        return self._run('configure', self._configure, undo=self._take_down)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Open the robot's door."""
        return self._run('activate', self._activate, undo=self._deactivate)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Hold the robot and close its door; the server stays."""
        return self._run('deactivate', self._deactivate, failed=TransitionCallbackReturn.ERROR)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the server and free the device."""
        return self._run('cleanup', self._clean_up, failed=TransitionCallbackReturn.ERROR)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close both doors and free everything, whatever state it was in."""
        self._finalized = True
        return self._run('shutdown', self._clean_up, failed=TransitionCallbackReturn.ERROR)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take down what can be taken down, once, and be unconfigured."""
        return self._run('error', self._recover)

    def _run(
        self,
        name: str,
        action: Callable[[], None],
        *,
        undo: Callable[[], None] | None = None,
        failed: TransitionCallbackReturn = TransitionCallbackReturn.FAILURE,
    ) -> TransitionCallbackReturn:
        """Run a transition; rclpy would swallow its exception, so it is told here."""
        with self._transition:
            try:
                action()
                return TransitionCallbackReturn.SUCCESS
            except PolicyRosError as error:
                level = logging.INFO if self._leaving else logging.ERROR
                _log.log(level, '%s refused: %s', name, error)
                text = f'{name} refused: {error}'
            except Exception as error:
                _log.exception('%s failed', name)
                text = f'{name} failed: {type(error).__name__}: {error}'
            if undo is not None:
                try:
                    undo()
                except Exception:
                    _log.exception('%s could not be undone; all is taken down', name)
                    failed = TransitionCallbackReturn.ERROR
            self._trouble = text
            self._status.show(Status('INIT', text, DiagnosticStatus.ERROR, facts=self._facts))
            return failed

    def _configure(self) -> None:
        self._refuse_if_leaving()
        self._loading = True
        try:
            self._build(self._parameters_book.freeze())
        finally:
            self._loading = False

    def _build(self, config: NodeConfig) -> None:
        self._built.add('parameters', self._parameters_book.thaw)
        # Before the model, which may take minutes to load.
        refuse_taken_address(config.server())
        name = config.model or config.policy
        _log.info('loading %s on %s', name, config.device)
        self._status.show(Status('INIT', f'loading {name}', facts=self._facts))
        engine = self._load(config)
        self._facts = _facts(engine.spec, config)
        self._built.add('listeners', self._listeners.close)
        for listener in self._make_listeners(config, engine):
            self._listeners.add(listener)
        if config.has_robot_door:
            self._robot = RobotSide(
                self,
                config,
                engine,
                prompt=self._prompt,
                seed=self._parameters_book.seed,
                report=self._report,
                report_tick=self._report_tick,
                listeners=self._listeners,
            )
            self._built.add('robot side', self._drop_robot)
        server = ServerThread(engine, config.server(), robot_enabled=self._reserved(config))
        port = server.start()
        self._built.add('server', server.stop)
        self._diagnostics.watch(self._vitals(config, engine, server, port))
        self._built.add('diagnostics', self._diagnostics.forget)
        if self._robot is not None:
            # First to go: the robot stands still and no chunk goes out while the server says
            # goodbye to its clients, which may take its time.
            self._built.add('robot', self._robot.stop)
        self._catch_up(config)
        self._facts = {**self._facts, 'server': f'{config.host}:{port}'}
        self._dry_run = config.dry_run
        self._configured = True
        self._status.show(Status('INIT', 'inactive', facts=self._facts))

    def _make_listeners(self, config: NodeConfig, engine: Engine) -> Iterator[RobotListener]:
        """Make whatever hears the robot's side; each is closed before the engine is."""
        if config.has_robot_door:
            yield make_planned_path(self, config, engine.spec)
            imagined = make_imagined_topic(self, config)
            if imagined is not None:
                yield imagined
        if config.imagined_dir:
            yield ImaginedRecording(config.imagined_dir, engine)
        if config.record:
            recording = make_recording(self, config, engine)
            self._recorder = recording.recorder
            yield recording

    def _tune(self, config: NodeConfig, names: frozenset[str]) -> None:
        """Let dynamic parameters that were set while configured take effect."""
        self._diagnostics.tune(config)
        robot = self._robot
        if robot is not None:
            robot.tune(config, names)

    def _vitals(
        self, config: NodeConfig, engine: Engine, server: ServerThread, port: int
    ) -> Vitals:
        return Vitals(
            config,
            engine,
            server,
            address=f'{config.host}:{port}',
            robot=self._robot,
            resolve=self.resolve_topic_name,
            active=lambda: self._active,
            recorder=self._recorder,
        )

    def _catch_up(self, begun: NodeConfig) -> None:
        """Let those take effect that were set while the model was loading."""
        latest = self._parameters_book.config
        if latest is not None and latest is not begun:
            renamed = latest.default_prompt != begun.default_prompt
            self._tune(latest, frozenset({'default_prompt'} if renamed else ()))

    def _reserved(self, config: NodeConfig) -> Callable[[], bool] | None:
        """Return what tells whether remote clients must wait for the robot; None = never."""
        side = self._actuation
        if side is None or config.safety.remote_clients == 'allow':
            return None
        return lambda: side.actuation.enabled

    def _load(self, config: NodeConfig) -> Engine:
        policy = load_policy(
            config.model,
            policy=config.policy or None,
            profile=None if config.profile == Profile() else config.profile,
            device=config.device,
            revision=config.revision or None,
            robot=config,
        )
        # The engine owns the policy from here on, so that no failure leaves the device taken.
        engine = Engine(policy, inference_timeout=config.server().inference_timeout)
        # A call cut off in the middle of torch would abort the process at its exit.
        patience = config.server().inference_timeout
        self._built.add('engine', lambda: engine.close(drain_timeout=patience))
        problems = robot_problems(config, engine.spec)
        if config.has_robot_door:
            problems += output_problems(self, config)
        if problems:
            raise ConfigurationError(f'robot {config.robot or "parameters"} and policy', problems)
        engine.start()
        return engine

    def _activate(self) -> None:
        with self._starting:
            self._refuse_if_leaving()
            self._active = True
            if self._robot is not None:
                self._tick = None
                self._state_log.begin()
                self._report(DoorState())
                self._robot.start()
        if self._robot is None:
            self._status.show(Status('READY', SERVER_ONLY, facts=self._facts))
        _log.info('active%s', ', dry run' if self._dry_run else '')

    def _deactivate(self) -> None:
        self._active = False
        if self._robot is not None:
            self._robot.stop()
        self._status.show(Status('INIT', 'inactive', facts=self._facts))

    def _clean_up(self) -> None:
        self._active = False
        self._take_down()
        # ROS knows no way out of that state.
        text = 'finalized; start the process again' if self._finalized else 'unconfigured'
        self._status.show(Status('INIT', text, facts=self._facts))

    def _recover(self) -> None:
        self._active = False
        self._take_down()
        text = f'unconfigured after an error: {self._trouble}'
        self._status.show(Status('INIT', text, DiagnosticStatus.ERROR, facts=self._facts))

    def _refuse_if_leaving(self) -> None:
        if self._leaving:
            raise PolicyRosError('the node is stopping')

    def _separate_services(self) -> None:
        """Let every service answer while a transition, which may load a model, takes minutes.

        Those that set parameters take turns: what one has judged must hold until it is set.
        """
        setters = MutuallyExclusiveCallbackGroup()
        for service in self.services:
            if service.srv_type is not ChangeState:
                sets = service.srv_type in (SetParameters, SetParametersAtomically)
                service.callback_group = setters if sets else MutuallyExclusiveCallbackGroup()
                service.callback_group.add_entity(service)

    def _take_down(self) -> None:
        """Undo what configure built; one that fails does not keep the others up."""
        self._configured = False
        self._built.run()
        self._recorder = None
        self._facts = {'chunks': CHUNKS}

    @property
    def _actuation(self) -> ActuationSide | None:
        return None if self._robot is None else self._robot.actuation

    def _drop_robot(self) -> None:
        robot, self._robot = self._robot, None
        if robot is not None:
            robot.close()

    def _on_enable(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        robot = self._robot
        if robot is not None and robot.actuation is not None:
            answer = robot.actuation.enable(request.data, robot.door)
            response.success, response.message = answer
        elif request.data:
            response.success = False
            response.message = NO_OUTPUTS if self._configured else NOT_CONFIGURED
        else:
            response.success, response.message = True, 'nothing is enabled'
        level = logging.INFO if response.success else logging.WARNING
        _log.log(level, '~/enable %s: %s', str(request.data).lower(), response.message)
        return response

    def _on_hold(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        actuation = self._actuation
        if actuation is not None:
            actuation.actuation.hold(ASKED)
        state = 'not enabled' if actuation is None else actuation.actuation.state.value
        response.success = True
        response.message = state if state == HOLD else f'nothing was commanded ({state})'
        _log.info('~/hold: %s', response.message)
        return response

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        robot = self._robot
        if robot is None:
            response.success = False
            response.message = 'there is no robot session: unconfigured, or server only'
        else:
            key = robot.door.reset()
            response.success = True
            response.message = f'buffers cleared, new session {key}'
            _log.info('%s', response.message)
        return response

    def _report(self, state: DoorState) -> None:
        """Note what the door says."""
        with self._telling:
            self._door_state = state
            self._tell()

    def _report_tick(self, tick: Tick) -> None:
        """Note what the outputs say."""
        with self._telling:
            last, self._tick = self._tick, tick
            self._state_log.see(tick)
            said = None if last is None else (last.state, last.reason, last.counters)
            if (tick.state, tick.reason, tick.counters) != said:
                self._tell()

    def _tell(self) -> None:
        """Turn what was noted into ``~/status``."""
        if not self._active:
            return
        facts = {**self._facts, 'prompt': self._prompt.text, **self._listeners.facts}
        side = self._actuation
        if side is not None:
            facts = {**facts, **side.facts}
        robot = self._robot
        self._status.show(
            robot_status(
                self._door_state,
                self._tick,
                dry_run=self._dry_run,
                facts=facts,
                supply=None if robot is None else robot.door.stats,
            )
        )


def _facts(spec: PolicySpec, config: NodeConfig) -> dict[str, str]:
    return {
        'policy': spec.name,
        'model': spec.model,
        'revision': spec.revision,
        'weights_hash': spec.weights_hash,
        'action_space': spec.action_space,
        'action_names': ','.join(spec.action_names),
        'robot': config.robot,
        'dry_run': str(config.dry_run).lower(),
        'chunks': CHUNKS,
    }
