"""The outcome of policy tests as JUnit XML, which build servers read."""

from __future__ import annotations

import re
from itertools import groupby
from xml.etree import ElementTree  # writes only

from remit.authz.tooling.testrun import Outcome, RunReport

# Characters that XML 1.0 cannot carry, not even escaped.
_UNSPEAKABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: RunReport) -> str:
    """An XML document: a suite per file, a case per test, one failure per case that names every unmet expectation."""
    root = ElementTree.Element("testsuites", name="remit test")
    tests = failures = 0
    for file, in_file in groupby(report.outcomes, key=lambda outcome: outcome.test.file):
        suite = ElementTree.SubElement(root, "testsuite", name=_clean(file))
        count = failed = 0
        for _, of_test in groupby(in_file, key=lambda outcome: outcome.test.name):
            count += 1
            failed += _case(suite, file, list(of_test))
        suite.attrib.update(tests=str(count), failures=str(failed), errors="0", skipped="0")
        tests, failures = tests + count, failures + failed
    root.attrib.update(tests=str(tests), failures=str(failures), errors="0", time=f"{report.seconds:.3f}")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, file: str, outcomes: list[Outcome]) -> bool:
    test = outcomes[0].test
    case = ElementTree.SubElement(
        suite, "testcase", name=_clean(test.name), classname=_clean(file), file=_clean(file), line=str(test.line)
    )
    unmet = [o for o in outcomes if o.failure is not None]
    if unmet:
        lines = [f"{file}:{o.expectation.line}: {o.expectation.asked}: {o.failure}" for o in unmet]
        failure = ElementTree.SubElement(case, "failure", message=_clean(lines[0]), type="expectation")
        failure.text = _clean("\n".join(lines))
    return bool(unmet)


def _clean(text: str) -> str:
    return _UNSPEAKABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
