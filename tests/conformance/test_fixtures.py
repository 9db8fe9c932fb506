from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from langchain_core.tools import BaseTool, tool

from remit.authz.errors import TicketRefused
from remit.authz.gates.arming import arm
from remit.authz.testing.fixtures import disarm  # noqa: F401 - a fixture


@tool
def double(value: int) -> int:
    """Twice the value."""
    return 2 * value


@pytest.fixture
def armed() -> Iterator[BaseTool]:
    """Looks at the tool after `disarm` was torn down, since it is set up before."""
    arm([double])
    yield double
    with pytest.raises(TicketRefused):
        double.invoke({"value": 4})


def test_a_disarmed_tool_runs_until_the_test_is_over(
    armed: BaseTool,
    disarm: Callable[..., None],  # noqa: F811 - the fixture imported above
) -> None:
    with pytest.raises(TicketRefused):
        armed.invoke({"value": 4})
    disarm(armed)
    assert armed.invoke({"value": 4}) == 8


def test_a_tool_that_was_never_armed_stays_as_it_is(disarm: Callable[..., None]) -> None:  # noqa: F811 - see above
    @tool
    def triple(value: int) -> int:
        """Thrice the value."""
        return 3 * value

    disarm(triple)
    assert triple.invoke({"value": 4}) == 12
