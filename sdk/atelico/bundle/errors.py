"""The error of making a bundle."""

from __future__ import annotations

from typing import ClassVar

from atelico.errors import AtelicoError


class BundleError(AtelicoError):
    """A bundle cannot be made: a tool or a file is missing, or the folder is not one to write to."""

    type: ClassVar[str] = "invalid_request_error"
    code = "bundle_failed"
    http_status: ClassVar[int] = 400
    c_result: ClassVar[int] = -3
