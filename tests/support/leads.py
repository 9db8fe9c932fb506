"""Lead agents of a real deployment: settings, a policy on disk, the local sandbox, the whole chain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.scripted import ScriptedChatModel, scripted

from remit.authz import load_config
from remit.harness import AgentOptions, Assembled, Services, assemble
from remit.runtime.config import load_app_config

EVERYTHING = """version: 1
roles:
  user:
    tools: {allow: "*"}
    sandbox: {allow: true}
"""


class Deployment:
    """Settings, a policy on disk, and agents made of them. Set ``REMIT_STATE_DIR`` first.

    Args:
        folder: Where the policy lies.
        roles: The text of `roles.yaml`.
        default_role: Of a caller who has none.
        sections: Of `remit.yaml`.
    """

    def __init__(
        self, folder: Path, roles: str = EVERYTHING, *, default_role: str = "user", rows: str = "", **sections: Any
    ) -> None:
        self.roles = folder / "roles.yaml"
        self.roles.write_text(roles, encoding="utf-8")
        self.policy = folder / "policy.csv"
        self.policy.write_text(rows or "# no single rules\n", encoding="utf-8")
        files = [str(self.roles), str(self.policy)]
        provider = {"use": "casbin", "config": {"policies": files}}
        self.authz = load_config(
            {"authorization": {"enabled": True, "default_role": default_role, "provider": provider}}
        )
        self.config = load_app_config({"sandbox": {"use": "local"}, **sections}, authz=self.authz)
        self.services = Services.from_config(self.config)

    def agent(self, *steps: Any, **options: Any) -> tuple[Assembled, ScriptedChatModel]:
        """An agent whose model does `steps`, and the model."""
        model = scripted(*steps)
        return assemble(self.services, AgentOptions(model=model, **options)), model

    def close(self) -> None:
        self.services.access.provider.close()


def who(role: str = "user", user: str | None = None, thread: str = "t1") -> dict[str, Any]:
    """The run context of somebody."""
    return {"user_id": user or f"{role}-1", "user_role": role, "thread_id": thread}


def written(folder: Path, pattern: str = "new.txt") -> list[str]:
    """Names of the files below `folder` that match."""
    return sorted(path.name for path in folder.rglob(pattern))
