"""Loading of policy files as they are found in the wild."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cases import CASES, Case

from remit.authz.errors import PolicyError
from remit.providers.casbin.files.export import export_csv
from remit.providers.casbin.files.loader import load_policy_set
from remit.providers.casbin.rules import PolicySet

LOADED = [case for case in CASES if not case.refused]
REFUSED = [case for case in CASES if case.refused]


def load(case: Case, folder: Path) -> PolicySet:
    case.write(folder)
    return load_policy_set(policies=["policy.csv"], model="model.conf", base_dir=folder, request=case.templates)


@pytest.mark.parametrize("case", LOADED, ids=lambda case: case.id)
def test_loads_with_its_warnings(case: Case, tmp_path: Path) -> None:
    loaded = load(case, tmp_path)
    rows = sum(line.startswith("p,") for line in case.policy.removeprefix("\ufeff").splitlines())
    assert len(loaded.rules) == rows
    assert all(problem.severity == "warning" for problem in loaded.problems)
    of_policy = tuple((p.line, p.code) for p in loaded.problems if p.file == "policy.csv")
    assert of_policy == case.warned
    assert tuple(p.code for p in loaded.problems if p.file == "model.conf") == case.warned_in_model


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_refused_with_place_and_advice(case: Case, tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        load(case, tmp_path)
    errors = [problem for problem in caught.value.problems if problem.severity == "error"]
    assert tuple((p.line, p.code) for p in errors) == case.refused
    assert {p.file for p in errors} == {case.refused_in}
    assert all(p.advice for p in errors)


@pytest.mark.parametrize("case", LOADED, ids=lambda case: case.id)
def test_export_loads_to_the_same_rules(case: Case, tmp_path: Path) -> None:
    loaded = load(case, tmp_path)
    (tmp_path / "policy.csv").write_text(export_csv(loaded), encoding="utf-8")
    again = load_policy_set(policies=["policy.csv"], model="model.conf", base_dir=tmp_path, request=case.templates)
    assert [rule.values for rule in again.rules] == [rule.values for rule in loaded.rules]
    assert [(link.gtype, link.values) for link in again.links] == [(link.gtype, link.values) for link in loaded.links]


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        pytest.param("Deny", "deny", id="capital"),
        pytest.param("reject", "deny", id="synonym"),
        pytest.param("dney", "deny", id="swapped"),
        pytest.param("permit", "allow", id="permit"),
    ],
)
def test_unknown_effect_names_the_accepted_words(word: str, hint: str, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.id == "CSV-03-Deny")
    case.write(tmp_path)
    (tmp_path / "policy.csv").write_text(f"p, guest, bash, call, {word}\n", encoding="utf-8")
    with pytest.raises(PolicyError) as caught:
        load_policy_set(policies=["policy.csv"], model="model.conf", base_dir=tmp_path, request=case.templates)
    assert str(caught.value) == (
        f"policy.csv:1: eft: unknown effect {word!r}; write 'allow' or 'deny'; did you mean {hint!r}?"
    )


def test_two_names_one_blank_apart_are_reported_with_the_meant_one(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"policy\.csv:2: .*'role: admin'.*; did you mean 'role:admin'\?"):
        load(next(case for case in CASES if case.id.startswith("CSV-08")), tmp_path)


def test_rows_without_type_are_refused_never_skipped(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="did you mean 'p, chief, /cases, create'"):
        load(next(case for case in CASES if case.id.startswith("RF-11")), tmp_path)
