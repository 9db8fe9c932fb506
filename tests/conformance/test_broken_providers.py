"""The kit is worth what it finds: every provider here is wrong in a known way, and the kit must say so."""

from __future__ import annotations

import pytest
from tests.support import broken_providers as broken
from tests.support.world_provider import WorldProvider

from remit.authz.testing import NotConforming, Report, World, all_cases, check_provider


def report_on(kind: type[WorldProvider], *only: str, world: World | None = None) -> Report:
    world = world or World()
    cases = [case for case in all_cases() if not only or case.id in only]
    return check_provider(lambda: kind(world.rules), world=world, cases=cases)


def failed(report: Report) -> set[str]:
    return {result.case.id for result in report.failed}


def test_a_correct_provider_passes_every_case_that_applies() -> None:
    report = report_on(WorldProvider)
    assert report.failed == ()
    assert report.ok
    assert len(report.passed) >= 200
    # what is left out is left out because the provider offers no such capability, and says which
    assert {complaint for result in report.left_out for complaint in result.complaints} == {
        "the provider does not offer sabotage",
        "the provider does not offer policy_version",
        "the provider does not offer validate_role",
        "the provider does not offer explain",
        "the provider does not offer aclose",
    }


def test_filter_that_adds_and_async_that_differs() -> None:
    report = report_on(broken.LooseFilterProvider)
    found = failed(report)
    assert found >= {
        "decisions/admin-wipe-deny-beats-allow",
        "decisions/blocked-search-deny-beats-allow",
        "decisions/writer-mail",
        "arguments/amount-above",
        "arguments/amount-missing",
        "arguments/topic-that-is-denied",
        "names/space-behind",  # shown, though never allowed
        "visibility/reader-sees",
        "visibility/admin-sees",
        "visibility/order-kept",
        "visibility/duplicates-kept",
        "visibility/nothing-asked",
        "visibility/nothing-granted",
        "visibility/adds-nothing",
        "visibility/equals-authorize",
        "visibility/hides-what-never-is-allowed",
        "agreement/sync-and-async-writer",
        "agreement/sync-and-async-admin",
        "agreement/async-batch",
        "shape/ask-carries-approval",
    }
    # it decides rightly where nothing denies, asks or depends on arguments, and the kit does not say otherwise
    assert found.isdisjoint({"decisions/reader-search", "decisions/reader-write", "shape/decision-type"})
    assert not report.ok


def test_truthy_answers_allow_on_error_and_no_case() -> None:
    report = report_on(broken.CarelessProvider)
    assert failed(report) >= {
        "shape/decision-type",
        "shape/strict-booleans",
        "decisions/reader-search",  # a truthy answer is no allow
        "decisions/reader-write",  # and an empty string no denial
        "decisions/role-missing",
        "decisions/role-in-upper-case",
        "decisions/role-capitalised",
        "decisions/action-in-upper-case",
        "decisions/resource-in-upper-case",
        "names/upper-case",
        "names/capitalised",
        "failures/no-request",
        "agreement/large-batch",
    }


@pytest.mark.parametrize(
    ("kind", "cases"),
    [
        (broken.TrimmingProvider, ["names/space-behind", "names/newline-behind", "names/zero-width-space-inside"]),
        (broken.PrefixProvider, ["names/one-letter-more", "names/long", "names/twice"]),
        (broken.ResourceBlindProvider, ["decisions/resource-of-another-name", "decisions/action-star"]),
        (broken.UserIsRoleProvider, ["decisions/user-called-like-a-role", "decisions/user-called-like-a-writer"]),
        (broken.InternalMayAllProvider, ["decisions/internal-is-no-role"]),
        (broken.CacheWithoutRoleProvider, ["purity/role-of-the-moment", "waiting/tasks"]),
        (broken.CacheWithoutArgumentsProvider, ["purity/arguments-of-the-moment"]),
        (broken.CoercingProvider, ["arguments/amount-as-text", "arguments/amount-as-a-truth-value"]),
        (broken.ForgivingDenyProvider, ["arguments/topic-missing", "arguments/topic-null"]),
        (broken.AllowsAskProvider, ["decisions/writer-mail", "shape/ask-carries-approval"]),
        (broken.ForeignObligationProvider, ["shape/no-surprise-obligations"]),
        (broken.MutatingFilterProvider, ["purity/candidates"]),
        (broken.MutatingProvider, ["purity/request"]),
        (broken.SetFilterProvider, ["shape/filter-type", "visibility/order-kept"]),
        (broken.SortingFilterProvider, ["visibility/order-kept", "visibility/shuffled"]),
        (broken.DeduplicatingFilterProvider, ["visibility/duplicates-kept", "visibility/same-name-thousands-of-times"]),
        (broken.TruncatingFilterProvider, ["visibility/huge"]),
        (
            broken.TimidFilterProvider,
            ["visibility/asked-is-visible", "visibility/covers-every-argument-set"],
        ),
        (broken.ShuffledBatchProvider, ["agreement/batch", "agreement/large-batch"]),
        (broken.LossyBatchProvider, ["agreement/batch", "agreement/large-batch"]),
        (broken.HalfBatchProvider, ["shape/pairs"]),
        (broken.BlockingLoopProvider, ["waiting/loop-keeps-ticking", "waiting/claims-not-to-block"]),
        (broken.SwallowingProvider, ["waiting/cancelled"]),
        (broken.OneLoopProvider, ["waiting/second-loop", "waiting/loops-in-threads"]),
        (broken.RacingProvider, ["waiting/threads"]),
        (broken.NewVersionProvider, ["capabilities/policy-version"]),
        (broken.EveryRoleProvider, ["capabilities/roles-that-do-not-exist"]),
        (broken.WrongExplanationProvider, ["capabilities/explains-what-it-decides"]),
        (broken.ClosesOnceProvider, ["capabilities/closes-twice"]),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_each_single_fault_is_found(kind: type[WorldProvider], cases: list[str]) -> None:
    assert failed(report_on(kind, *cases)) == set(cases)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (broken.FailingOpenProvider, {"failures/broken-engine-raises", "failures/broken-engine-allows-nothing"}),
        (broken.FailingClosedProvider, {"failures/broken-engine-raises"}),
    ],
)
def test_a_broken_engine_must_raise(kind: type[WorldProvider], wrong: set[str]) -> None:
    def sabotage(provider: WorldProvider) -> None:
        provider.rules.clear()

    cases = [case for case in all_cases() if "broken-engine" in case.id]
    report = check_provider(lambda: kind(World().rules), sabotage=sabotage, cases=cases)
    assert failed(report) == wrong


def test_a_fault_in_a_capability_that_the_world_excludes_is_not_looked_for() -> None:
    world = World(asks=False, conditions=False, resources=("tool",))
    report = report_on(broken.AllowsAskProvider, world=world)
    assert report.ok
    left_out = {result.case.id: result.complaints for result in report.left_out}
    assert left_out["decisions/writer-mail"] == ("the world was declared without asks",)
    assert left_out["arguments/amount-below"] == ("the world was declared without conditions",)
    assert left_out["decisions/model-use"] == ("the world was declared without model",)


def test_the_report_says_what_is_wrong_and_can_be_raised() -> None:
    report = report_on(broken.LooseFilterProvider, "visibility/order-kept", "decisions/reader-search")
    text = str(report)
    assert "visibility/order-kept: keeps the order of the candidates" in text
    assert "role 'writer' sees ['read_file', 'search', 'send_mail', 'transfer', 'write_file']" in text
    assert text.endswith("LooseFilterProvider 'loose-filter' does not conform: 1 passed, 1 failed, 0 left out")
    with pytest.raises(NotConforming, match="order-kept"):
        report.raise_for_failures()


def test_a_report_without_a_case_is_no_success() -> None:
    assert not check_provider(lambda: WorldProvider(World().rules), cases=[]).ok


async def test_the_kit_refuses_to_run_inside_a_loop() -> None:
    with pytest.raises(RuntimeError, match="running event loop"):
        check_provider(lambda: WorldProvider(World().rules))
