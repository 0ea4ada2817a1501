# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Draw the scene off screen, in images of any size, with one graphics context for all of them."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros_sim import backend
from openpi_policy_ros_sim.errors import RenderingUnavailable

backend.choose_backend()
import mujoco  # noqa: E402 (reads the backend)
from mujoco import gl_context  # noqa: E402

# Shapes in the scene, decoration included.
_MOST_SHAPES = 500


class Renderer:
    """Draws one model. Only for the thread that made it; ``close`` frees the graphics context.

    A context of its own for every size, as MuJoCo's class of this name has, takes a second each to
    open without a graphics card.

    Args:
        model: what to draw; its ``offwidth`` and ``offheight`` bound the images.

    Raises:
        RenderingUnavailable: this machine cannot draw.

    """

    def __init__(self, model: Any) -> None:
        window: Any = None
        bounds = model.vis.global_
        try:
            window = gl_context.GLContext(bounds.offwidth, bounds.offheight)
            window.make_current()
            context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, context)
        except Exception as error:  # every backend has its own
            if window is not None:
                window.free()
            raise RenderingUnavailable(
                f'cannot draw with {backend.VARIABLE}={backend.chosen()!r} '
                f'({type(error).__name__}: {error})',
                remedy=backend.REMEDY,
            ) from error
        self._window, self._context = window, context
        # Also for whoever forgets to close it, and before the interpreter takes the driver down.
        self._free = weakref.finalize(self, _free, window, context)
        self._model = model
        self._scene = mujoco.MjvScene(model, maxgeom=_MOST_SHAPES)
        self._option = mujoco.MjvOption()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED

    def draw(
        self, data: Any, camera: str, height: int, width: int, *, shadows: bool
    ) -> npt.NDArray[np.uint8]:
        """Return what a camera of the model sees, uint8 RGB [height, width, 3], a fresh array."""
        self._window.make_current()
        self._camera.fixedcamid = self._model.camera(camera).id
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(
            self._model, data, self._option, None, self._camera, everything, self._scene
        )
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = shadows
        viewport = mujoco.MjrRect(0, 0, width, height)
        mujoco.mjr_render(viewport, self._scene, self._context)
        image = np.empty((height, width, 3), np.uint8)
        mujoco.mjr_readPixels(image, None, viewport, self._context)
        # OpenGL's first row is the lowest.
        return np.ascontiguousarray(image[::-1])

    def close(self) -> None:
        """Free the graphics context; harmless when repeated."""
        self._free()


def _free(window: Any, context: Any) -> None:
    window.make_current()
    context.free()
    window.free()
