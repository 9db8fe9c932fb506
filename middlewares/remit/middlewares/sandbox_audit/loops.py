"""Loops that never end."""

from __future__ import annotations

from remit.middlewares.sandbox_audit.tree import Group, Simple


def is_endless(node: Group) -> bool:
    """Whether the loop never ends and starts something beside itself each time."""
    tests = [item.node for item in node.head]
    head = tests[0] if len(tests) == 1 and isinstance(tests[0], Simple) else None
    test = spelled(head) if head is not None else ""
    always = node.endless or test.strip() in (("true", ":") if node.kind == "while" else ("false",))
    if not always and not (node.kind == "while" and not node.head):
        return False
    waiting, found, waits = [*node.bodies], False, False
    while waiting:
        for item in waiting.pop():
            found |= item.background
            inner = item.node
            if isinstance(inner, Group):
                waiting.extend([inner.head, *inner.bodies])
            elif isinstance(inner, Simple):
                waits |= spelled(inner).partition(" ")[0] in ("wait", "break", "read", "exit", "return")
    return found and not waits


def spelled(node: Simple) -> str:
    """The words of a command as they are written."""
    if node.plain is not None:
        return " ".join(text.text for text in node.plain)
    return " ".join("".join(piece.text for piece in word.pieces) for word in node.words)
