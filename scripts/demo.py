# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Let the trained checkpoint drive a simulated robot through both doors; end by itself.

The real node with its gates, a DROID arm in MuJoCo with cameras, the stock openpi-client on one
side and ROS 2 topics on the other. demo.sh makes the environment and calls this. Status 0: all of
it worked, and an episode succeeded; a single one that fails is told, and no error.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

WORK = Path(__file__).resolve().parents[1] / '.demo'
OPENPI_PATH = '/v1/realtime/robot/openpi'
TASKS = ('lift', 'bowl')
MAX_STEPS = 300
"""20 s for an episode; what is not done by then is stuck."""
SEED = 0
OVERALL_S = 540
READY_S = 120
STOP_S = 30
WRAP = textwrap.TextWrapper(
    width=100, subsequent_indent=26 * ' ', break_long_words=False, drop_whitespace=True
)


class DemoError(Exception):
    """The demo cannot go on; its text says why and what to do."""


def step(number: int, title: str) -> None:
    """Print the heading of the next step."""
    print(f'\n[{number}] {title}', flush=True)


def tell(label: str, value: object) -> None:
    """Print one fact, wrapped under its label."""
    print(WRAP.fill(f'    {label:<21} {value}'), flush=True)


def command(name: str) -> str:
    """Return the path of an executable of this environment."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise DemoError(f'{name} is not installed; run scripts/demo.sh, which installs it')
    return found


def log_tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log file, indented."""
    text = log.read_text(encoding='utf-8', errors='replace').splitlines()
    return '\n'.join(f'      | {line}' for line in text[-lines:])


@contextmanager
def process(
    name: str, arguments: list[str], *, progress: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process with its output in .demo/<name>.log; stop it by its pid at the end.

    With ``progress`` its bars are shown where there is a terminal.
    """
    log = WORK / f'{name}.log'
    with log.open('wb') as output:
        # A session of its own: Ctrl-C reaches the demo, and the demo stops what it started.
        child = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if progress and sys.stderr.isatty() else subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield child
    finally:
        stop(child)


def stop(child: subprocess.Popen[bytes]) -> int:
    """End a process with SIGTERM, with SIGKILL if it does not listen; return its status."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    return child.returncode


def free_port() -> int:
    """Return a TCP port that is free right now."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def wait_until_ready(node: subprocess.Popen[bytes], port: int) -> dict[str, Any]:
    """Wait for /readyz to answer 200; return its body."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if node.poll() is not None:
            raise DemoError(
                f'the node ended with status {node.returncode}; its last words:\n'
                + log_tail(WORK / 'node.log')
            )
        try:
            with urllib.request.urlopen(f'http://127.0.0.1:{port}/readyz', timeout=2) as reply:
                return json.loads(reply.read())
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise DemoError(
        f'the node was not ready after {READY_S} s; its last words:\n{log_tail(WORK / "node.log")}'
    )


def mapping(values: Mapping[str, Any]) -> str:
    """Return a mapping for people."""
    return ', '.join(f'{name} {value}' for name, value in values.items() if value != '')


def show_checkpoint() -> None:
    """Tell what is served."""
    from openpi_policy_ros.errors import CheckpointError
    from openpi_policy_ros_sim.demo import demo_checkpoint

    try:
        folder = demo_checkpoint()
    except CheckpointError as error:
        raise DemoError(str(error)) from error
    size = sum(path.stat().st_size for path in folder.rglob('*') if path.is_file())
    tell('folder', f'{folder} ({size / 1e6:.1f} MB)')
    tell('what it is', 'a small pi0, trained on this simulator by scripts/train_demo_policy.py')


def run_loop(
    name: str, arguments: list[str], node: subprocess.Popen[bytes]
) -> list[dict[str, Any]]:
    """Run ``openpi-policy-sim`` to its end; return its episodes."""
    results = WORK / f'{name}.json'
    results.unlink(missing_ok=True)
    call = [command('openpi-policy-sim'), name, *arguments, '--json', str(results)]
    start = time.monotonic()
    with process(name, call, progress=True) as child:
        tell('process', f'{child.pid}')
        while child.poll() is None:
            if node.poll() is not None:
                raise DemoError(
                    f'the node ended with status {node.returncode}; its last words:\n'
                    + log_tail(WORK / 'node.log')
                )
            time.sleep(0.1)
    if child.returncode != 0:
        raise DemoError(
            f'openpi-policy-sim {name} ended with status {child.returncode}, expected 0:\n'
            + log_tail(WORK / f'{name}.log')
        )
    episodes: list[dict[str, Any]] = json.loads(results.read_text(encoding='utf-8'))['episodes']
    for one in episodes:
        seconds = one['seconds'][one['task']]
        tell(
            f'{one["task"]}, table {one["seed"]}',
            f'"{one["prompt"]}": '
            + (f'done after {seconds:.1f} s' if one['success'] else why_not(one)),
        )
    tell('took', f'{time.monotonic() - start:.0f} s')
    return episodes


def why_not(episode: Mapping[str, Any]) -> str:
    """Return why an episode failed, for people."""
    return f'not done, {episode.get("ended") or "time was up"}'


def table(loops: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the table of both loops."""
    from openpi_policy_ros_sim.results import percentile, wilson

    lines = ['    loop       task  success  95 % interval  seconds  chunk latency ms p50, p95']
    for loop, episodes in loops.items():
        for task in TASKS:
            some = [one for one in episodes if one['task'] == task]
            done = [one['seconds'][task] for one in some if one['success']]
            low, high = (f'{100 * limit:.0f}' for limit in wilson(len(done), len(some)))
            latencies = [ms for one in some for ms in one['latency_ms']]
            seconds = f'{percentile(done, 50):.1f}' if done else '-'
            lines.append(
                f'    {loop:<9}  {task:<4}  {f"{len(done)}/{len(some)}":<7}  '
                f'{f"{low}-{high} %":<13}  {seconds:<7}  '
                + ', '.join(f'{percentile(latencies, level) or 0:.0f}' for level in (50, 95))
            )
    return '\n'.join(lines)


def demonstrate(cleanup: ExitStack, options: argparse.Namespace) -> None:
    """Run all steps; whatever they start is stopped by ``cleanup``."""
    if 'ROS_DOMAIN_ID' not in os.environ:
        raise DemoError(
            'run scripts/demo.sh: it keeps DDS to this machine and to a domain of its own'
        )
    step(1, 'A trained checkpoint: the model "demo"')
    show_checkpoint()

    step(2, 'The node: openpi_policy_node')
    port = free_port()
    settings = {'model': 'demo', 'robot': 'sim_droid', 'port': port, 'use_sim_time': True}
    arguments = [command('openpi_policy_node'), '--ros-args']
    for name, value in settings.items():
        arguments += ['-p', f'{name}:={str(value).lower() if value is True else value}']
    start = time.monotonic()
    node = cleanup.enter_context(process('node', arguments))
    tell('process', f'{node.pid}')
    ready = wait_until_ready(node, port)
    tell('ready', f'after {time.monotonic() - start:.1f} s on 127.0.0.1:{port}')
    tell('/readyz', mapping(ready))
    tell('DDS', f'domain {os.environ["ROS_DOMAIN_ID"]}, this machine only')

    episodes = ['--episodes', str(options.episodes), '--seed', str(SEED)]
    both = ['--task', *TASKS, *episodes, '--max-steps', str(MAX_STEPS)]
    step(3, f'A remote client: the stock openpi-client on {OPENPI_PATH}')
    tell('robot', 'a DROID arm in MuJoCo; the simulation waits for each answer')
    url = f'ws://127.0.0.1:{port}{OPENPI_PATH}'
    videos = [] if options.no_video else ['--video', str(WORK / 'videos'), '--gif']
    remote = run_loop('ws', ['--url', url, '--policy-seed', str(SEED), *both, *videos], node)

    step(4, 'The robot itself: cameras, joint states and commands on ROS 2 topics')
    tell('robot', 'the same arm, in real time, through every gate of the node')
    robot = run_loop('ros', both, node)
    gates: dict[str, int] = {}
    for one in robot:
        for name, count in one['gates'].items():
            gates[name] = gates.get(name, 0) + count
    tell('gates', mapping(gates) or 'had nothing to do')
    factors = [one['real_time_factor'] for one in robot]
    tell('times real time', f'{min(factors):.2f} to {max(factors):.2f}')

    step(5, 'What came of it')
    print(table({'WebSocket': remote, 'ROS 2': robot}), flush=True)
    if not options.no_video:
        best = next((one for one in remote if one['success']), remote[0])
        tell('watch', f'{best["video"]}, and the GIF beside it')
    tell('every episode', f'{WORK / "ws.json"}, {WORK / "ros.json"}')
    status = stop(node)
    if status != 0:
        raise DemoError(
            f'the node ended with status {status}, expected 0:\n{log_tail(WORK / "node.log")}'
        )
    tell('node', f'ended with status 0, its log: {WORK / "node.log"}')
    if not any(one['success'] for one in remote + robot):
        raise DemoError('no episode succeeded; the policy should manage most of them')


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return the exit status."""
    parser = argparse.ArgumentParser(description='Show the trained policy through both doors.')
    parser.add_argument('--episodes', type=int, default=3, help='per task and loop (default: 3)')
    parser.add_argument('--no-video', action='store_true', help='record none, which is quicker')
    options = parser.parse_args(arguments)

    def interrupt(number: int, _frame: object) -> None:
        if number == signal.SIGALRM:
            raise DemoError(f'not done after {OVERALL_S} s; see the logs in {WORK}')
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, interrupt)
    signal.alarm(OVERALL_S)
    WORK.mkdir(exist_ok=True)
    start = time.monotonic()
    print('openpi_policy_ros: one policy, two doors', flush=True)
    try:
        with ExitStack() as cleanup:
            demonstrate(cleanup, options)
    except KeyboardInterrupt:
        print('\ninterrupted; everything the demo started has ended', file=sys.stderr)
        return 130
    except (DemoError, ImportError, OSError) as error:
        print(f'\nerror: {error}', file=sys.stderr)
        return 1
    print(f'\nOK, all of it in {time.monotonic() - start:.0f} s. The README says what to try next.')
    return 0


if __name__ == '__main__':
    sys.exit(main())
