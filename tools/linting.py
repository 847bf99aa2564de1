"""What makes a tool hard to use right or easy to misuse, found in its schema and its description. Pure."""

import re
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import cast

from tools.arguments import JsonSchema, object_schema, options
from tools.catalog import Entry

ALIKE = 0.6
"""From how much of their words on (Sørensen–Dice, 0 to 1) two descriptions are taken to answer the same request."""

# The run says who it is for and acts for whom; an argument would let an agent say otherwise.
_WHO = re.compile(r"(customer|user|tenant|actor|agent|principal|run|on_behalf_of)(_(id|ids|email|name|number|key))?")
_ID = re.compile(r"(.*_)?ids?")
_CHOICE = re.compile(r"(.*_)?(type|kind|code|status|state|reason|category|currency|priority|language|channel|method)")
_UNBOUNDED = re.compile(r"(?<!\\)[+*]|\{\d+,\}")
_NOT_FOR = re.compile(r"\b(do not use|don't use|never use|not for|instead)\b", re.IGNORECASE)
_WORD = re.compile(r"[a-z]+")
_NOTHING = (
    "a all an and any are as at be before by for from has have if in into is it its no not of on one only or "
    "out run s some still that the their them there this to use was when where which while who with yet you "
)
_SAYS_NOTHING = frozenset(_NOTHING.split())
_SAME = {
    word: group[0]
    for group in (
        ("read", "list", "show", "get", "fetch", "find", "search", "look", "lookup", "return", "retrieve"),
        ("change", "update", "edit", "modify", "set", "correct"),
        ("cancel", "void", "abort", "stop"),
        ("send", "post", "submit"),
        ("make", "create", "add", "issue", "open"),
    )
    for word in group
}


def lint(entries: Iterable[Entry]) -> list[str]:
    """A line for each problem: file, field, and what is wrong."""
    found = list(entries)
    problems = [f"{entry.manifest_file}: {problem}" for entry in found for problem in _of_one(entry)]
    offered = [entry for entry in found if entry.manifest.published]
    for one, other in combinations(offered, 2):
        if one.manifest.writes == other.manifest.writes:
            shared = likeness(one.manifest.description, other.manifest.description)
            if shared >= ALIKE:
                problems.append(
                    f"{other.manifest_file}: description: answers the same request as {one.manifest.name}"
                    f" ({shared:.0%} of their words): say what each alone is for"
                )
    return problems


def likeness(one: str, other: str) -> float:
    """How much of what two descriptions say that their tools are for is the same, from 0 to 1: the share of words that
    both have, up to where they say what they are not for."""
    first, second = _purpose(one), _purpose(other)
    if not first or not second:
        return 0.0
    return 2 * len(first & second) / (len(first) + len(second))


def _of_one(entry: Entry) -> Iterator[str]:
    root = object_schema(entry.tool.arguments_model)
    yield from _object(root, root, "arguments")
    if entry.manifest.published and not _NOT_FOR.search(entry.manifest.description):
        yield "description: does not say what the tool is not for, and what to use instead"


def _object(root: JsonSchema, schema: JsonSchema, path: str) -> Iterator[str]:
    if schema.get("additionalProperties") is not False:
        yield f"{path}: takes fields that it does not name: forbid others (additionalProperties: false)"
    properties = cast("dict[str, JsonSchema]", schema.get("properties", {}))
    for name, each in properties.items():
        if _WHO.fullmatch(name):
            yield f"{path}.{name}: who a call is for is bound by the run, and is no argument"
        for option in options(root, each):
            yield from _value(root, option, f"{path}.{name}", name)


def _value(root: JsonSchema, schema: JsonSchema, path: str, name: str) -> Iterator[str]:
    if "enum" in schema or "const" in schema:
        return
    match schema.get("type"):
        case "string":
            yield from _text(schema, path, name)
        case "integer" | "number":
            low = "minimum" in schema or "exclusiveMinimum" in schema
            high = "maximum" in schema or "exclusiveMaximum" in schema
            if not (low and high):
                missing = " and ".join(end for end, there in (("minimum", low), ("maximum", high)) if not there)
                yield f"{path}: a number without {missing}"
        case "array":
            if "maxItems" not in schema:
                yield f"{path}: a list without maxItems"
            for option in options(root, cast("JsonSchema", schema.get("items", {}))):
                yield from _value(root, option, f"{path}[]", name)
        case "object":
            yield from _object(root, schema, path)
        case "boolean" | "null":
            return
        case _:
            yield f"{path}: takes anything: give it a type"


def _text(schema: JsonSchema, path: str, name: str) -> Iterator[str]:
    pattern = schema.get("pattern")
    if pattern is None and "format" not in schema:
        if _ID.fullmatch(name):
            yield f"{path}: an id without a pattern"
            return
        if _CHOICE.fullmatch(name):
            yield f"{path}: free text where an enum fits"
            return
    bounded = "maxLength" in schema or "format" in schema
    if not bounded and (pattern is None or _UNBOUNDED.search(str(pattern)) or not _is_anchored(str(pattern))):
        yield f"{path}: text without maxLength"


def _is_anchored(pattern: str) -> bool:
    return pattern.startswith("^") and pattern.endswith("$")


def _purpose(description: str) -> frozenset[str]:
    """The words, in their simplest form, of what a tool is for."""
    negative = _NOT_FOR.search(description)
    text = (description if negative is None else description[: negative.start()]).lower()
    words = (_stem(word) for word in _WORD.findall(text) if word not in _SAYS_NOTHING)
    return frozenset(_SAME.get(word, word) for word in words)


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            stem = word.removesuffix(ending)
            return stem if stem in _SAME or ending == "s" or f"{stem}e" not in _SAME else f"{stem}e"
    return word
