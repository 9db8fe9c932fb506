"""Names that look like, sort like or normalise to a granted name, and are another name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from remit.authz.testing.cases import Body, add, case
from remit.authz.testing.session import Session, caught
from remit.authz.testing.world import ACCENTED, Question

# Every one of these is not `search`, which a reader may call.
TWINS: Final[tuple[tuple[str, str], ...]] = (
    ("upper-case", "SEARCH"),
    ("capitalised", "Search"),
    ("space-behind", "search "),
    ("space-in-front", " search"),
    ("newline-behind", "search\n"),
    ("carriage-return-behind", "search\r\n"),
    ("tab-behind", "search\t"),
    ("no-break-space-behind", "search\u00a0"),
    ("line-separator-behind", "search\u2028"),
    ("null-behind", "search\x00"),
    ("null-and-more", "search\x00.txt"),
    ("zero-width-space-inside", "sea\u200brch"),
    ("zero-width-joiner-behind", "search\u200d"),
    ("byte-order-mark-in-front", "\ufeffsearch"),
    ("soft-hyphen-inside", "sea\u00adrch"),
    ("right-to-left-override", "\u202esearch"),
    ("variation-selector-behind", "search\ufe0f"),
    ("combining-mark-behind", "search\u0301"),
    ("cyrillic-letter", "s\u0435arch"),
    ("greek-letter", "se\u03b1rch"),
    ("long-s", "\u017fearch"),
    ("full-width", "\uff53\uff45\uff41\uff52\uff43\uff48"),
    ("mathematical", "\U0001d42c\U0001d41e\U0001d41a\U0001d42b\U0001d41c\U0001d421"),
    ("dot-in-front", "./search"),
    ("dots-in-front", "../search"),
    ("slash-behind", "search/"),
    ("path-to-another", "search/../write_file"),
    ("path-from-another", "write_file/../search"),
    ("prefix-of-the-type", "tool:search"),
    ("server-in-front", "evil/search"),
    ("server-behind", "search@evil"),
    ("star", "*"),
    ("two-stars", "**"),
    ("star-behind", "sear*"),
    ("star-behind-it-all", "search*"),
    ("question-mark", "searc?"),
    ("character-class", "[s]earch"),
    ("braces", "{search,write_file}"),
    ("regular-expression", ".*"),
    ("anchored-expression", "^search$"),
    ("alternatives", "search|write_file"),
    ("list", "search,write_file"),
    ("list-with-spaces", "search, write_file"),
    ("quoted", '"search"'),
    ("percent-encoded", "%73earch"),
    ("html-encoded", "&#115;earch"),
    ("escaped", "\\x73earch"),
    ("statement-behind", "search' OR '1'='1"),
    ("template", "{{search}}"),
    ("dollar", "${search}"),
    ("dash-for-underscore", "read-file"),
    ("without-underscore", "readfile"),
    ("dot-for-underscore", "read.file"),
    ("cut-short", "searc"),
    ("one-letter-more", "searchx"),
    ("twice", "searchsearch"),
    ("attribute", "__class__"),
    ("prototype", "toString"),
)


def _refusing_twin(name: str) -> Body:
    def body(s: Session) -> Iterator[str]:
        yield from s.expect_refusal(Question("reader", name))
        yield from _not_shown(s, "reader", name)

    return body


def _not_shown(s: Session, role: str, name: str) -> Iterator[str]:
    """The twin is not kept among good names. A filter that raises hides everything, which is safe."""
    shown, error = caught(s.filter, role, ["search", name])
    if error is None and name in shown:
        yield f"filter_resources: role {role!r}: {name!a} was kept"


for _id, _name in TWINS:
    add(f"names/{_id}", f"takes {_name!a} for the name it is", _refusing_twin(_name))


@case("names/decomposed")
def decomposed(s: Session) -> Iterator[str]:
    """keeps a decomposed name apart from the composed one that a rule mentions"""
    yield from _refusing_twin("cafe\u0301_search")(s)
    yield from s.expect(Question("reader", ACCENTED), "allow")


@case("names/bare")
def bare(s: Session) -> Iterator[str]:
    """keeps a name without its accent apart from the accented one"""
    yield from _refusing_twin("cafe_search")(s)


@case("names/long")
def long(s: Session) -> Iterator[str]:
    """refuses very long names, those that begin or end like a granted one too"""
    for name in ("x" * 100_000, "search" + "x" * 100_000, "x" * 100_000 + "search", "search" * 20_000, "*" * 20_000):
        yield from s.expect_refusal(Question("reader", name))


@case("names/of-a-hostile-pattern")
def of_a_hostile_pattern(s: Session) -> Iterator[str]:
    """is not slowed down to a standstill by names made for backtracking"""
    for name in ("a" * 5_000 + "!", "(" * 500 + "a" * 500, "[a-" * 200, "/" * 5_000):
        yield from s.expect_refusal(Question("reader", name))


@case("names/empty")
def empty(s: Session) -> Iterator[str]:
    """never shows an empty name or one of white space alone"""
    for name in ("", " ", "\n", "\u200b"):
        yield from _not_shown(s, "reader", name)
        yield from _not_shown(s, "admin", name)


@case("names/deny-holds-for-its-own-name")
def deny_holds(s: Session) -> Iterator[str]:
    """does not fall from a denied name to an allowed twin of it"""
    for name in ("wipe_disk", "WIPE_DISK", "wipe_disk ", "wipe\u200b_disk", "wipe-disk", "w\u0456pe_disk"):
        yield from s.expect_refusal(Question("admin", name))
        yield from _not_shown(s, "admin", name)
