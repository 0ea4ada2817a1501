# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the model hub: one repository from a folder, over HTTP on this machine.

It answers as the hub does: a large file (weights) is known by its SHA-256 and lies elsewhere, where
a redirect leads; what is refused is refused with the hub's own headers.
"""

from __future__ import annotations

import array
import fcntl
import hashlib
import json
import re
import socket
import struct
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

COMMIT = 'c0ffee' + '0' * 34
_LARGE = ('.safetensors', '.bin', '.pt')


@dataclass
class Hub:
    """A running stand-in.

    Attributes:
        url: where it listens.
        commit: what it says that its commit is.
        revisions: what the repository's one commit may be called.
        requests: (method, path, Range header or '') of each request.
        tokens: Authorization headers that came, without those that were none.
        cuts: for each of the next answers with the content of a large file: after how many bytes
            the connection ends; None = not at all.
        resets: whether it ends with a reset, as a radio link that breaks, not with a close.
        holds: where set, such a connection stays open, silent, until this is.
        ignores_ranges: whether whole files are sent whatever range was asked for.
        refuses: (pattern of paths, status, X-Error-Code): such requests are refused.
        changes: name of a file → what is sent in place of its content.

    """

    url: str
    commit: str = COMMIT
    revisions: set[str] = field(default_factory=lambda: {COMMIT, 'main'})
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    cuts: list[int | None] = field(default_factory=list)
    resets: bool = False
    holds: threading.Event | None = None
    ignores_ranges: bool = False
    refuses: list[tuple[str, int, str]] = field(default_factory=list)
    changes: dict[str, bytes] = field(default_factory=dict)

    def fetched(self, file: str) -> list[str]:
        """Return the Range headers of the GET requests for ``file``."""
        return [
            asked
            for method, path, asked in self.requests
            if method == 'GET' and path.endswith(f'/resolve/{COMMIT}/{file}')
        ]


def use_own_cache(monkeypatch: pytest.MonkeyPatch, scratch: Path) -> Path:
    """Give the hub's client an empty cache in ``scratch``, nobody's token and a network."""
    constants = 'huggingface_hub.constants'
    folder = scratch / 'hub'
    monkeypatch.setattr(f'{constants}.HF_HUB_CACHE', str(folder))
    monkeypatch.setattr(f'{constants}.HF_HUB_OFFLINE', False)
    monkeypatch.setattr(f'{constants}.HF_TOKEN_PATH', str(scratch / 'no_token'))
    monkeypatch.delenv('HF_TOKEN', raising=False)
    # Pieces small enough that a small file arrives in many.
    monkeypatch.setattr(f'{constants}.DOWNLOAD_CHUNK_SIZE', 1 << 14)
    return folder


def use_hub(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Let the hub's client ask ``url``: it reads HF_ENDPOINT only when it is imported."""
    monkeypatch.setattr('huggingface_hub.constants.ENDPOINT', url)
    monkeypatch.setattr(
        'huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE',
        url + '/{repo_id}/resolve/{revision}/{filename}',
    )


@contextmanager
def serve_hub(repository: str, folder: Path) -> Iterator[Hub]:
    """Serve ``folder`` as ``repository``, its main branch at ``COMMIT``."""
    hub = Hub('')
    files = {p.relative_to(folder).as_posix(): p for p in folder.rglob('*') if p.is_file()}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'

        def do_HEAD(self) -> None:
            self._answer(send_body=False)

        def do_GET(self) -> None:
            self._answer(send_body=True)

        def log_message(self, *args: object) -> None:
            pass

        def _answer(self, send_body: bool) -> None:
            path, asked = unquote(self.path.split('?')[0]), self.headers.get('Range', '')
            # What its client asks once in a process, about the program it is used by, is no matter.
            if not path.startswith(('/api/models/', '/storage/')) and '/resolve/' not in path:
                self._send(404, b'{}', send_body)
                return
            hub.requests.append((self.command, path, asked))
            if 'Authorization' in self.headers:
                hub.tokens.append(self.headers['Authorization'])
            for pattern, status, code in hub.refuses:
                if re.search(pattern, path):
                    headers = [f'X-Error-Code: {code}'] if code else []
                    self._send(status, b'{"error": "refused"}', send_body, *headers)
                    return
            resolve = re.fullmatch(rf'/{repository}/resolve/(.+?)/({"|".join(files)})', path)
            listing = re.fullmatch(rf'/api/models/{repository}(?:/(revision|tree)/(.+))?', path)
            if path.startswith('/storage/'):
                self._content(path.removeprefix('/storage/'), asked, send_body)
            elif resolve and resolve.group(1) in hub.revisions:
                self._resolve(resolve.group(2), asked, send_body)
            elif listing and (listing.group(2) or 'main') in hub.revisions:
                self._json(self._tree() if listing.group(1) == 'tree' else self._info(), send_body)
            elif path.startswith((f'/{repository}/resolve/', f'/api/models/{repository}/')):
                self._send(404, b'{"error": "no"}', send_body, 'X-Error-Code: RevisionNotFound')
            else:
                self._send(404, b'{"error": "no"}', send_body, 'X-Error-Code: RepoNotFound')

        def _info(self) -> object:
            siblings = [{'rfilename': n, 'size': p.stat().st_size} for n, p in files.items()]
            return {'id': repository, 'sha': hub.commit, 'siblings': siblings}

        def _tree(self) -> object:
            return [
                {'type': 'file', 'path': n, 'size': p.stat().st_size, 'oid': _oid(p)}
                for n, p in files.items()
            ]

        def _json(self, value: object, send_body: bool) -> None:
            self._send(200, json.dumps(value).encode(), send_body, 'Content-Type: application/json')

        def _resolve(self, name: str, asked: str, send_body: bool) -> None:
            path = files[name]
            if path.suffix not in _LARGE:
                self._content(name, asked, send_body)
                return
            self._send(
                302,
                b'',
                send_body,
                f'X-Repo-Commit: {COMMIT}',
                f'X-Linked-Etag: "{_oid(path)}"',
                f'X-Linked-Size: {path.stat().st_size}',
                f'Location: {hub.url}/storage/{name}',
            )

        def _content(self, name: str, asked: str, send_body: bool) -> None:
            headers = [f'ETag: "{_oid(files[name])}"', f'X-Repo-Commit: {COMMIT}']
            content = hub.changes.get(name, files[name].read_bytes())
            part = re.fullmatch(r'bytes=(\d+)-(\d*)', asked)
            # A header is asked for from its first byte to a last one: only whole files are cut.
            cut = None
            if Path(name).suffix in _LARGE and send_body and hub.cuts and not (part and part[2]):
                cut = hub.cuts.pop(0)
            if part is None or hub.ignores_ranges:
                self._send(200, content, send_body, *headers, cut=cut)
                return
            first, last = int(part.group(1)), int(part.group(2) or len(content) - 1)
            chosen = content[first : last + 1]
            covered = f'Content-Range: bytes {first}-{first + len(chosen) - 1}/{len(content)}'
            self._send(206, chosen, send_body, covered, *headers, cut=cut)

        def _send(
            self, status: int, body: bytes, send_body: bool, *headers: str, cut: int | None = None
        ) -> None:
            self.send_response(status)
            for header in headers:
                self.send_header(*header.split(': ', 1))
            self.send_header('Content-Length', str(len(body)))
            self.end_headers()
            if not send_body:
                return
            self.wfile.write(body if cut is None else body[:cut])
            if cut is not None:
                if hub.holds is not None:
                    self.wfile.flush()
                    hub.holds.wait(30)
                if hub.resets:
                    self._reset_at_close()
                self.close_connection = True

        def _reset_at_close(self) -> None:
            # A reset throws away what is still on its way: let the other side have it first.
            deadline = time.monotonic() + 5
            while _unacknowledged(self.connection) and time.monotonic() < deadline:
                time.sleep(0.005)
            linger = struct.pack('ii', 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def shutdown_request(self, request: Any) -> None:
            # Without the orderly end that would come before a reset.
            self.close_request(request)

    server = Server(('127.0.0.1', 0), Handler)
    hub.url = f'http://127.0.0.1:{server.server_port}'
    thread = threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 0.02})
    thread.daemon = True
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def _unacknowledged(connection: socket.socket) -> int:
    count = array.array('i', [0])
    fcntl.ioctl(connection, termios.TIOCOUTQ, count)
    return count[0]


def _oid(path: Path) -> str:
    kind = hashlib.sha256 if path.suffix in _LARGE else hashlib.sha1
    return kind(path.read_bytes()).hexdigest()
