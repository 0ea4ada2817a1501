# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the model hub: one repository from a folder, over HTTP on this machine."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = 'c0ffee' + '0' * 34


@dataclass
class Hub:
    """A running stand-in; ``requests`` holds (method, path, Range header or '')."""

    url: str
    requests: list[tuple[str, str, str]] = field(default_factory=list)

    def fetched(self, file: str) -> list[str]:
        """Return the Range headers of the GET requests for ``file``."""
        return [
            asked
            for method, path, asked in self.requests
            if method == 'GET' and path.endswith(f'/resolve/{COMMIT}/{file}')
        ]


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
            path, asked = self.path.split('?')[0], self.headers.get('Range', '')
            hub.requests.append((self.command, path, asked))
            resolve = re.fullmatch(rf'/{repository}/resolve/({COMMIT}|main)/(.+)', path)
            if resolve and resolve.group(2) in files:
                self._file(files[resolve.group(2)], asked, send_body)
            elif re.fullmatch(rf'/api/models/{repository}(/revision/({COMMIT}|main))?', path):
                self._json(self._info(), send_body)
            elif re.fullmatch(rf'/api/models/{repository}/tree/({COMMIT}|main)', path):
                self._json(self._tree(), send_body)
            else:
                self._send(404, b'{"error": "not here"}', send_body, 'X-Error-Code: RepoNotFound')

        def _info(self) -> object:
            siblings = [{'rfilename': n, 'size': p.stat().st_size} for n, p in files.items()]
            return {'id': repository, 'sha': COMMIT, 'siblings': siblings}

        def _tree(self) -> object:
            return [
                {'type': 'file', 'path': n, 'size': p.stat().st_size, 'oid': _oid(p)}
                for n, p in files.items()
            ]

        def _json(self, value: object, send_body: bool) -> None:
            self._send(200, json.dumps(value).encode(), send_body, 'Content-Type: application/json')

        def _file(self, path: Path, asked: str, send_body: bool) -> None:
            headers = [f'ETag: "{_oid(path)}"', f'X-Repo-Commit: {COMMIT}']
            content = path.read_bytes()
            part = re.fullmatch(r'bytes=(\d+)-(\d*)', asked)
            if part is None:
                self._send(200, content, send_body, *headers)
                return
            first, last = int(part.group(1)), int(part.group(2) or len(content) - 1)
            chosen = content[first : last + 1]
            covered = f'Content-Range: bytes {first}-{first + len(chosen) - 1}/{len(content)}'
            self._send(206, chosen, send_body, covered, *headers)

        def _send(self, status: int, body: bytes, send_body: bool, *headers: str) -> None:
            self.send_response(status)
            for header in headers:
                self.send_header(*header.split(': ', 1))
            self.send_header('Content-Length', str(len(body)))
            self.end_headers()
            if send_body:
                self.wfile.write(body)

    server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    hub.url = f'http://127.0.0.1:{server.server_port}'
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def _oid(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()
