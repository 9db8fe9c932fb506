"""From an operator's files to a `PolicySet`: everything is read and checked, and every problem reported at once."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from remit.authz.errors import PolicyError
from remit.providers.casbin.checks.links import place_members
from remit.providers.casbin.checks.policyset import check_set
from remit.providers.casbin.checks.shape import shape_of
from remit.providers.casbin.checks.table import Table
from remit.providers.casbin.files.csvfile import Sheet, read_csv
from remit.providers.casbin.files.findings import Findings
from remit.providers.casbin.files.model import parse_model, shipped_model
from remit.providers.casbin.files.requestform import resolve_templates
from remit.providers.casbin.files.textfile import read_text
from remit.providers.casbin.knownroles import foreign_roles, native_roles
from remit.providers.casbin.native import ROLE
from remit.providers.casbin.pauses import collector_at_rest
from remit.providers.casbin.rules import CasbinModel, PolicySet

_YAML = (".yaml", ".yml")


def load_policy_set(
    *,
    policies: Sequence[str | Path],
    model: str | Path | None,
    base_dir: Path,
    request: Sequence[str] | None = None,
    functions: Collection[str] = (),
    resources: Collection[str] = (),
) -> PolicySet:
    """Read and check a whole policy set. Blocking; 100,000 rows take some tenths of a second.

    Args:
        policies: Policy files in their order, ``.csv`` or ``.yaml``/``.yml``; relative to `base_dir`.
        model: A Casbin model file; None for remit's own model.
        request: One template per request column, for a model of the operator's own.
        functions: Names of matcher functions that the deployment adds.
        resources: Resource types that it asks about beside the built-in ones.

    Raises:
        PolicyError: Anything is wrong. It holds all problems, sorted; nothing of the set is in force.
    """
    with collector_at_rest():
        return _Loader(base_dir, functions, resources).load(policies, model, request)


class _Loader:
    def __init__(self, base_dir: Path, functions: Collection[str], resources: Collection[str]) -> None:
        self.base_dir, self.functions, self.resources = base_dir, functions, resources
        self.findings = Findings()
        self.sources: list[str] = []

    def load(
        self, policies: Sequence[str | Path], model_file: str | Path | None, request: Sequence[str] | None
    ) -> PolicySet:
        model = self.model(model_file)
        sheets = self.sheets(policies, model)
        if model is None:
            raise PolicyError(self.findings.problems())
        rules = [rule for sheet in sheets for rule in sheet.rules] if len(sheets) != 1 else sheets[0].rules
        links = [link for sheet in sheets for link in sheet.links]
        declared = {name for sheet in sheets for name in sheet.declared}
        complete = not self.findings.failed  # a refused row may have been the one that a later check misses
        if not rules and complete:
            name = str(policies[0]) if len(policies) == 1 else "policies"
            if declared:
                self.findings.warning("nothing-allowed", name, 0, "no rule allows anything", "allow something")
            else:
                self.findings.error("empty-policy", name, 0, "holds no rule", "write at least one")
        table = Table(model, rules, sheets[0].columns if len(sheets) == 1 else None)
        roles = native_roles(table, links, declared)
        if model.native:
            links = place_members(links, roles, self.findings) if complete else links
            roles |= {link.values[0] for link in links if link.values[0].startswith(ROLE)}
        objects = check_set(
            table,
            links,
            declared,
            self.findings,
            complete=complete,
            ascii_only=all(sheet.ascii for sheet in sheets),
            functions=self.functions,
            resources=self.resources,
        )
        templates = resolve_templates(model, request, objects, self.findings)
        if not model.native and not self.findings.failed:
            roles = foreign_roles(table, links, templates)
        if self.findings.failed:
            raise PolicyError(self.findings.problems())
        return PolicySet(
            model=model,
            rules=tuple(rules),
            links=tuple(links),
            roles=frozenset(roles),
            problems=self.findings.problems(),
            sources=tuple(self.sources),
            request=templates,
        )

    def model(self, model_file: str | Path | None) -> CasbinModel | None:
        if model_file is None:
            return shipped_model()
        text = self.text(model_file)
        return None if text is None else parse_model(text, str(model_file), self.findings, self.functions)

    def sheets(self, policies: Sequence[str | Path], model: CasbinModel | None) -> list[Sheet]:
        """What every policy file states, in their order."""
        if not policies:
            self.findings.error("no-policies", "policies", 0, "no policy file is named", "name at least one")
        free_text = [] if model is None else ["cond"] if model.native else shape_of(model.tree).rules
        sheets: list[Sheet] = []
        seen: set[Path] = set()
        for policy in policies:
            name = str(policy)
            path = self.path(policy)
            if path in seen:
                self.findings.error("repeated-file", name, 0, "is named twice in 'policies'", "name it once")
                continue
            seen.add(path)
            if path.suffix not in (*_YAML, ".csv"):
                self.findings.error("file-type", name, 0, "is no policy file", "name a .csv, .yaml or .yml file")
                continue
            text = self.text(policy)
            if text is None or model is None:
                continue
            if path.suffix == ".csv":
                sheets.append(read_csv(text, name, model, self.findings, free_text=free_text))
            elif model.native:
                from remit.providers.casbin.files.rolesfile import read_roles  # YAML is slow to import

                sheets.append(read_roles(text, name, self.findings))
            else:
                advice = "write policy.csv, or leave 'model' out of the configuration"
                message = f"roles are for remit's own model, and {model.file!r} is another one"
                self.findings.error("roles-need-native", name, 0, message, advice)
        return sheets

    def path(self, name: str | Path) -> Path:
        return Path(os.path.abspath(self.base_dir / name))  # not resolve(): a watch must see the link, not its target

    def text(self, name: str | Path) -> str | None:
        path = self.path(name)
        self.sources.append(str(path))
        return read_text(path, str(name), self.findings)
