from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from remit.authz.testing import World, all_cases

ROOT = Path(__file__).resolve().parents[2]


def test_the_kit_can_be_imported_without_pytest() -> None:
    code = "import remit.authz.testing as t, sys; t.World(); sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_importing_the_decision_layer_imports_neither_kit_nor_pytest() -> None:
    code = "import remit.authz, sys; sys.exit(any(m in sys.modules for m in ('pytest', 'remit.authz.testing')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_case_has_a_promise_and_a_family() -> None:
    cases = all_cases()
    assert len(cases) >= 200
    assert all(case.title and "/" in case.id for case in cases)
    assert {case.family for case in cases} == {
        "shape", "decisions", "arguments", "names", "visibility", "agreement", "purity", "waiting", "failures",
        "capabilities",
    }  # fmt: skip


def test_the_world_can_be_printed() -> None:
    text = str(World())
    assert "deny  admin    tool:call wipe_disk\n" in text
    assert "allow writer   tool:call transfer when args.amount <= 100\n" in text
    assert "send_mail" not in str(World(asks=False))
    assert "transfer" not in str(World(conditions=False))
    assert "model" not in str(World(resources=("tool", "route")))


@pytest.mark.parametrize("resources", [("model",), ("tool", "galaxy"), "tool", ()])
def test_a_world_without_tools_or_with_strange_resources_is_refused(resources: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="resources must hold 'tool'"):
        World(resources=resources)


CONTRACTS = """
import pytest
from remit.authz.testing import ProviderContract, World
from tests.support.broken_providers import FailingOpenProvider, ShuffledBatchProvider

class TestShuffled(ProviderContract):
    world = World(asks=False)

    @pytest.fixture
    def provider(self):
        return ShuffledBatchProvider(self.world.rules)

class TestFailingOpen(ProviderContract):
    @pytest.fixture
    def provider(self):
        return FailingOpenProvider(self.world.rules)

    def sabotage(self, provider):
        provider.rules.clear()

class TestForgotten(ProviderContract):
    pass
"""


def test_the_contract_class_fails_what_the_kit_fails(tmp_path: Path) -> None:
    (tmp_path / "test_contracts.py").write_text(CONTRACTS)
    result = tmp_path / "result.xml"
    only = "Shuffled and agreement or FailingOpen and broken-engine or Forgotten and reader-search"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", only, "--rootdir", str(tmp_path)]
    command += [f"--override-ini=pythonpath={ROOT}", f"--junitxml={result}", str(tmp_path)]
    run = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)

    def those(what: str) -> set[str]:
        tests = ElementTree.parse(result).iter("testcase")  # noqa: S314 - written by our own child process
        found = [test for test in tests if test.find(what) is not None]
        return {f"{test.get('classname', '').rpartition('.')[2]} {test.get('name')}" for test in found}

    assert those("failure") == {
        "TestShuffled test_conforms[agreement/batch]",
        "TestShuffled test_conforms[agreement/large-batch]",
        "TestShuffled test_conforms[agreement/batch-of-one-bad-question]",
        "TestFailingOpen test_conforms[failures/broken-engine-raises]",
        "TestFailingOpen test_conforms[failures/broken-engine-allows-nothing]",
    }
    assert those("error") == {"TestForgotten test_conforms[decisions/reader-search]"}
    assert "must override the fixture `provider`; its world is:" in run.stdout
    assert "keeps a thousand answers in the order of their questions" in run.stdout
