# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the process of rank 1 begins: it watches its parent before it does anything slow.

Importing torch takes seconds; nothing that does is imported here.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

ORPHANED = 3
"""Exit code of a worker whose parent went away."""
_WATCH = 0.25


def main() -> None:
    """Serve the parent whose process id, socket and rendezvous file the arguments name."""
    parent, end, store, timeout = sys.argv[1:]
    threading.Thread(target=_watch, args=(int(parent), Path(store)), daemon=True).start()
    from openpi_policy_ros.policies.dreamzero.guidance_worker import serve

    serve(int(end), Path(store), float(timeout))


def leave(store: Path) -> NoReturn:
    """End this process at once, and the rendezvous file and its folder that nobody else removes."""
    with suppress(OSError):
        store.unlink(missing_ok=True)
        store.parent.rmdir()
    os._exit(ORPHANED)


def _watch(parent: int, store: Path) -> None:
    """End this process when its parent is gone, whatever it is doing or waiting for."""
    while os.getppid() == parent:
        time.sleep(_WATCH)
    leave(store)


if __name__ == '__main__':
    main()
