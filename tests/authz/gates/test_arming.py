"""Arming tool objects: in place, once, never weaker, and with one clear error where it cannot be done."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManager
from langchain_core.tools import BaseTool, StructuredTool, Tool, tool
from pydantic import BaseModel, ConfigDict, Field, computed_field, model_serializer

from remit.authz import ConfigError
from remit.authz.errors import TicketRefused
from remit.authz.gates import arming, sentinel
from remit.authz.gates.arguments import reckon
from remit.authz.gates.arming import arm, disarm, foresee, is_armed, self_check
from remit.authz.tickets import Call, Frame, Ruling, opened


def plain(name: str = "subject") -> StructuredTool:
    return StructuredTool.from_function(lambda x="": f"ran {x}", name=name, description="d")


class TestArm:
    def test_everything_but_tool_objects_is_passed_over(self) -> None:
        arm([{"type": "web_search"}, len, None, BaseTool, "name", object()])

    def test_soft_arming_lets_the_tool_run_outside(self) -> None:
        subject = plain()
        arm([subject], mandatory=False)
        assert not is_armed(subject)
        assert subject.invoke({"x": "1"}) == "ran 1"

    def test_soft_arming_is_hardened_and_never_softened(self) -> None:
        subject = plain()
        arm([subject], mandatory=False)
        arm([subject])
        assert is_armed(subject)
        arm([subject], mandatory=False)
        assert is_armed(subject)
        with pytest.raises(TicketRefused):
            subject.invoke({"x": "1"})

    def test_hardening_does_not_forgive_a_new_name(self) -> None:
        """A tool that was renamed after it was first armed is refused under the new name."""
        gate = Refusing()
        subject = StructuredTool.from_function(lambda x: f"ran {x}", name="old", description="d")
        arm([subject], mandatory=False)
        subject.name = "new"
        arm([subject])
        frame = Frame((gate,), principal=None, version=str, authorizes=True)
        with opened(frame), pytest.raises(TicketRefused) as refused:
            subject.invoke({"x": 1})
        assert refused.value.code == "authz.tool_identity"

    def test_copies_stay_armed(self) -> None:
        subject = plain()
        arm([subject])
        for twin in (copy.copy(subject), copy.deepcopy(subject), subject.model_copy()):
            assert is_armed(twin)

    def test_a_copy_that_is_armed_anew_may_have_another_name(self) -> None:
        """A host may derive a tool from an armed one; the name that counts is the one it has when it is armed."""
        subject = plain()
        arm([subject])
        derived = subject.model_copy(update={"name": "derived"})
        arm([derived])
        with pytest.raises(TicketRefused) as refused:
            derived.invoke({"x": "1"})
        assert refused.value.code == "authz.no_ticket"
        disarm([derived, subject])
        assert type(derived) is type(subject) is StructuredTool

    def test_a_class_that_cannot_be_armed(self) -> None:
        class Sealed(BaseTool):
            name: str = "sealed"
            description: str = "d"

            def _run(self) -> str:
                return "ran"

            def __init_subclass__(cls, **kwargs: Any) -> None:
                raise TypeError("no subclasses")

        other = plain()
        with pytest.raises(ConfigError, match=r"'sealed' of class .*no subclasses.*StructuredTool"):
            arm([Sealed(), other])
        assert is_armed(other)

    def test_an_instance_of_a_class_derived_from_an_armed_one(self) -> None:
        subject = plain()
        arm([subject])

        class Derived(type(subject)):  # type: ignore[misc]
            """Somebody's own class."""

        late = Derived.from_function(lambda x="": "ran", name="late", description="d")
        assert is_armed(late)
        with pytest.raises(TicketRefused):
            late.invoke({"x": "1"})


class Repeating(BaseTool):
    """A class whose own door goes to its body more than once."""

    name: str = "repeating"
    description: str = "d"
    ran: Any = None

    def _run(self, x: int) -> str:
        self.ran.append(x)
        return "ran"

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        self.run({"x": input["x"]})
        return self.run({"x": input["x"] + 1})


class Refusing:
    """A gate that refuses even numbers."""

    waits = False

    def __init__(self) -> None:
        self.asked: list[Any] = []

    @property
    def key(self) -> object:
        return self

    def decide(self, call: Call) -> Ruling:
        self.asked.append(call.args)
        return Ruling(call.args["x"] % 2 == 1, "odd")

    async def adecide(self, call: Call) -> Ruling:
        return self.decide(call)


def test_a_class_with_a_door_of_its_own_is_let_through_to_its_body_once() -> None:
    """What was decided at the door covers the way in, once; whatever the class does then is decided anew."""
    gate, ran = Refusing(), []
    subject = Repeating(ran=ran)
    arm([subject])
    frame = Frame((gate,), principal=None, version=str, authorizes=True)
    with opened(frame), pytest.raises(TicketRefused):
        subject.invoke({"x": 1})
    assert ran == [1]
    assert gate.asked == [{"x": 1}, {"x": 2}]


class TestSelfCheck:
    def test_passes_with_the_installed_release(self) -> None:
        self_check.cache_clear()
        self_check()

    async def test_passes_on_the_event_loop(self) -> None:
        self_check.cache_clear()
        self_check()

    def test_notices_a_release_that_moved_the_hook(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """If bodies are reached without the hook, nothing may be served."""

        def run(self: Any, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
            return self._run(**tool_input, config={})

        monkeypatch.setattr(BaseTool, "run", run)
        arming._own_doors.cache_clear()
        self_check.cache_clear()
        try:
            with pytest.raises(ConfigError, match="langchain-core"):
                self_check()
        finally:
            arming._own_doors.cache_clear()
            self_check.cache_clear()

    def test_notices_callbacks_that_do_not_stop_a_tool(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(sentinel.sentinel()), "raise_error", False)
        self_check.cache_clear()
        try:
            with pytest.raises(ConfigError):
                self_check()
        finally:
            self_check.cache_clear()


class TestSentinel:
    @pytest.mark.parametrize("callbacks", [None, [], ()], ids=["none", "list", "tuple"])
    def test_joins_a_list(self, callbacks: Any) -> None:
        config = {"callbacks": callbacks}
        sentinel.watch(config, shared=True)
        sentinel.watch(config, shared=True)
        assert config["callbacks"] == [sentinel.sentinel()]

    def test_does_not_stay_in_a_manager_of_somebody_else(self) -> None:
        manager = CallbackManager(handlers=[])
        config: dict[str, Any] = {"callbacks": manager}
        sentinel.watch(config, shared=True)
        assert manager.handlers == []
        assert sentinel.sentinel() in config["callbacks"].inheritable_handlers

    def test_joins_the_manager_of_a_task(self) -> None:
        manager = CallbackManager(handlers=[])
        config: dict[str, Any] = {"callbacks": manager}
        sentinel.watch(config, shared=False)
        sentinel.watch(config, shared=False)
        assert manager.inheritable_handlers == [sentinel.sentinel()]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: int


class Computed(BaseModel):
    x: int

    @computed_field
    def double(self) -> int:
        return self.x * 2


class Serialised(BaseModel):
    x: int

    @model_serializer
    def _flat(self) -> dict[str, Any]:
        return {"y": self.x}


class Excluded(BaseModel):
    x: int = Field(exclude=True)
    y: int = 1


class Aliased(BaseModel):
    x: int = Field(alias="ex")
    y: list[int] = Field(default_factory=list)


SCHEMAS = [Open, Computed, Serialised, Excluded, Aliased]


class TestForeseen:
    """The arguments are worked out ahead exactly as the tool would."""

    @pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.__name__)
    @pytest.mark.parametrize(
        "sent", [{"x": "1", "z": 3}, {"ex": "1"}, {"x": 1, "y": ["2"], "ex": 4}], ids=["name", "alias", "both"]
    )
    def test_like_the_tool_itself(self, schema: Any, sent: dict[str, Any]) -> None:
        subject = StructuredTool(name="s", description="d", args_schema=schema, func=lambda **kwargs: kwargs)
        arm([subject])
        for _ in range(3):
            try:
                expected = StructuredTool._to_args_and_kwargs(subject, dict(sent), "c")
            except Exception:  # some schemas are beyond LangChain itself
                expected = None
            _, foreseen = foresee(subject, sent, "c", None)
            assert (foreseen and foreseen.ready) == expected

    def test_the_short_cut_is_given_up_where_it_differs(self) -> None:
        """A schema that does not answer the same twice is coerced by the tool's own code, always."""
        counter: list[int] = []

        class Moody(BaseModel):
            x: int = Field(default_factory=lambda: counter.append(1) or len(counter))

        subject = StructuredTool(name="s", description="d", args_schema=Moody, func=lambda x: x)
        arm([subject])
        foresee(subject, {}, "c", None)
        assert reckon(subject, StructuredTool).short_cut is None

    def test_the_short_cut_is_proved_by_the_first_call(self) -> None:
        subject = StructuredTool(name="s", description="d", args_schema=Aliased, func=lambda x, y: x)
        arm([subject])
        quick = reckon(subject, StructuredTool).short_cut
        assert quick is not None
        assert not quick.proved
        foresee(subject, {"ex": "1"}, "c", None)
        assert quick.proved

    def test_another_schema_on_a_copy_is_looked_at_anew(self) -> None:
        subject = StructuredTool(name="s", description="d", args_schema=Aliased, func=lambda x, y: x)
        arm([subject])
        foresee(subject, {"ex": "1"}, "c", None)
        other = subject.model_copy(update={"args_schema": Open})
        view, _ = foresee(other, {"x": "7", "free": 1}, "c", None)
        assert view == {"x": 7, "free": 1}

    def test_names_of_positional_arguments(self) -> None:
        single = Tool(name="s", description="d", func=lambda text: text)
        assert foresee(single, {"__arg1": "x"}, "c", None)[0] == {"__arg1": "x"}

        class Query(BaseModel):
            query: str

        with_schema = Tool(name="s", description="d", func=lambda text: text, args_schema=Query)
        assert foresee(with_schema, {"query": "x"}, "c", None)[0] == {"query": "x"}

    def test_refused_arguments_are_seen_as_sent(self) -> None:
        @tool
        def subject(x: int) -> str:
            """A subject."""
            return str(x)

        assert foresee(subject, {"x": "many", "y": 1}, "c", None) == ({"x": "many", "y": 1}, None)
