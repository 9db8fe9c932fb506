from __future__ import annotations

import copy
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from remit.authz import wire
from remit.authz.principal import build_principal_from_context, normalize_authz_attributes, seal_principal
from remit.authz.types import EMPTY, FrozenDict, Principal

FULL: dict[str, Any] = {
    "user_id": "u-1",
    "user_role": "writer",
    "oauth_provider": "acme",
    "oauth_id": "o-1",
    "channel_user_id": "c-1",
    "is_internal": True,
    "authz_attributes": {"teams": ["blue"]},
}
WHO = Principal("u-1", "writer", "acme", "o-1", "c-1", True, {"teams": ["blue"]})


@dataclass
class DataclassContext:
    user_id: str | None = None
    user_role: str | None = None
    oauth_provider: str | None = None
    oauth_id: str | None = None
    channel_user_id: str | None = None
    is_internal: bool = False
    authz_attributes: dict[str, Any] = dataclass_field(default_factory=dict)


class ModelContext(BaseModel):
    user_id: str | None = None
    user_role: str | None = None
    oauth_provider: str | None = None
    oauth_id: str | None = None
    channel_user_id: str | None = None
    is_internal: bool = False
    authz_attributes: dict[str, Any] = {}


@pytest.mark.parametrize(
    "made",
    [dict, MappingProxyType, FrozenDict, lambda d: DataclassContext(**d), lambda d: ModelContext(**d),
     lambda d: SimpleNamespace(**d)],
    ids=["dict", "mappingproxy", "frozen", "dataclass", "pydantic", "namespace"],
)  # fmt: skip
def test_read_from_any_kind_of_context(made: Any) -> None:
    assert build_principal_from_context(made(copy.deepcopy(FULL)), default_role="guest") == WHO


@pytest.mark.parametrize("context", [None, {}, DataclassContext(), ModelContext(), object()])
def test_an_empty_context_is_nobody_with_the_default_role(context: Any) -> None:
    assert build_principal_from_context(context, default_role="guest") == Principal(role="guest")
    assert build_principal_from_context(context, default_role=None) == Principal()


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        (None, "guest"),
        ("", "guest"),
        ("writer", "writer"),
        ("unheard-of", "unheard-of"),
        ("Guest", "Guest"),
        ("None", "None"),
    ],
)
def test_role(role: Any, expected: str) -> None:
    assert build_principal_from_context({"user_role": role}, default_role="guest").role == expected


@pytest.mark.parametrize("role", [0, False, True, [], {}, b"", b"admin", 1.0, ["admin"], object()])
def test_a_role_that_is_no_text_is_not_replaced_by_the_default(role: Any) -> None:
    with pytest.raises(TypeError, match="role must be str or None"):
        build_principal_from_context({"user_role": role}, default_role="admin")


@pytest.mark.parametrize("role", [" ", "admin ", "\tadmin", "ad\u200bmin", "cafe\u0301", "admin\x00"])
def test_a_role_that_is_not_clean_is_not_replaced_by_the_default(role: str) -> None:
    with pytest.raises(ValueError, match="never repaired"):
        build_principal_from_context({"user_role": role}, default_role="admin")


@pytest.mark.parametrize("field", ["user_id", "oauth_provider", "oauth_id", "channel_user_id"])
@pytest.mark.parametrize(("value", "error"), [(7, TypeError), ("u ", ValueError), (b"u", TypeError), ([], TypeError)])
def test_other_identity_is_not_repaired_either(field: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=field):
        build_principal_from_context({field: value}, default_role="guest")


@pytest.mark.parametrize("value", [1, "true", "True", [True], object(), None, 0, "", False])
def test_internal_is_only_the_literal_true(value: Any) -> None:
    assert build_principal_from_context({"is_internal": value}, default_role=None).is_internal is False
    assert build_principal_from_context({"is_internal": True}, default_role=None).is_internal is True


@pytest.mark.parametrize("value", [[], [("a", 1)], "a", 7, True, (), {"a"}, object()])
def test_attributes_are_never_coerced(value: Any) -> None:
    with pytest.raises(TypeError, match="authz_attributes must be a Mapping"):
        build_principal_from_context({"authz_attributes": value}, default_role=None)
    with pytest.raises(TypeError, match="authz_attributes must be a Mapping"):
        normalize_authz_attributes(value)


@pytest.mark.parametrize("value", [{1: 2}, {"a": {None: 1}}, {"a": [{b"k": 1}]}])
def test_names_of_attributes_are_text(value: Any) -> None:
    with pytest.raises(TypeError, match="must be str"):
        build_principal_from_context({"authz_attributes": value}, default_role=None)


def test_attributes_are_copied_and_frozen() -> None:
    source = {"teams": ["blue"], "limits": {"daily": 5}}
    normal = normalize_authz_attributes(source)
    source["teams"].append("red")  # type: ignore[attr-defined]
    source["limits"]["daily"] = 500  # type: ignore[index]
    assert normal == {"teams": ("blue",), "limits": {"daily": 5}}
    assert hash(normal)
    assert normalize_authz_attributes(None) is EMPTY
    assert normalize_authz_attributes({}) == {}


def test_the_builder_is_pure() -> None:
    context = copy.deepcopy(FULL)
    first = build_principal_from_context(context, default_role="guest")
    assert context == FULL
    context["user_role"] = "reader"
    context["authz_attributes"]["teams"].append("red")
    assert first == WHO
    assert build_principal_from_context(context, default_role="guest").role == "reader"  # nothing is remembered


def test_keys_that_are_not_the_wire_names_mean_nothing() -> None:
    context = {"role": "admin", "principal": WHO, "configurable": FULL, "USER_ROLE": "admin", "user": {"role": "admin"}}
    assert build_principal_from_context(context, default_role="guest") == Principal(role="guest")


# The seal


def test_a_sealed_principal_wins() -> None:
    context = {"user_role": "admin", "user_id": "someone-else"}
    seal_principal(context, WHO)
    assert build_principal_from_context(context, default_role="admin") is WHO
    assert context["__principal"] is WHO


def test_a_seal_holds() -> None:
    context: dict[str, Any] = {}
    seal_principal(context, WHO)
    seal_principal(context, Principal("u-1", "writer", "acme", "o-1", "c-1", True, {"teams": ("blue",)}))
    with pytest.raises(ValueError, match="another principal is sealed"):
        seal_principal(context, Principal("u-1", "admin"))
    assert context["__principal"] == WHO


@pytest.mark.parametrize("forged", ["admin", {"role": "admin"}, {"user_id": "u", "role": "admin"}, 1, object()])
def test_what_is_sealed_must_be_a_principal(forged: Any) -> None:
    with pytest.raises(TypeError, match="__principal must be a Principal"):
        build_principal_from_context({"__principal": forged}, default_role="guest")


def test_an_attribute_cannot_carry_a_seal() -> None:
    context = SimpleNamespace(user_role="reader")
    setattr(context, wire.PRINCIPAL, Principal(role="admin"))
    assert build_principal_from_context(context, default_role="guest").role == "reader"
