"""respx over httpx2: importing this module registers the mocker ``httpcore2``.

Use: ``with respx.mock(using="httpcore2") as router``. Exceptions given as side effects must be httpcore2's.
"""

from __future__ import annotations

from respx.mocks import HTTPCoreMocker


class HTTPCore2Mocker(HTTPCoreMocker):
    name = "httpcore2"
    targets = [target.replace("httpcore.", "httpcore2.") for target in HTTPCoreMocker.targets]  # noqa: RUF012
