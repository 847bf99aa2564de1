"""Loading a policy: files and folders, and a version that is that of the meaning."""

from dataclasses import replace
from pathlib import Path

import pytest

from policy.document import format_duration, parse_duration
from policy.load import load_policy
from policy.problems import PolicyError
from tests.policy.refunds import Write
from tests.policy.texts import HEAD, TAIL, VOCABULARIES, problems, rule


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "must be a mapping of names"),
        ("- a", "must be a mapping of names"),
        ("a: [", "line 2, column 1: did not find expected node content"),
        ("name: a\nname: b", "line 2, column 1: name is given twice"),
        ("1: a", "line 1, column 1: a name must be text"),
        ("[a]: b", "line 1, column 1: a name must be text"),
        ("a: !!python/name:os.system x", "line 1, column 4: could not determine a constructor"),
        ("a: !!binary aGk=", "holds something that is neither text, a whole number, a list nor a mapping of names"),
        ("a: &a [*a]", "holds something that is neither text, a whole number, a list nor a mapping of names"),
        ("a: " + "[" * 2000, "line 1, column 1003: exceeded maximum nesting depth"),
        (
            "a: " + "[" * 500 + "]" * 500,
            "holds something that is neither text, a whole number, a list nor a mapping of names",
        ),
        ("a: \0", "is not YAML"),
    ],
)
def test_files(write: Write, text: str, problem: str) -> None:
    found = problems(write(text))
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_all_problems_are_told_at_once(write: Write) -> None:
    assert problems(write(HEAD.replace("name: test", "name: T!") + "    otherwise: maybe\n    x: 1\n")) == [
        "name: must match ^[a-z][a-z0-9_-]{1,62}$",
        "issue_refund / otherwise: must be 'free', 'notify', 'hold' or 'refuse'",
        "issue_refund / x: there is no such field",
    ]


def test_a_tool_nobody_has(write: Write) -> None:
    assert problems(write(HEAD.replace("issue_refund", "issue_refnud") + TAIL)) == [
        "issue_refnud: there is no such tool; there is cancel_order, issue_refund, lookup_orders"
    ]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert problems(tmp_path / "nope.yaml") == ["cannot be read: No such file or directory"]
    assert problems(tmp_path) == ["the folder holds no *.yaml file"]
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"name: caf\xe9")
    assert problems(latin) == ["is not UTF-8 text"]


def test_without_a_vocabulary_totals_and_thresholds_are_still_known(write: Write) -> None:
    lines = "hold: finance\nwhen: facts.anything && totals.nope > 1\nbecause: b"
    assert problems(write(rule(lines)), checked=False) == [
        "issue_refund / one / when: totals.nope is not known; there is nothing under totals"
    ]


def folder(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def test_a_folder_is_one_policy(tmp_path: Path, write: Write) -> None:
    one = f"name: test\ndefaults: {{approvers: finance, deadline: 24h}}\ntools:\n  issue_refund:\n{TAIL}"
    both = load_policy(write(f"{one}  cancel_order:\n    otherwise: free\n"), VOCABULARIES).version
    (tmp_path / "policy.yaml").unlink()
    folder(tmp_path, a="name: test\ntools:\n  cancel_order:\n    otherwise: free\n", b=one)
    assert load_policy(tmp_path, VOCABULARIES).version == both


def test_a_folder_that_disagrees(tmp_path: Path) -> None:
    one = HEAD + TAIL
    folder(tmp_path, a=one, b=one.replace("name: test", "name: other"))
    assert problems(tmp_path) == [
        "name: is other, another file of the policy says test",
        "defaults: another file of the policy has them already",
        f"issue_refund: is in {tmp_path / 'a.yaml'} already",
    ]


def test_defaults_are_needed(write: Write) -> None:
    text = "\n".join(line for line in (HEAD + TAIL).splitlines() if not line.startswith("defaults"))
    assert problems(write(text)) == ["defaults: is missing"]


WHEN = "when: args.amount_cents > 1"
PLAIN = rule(f"hold: finance\n{WHEN}\nbecause: b\ndeadline: 24h")


@pytest.mark.parametrize(
    "same",
    [
        PLAIN,
        "# a comment\n" + PLAIN,
        PLAIN.replace("name: test\n", "") + "name: test\n",
        PLAIN.replace(
            "hold: finance\n        when: args.amount_cents > 1", "when: args.amount_cents > 1\n        hold: finance"
        ),
        PLAIN.replace("24h", "1440m"),
        PLAIN.replace(TAIL, TAIL + "    limits: []\n"),
        PLAIN.replace("because: b", "because: 'b'"),
    ],
)
def test_the_version_is_that_of_the_meaning(write: Write, same: str) -> None:
    assert load_policy(write(same), VOCABULARIES).version == load_policy(write(PLAIN), VOCABULARIES).version


@pytest.mark.parametrize(
    "other",
    [
        PLAIN.replace("> 1", "> 2"),
        PLAIN.replace("notify", "free"),
        PLAIN.replace("deadline: 24h\n", "deadline: 25h\n", 1),
        PLAIN.replace("approvers: finance", "approvers: risk"),
        PLAIN.replace("because: b", "because: c"),
        PLAIN.replace("name: test", "name: test2"),
    ],
)
def test_another_meaning_has_another_version(write: Write, other: str) -> None:
    first = load_policy(write(PLAIN), VOCABULARIES).version
    assert first.startswith("test@")
    assert len(first) == len("test@") + 12
    assert load_policy(write(other), VOCABULARIES).version != first


def test_versions_outlive_releases(write: Write) -> None:
    """A field that is added to policies later, with a default, must not give every policy a new version."""
    text = HEAD + "    limits: [{name: cap, per: run, max: 1}]\n" + TAIL
    assert load_policy(write(text), VOCABULARIES).version == "test@a383b746e686"


def test_the_order_of_rules_is_meaning(write: Write) -> None:
    rules = [f"{{name: {name}, hold: finance, when: 'true', because: b}}" for name in ("one", "two")]
    text = HEAD + "    rules: [{}, {}]\n" + TAIL
    first = load_policy(write(text.replace("{}, {}", ", ".join(rules))), VOCABULARIES)
    second = load_policy(write(text.replace("{}, {}", ", ".join(reversed(rules)))), VOCABULARIES)
    assert first.version != second.version


@pytest.mark.parametrize(("text", "seconds"), [("30m", 1_800), ("24h", 86_400), ("7d", 604_800), ("90m", 5_400)])
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    "text", ["", "0m", "1", "1s", "h", "-1h", "1.5h", "1h30m", " 1h", "1H", "٣h", 3600, None, True]
)
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match="write a duration"):
        parse_duration(text)


def test_the_vocabulary_follows_references_and_what_may_be_missing() -> None:
    names = VOCABULARIES["issue_refund"].names
    assert names["facts.previous"] == "object"
    assert names["facts.previous.status"] == "text"
    assert names["facts.order.nickname"] == "text"
    assert names["args.note"] == "text"


@pytest.mark.parametrize(
    ("roles", "unfit"),
    [
        ((), []),
        (("finance", "leads"), []),
        (("finance",), ["one: asks leads; the tool's manifest lets finance decide"]),
        (
            ("treasury",),
            [
                "defaults: asks finance; the tool's manifest lets treasury decide",
                "one: asks finance, leads; the tool's manifest lets treasury decide",
            ],
        ),
    ],
)
def test_only_those_are_asked_whom_the_manifest_lets_decide(
    write: Write, roles: tuple[str, ...], unfit: list[str]
) -> None:
    file = write(rule("hold: finance\nwhen: args.amount_cents > 1\nbecause: it is much\nescalates_to: leads"))
    known = VOCABULARIES | {"issue_refund": replace(VOCABULARIES["issue_refund"], roles=roles)}
    try:
        load_policy(file, known)
        found: list[str] = []
    except PolicyError as error:
        found = [f"{each.where.removeprefix('issue_refund / ')}: {each.what}" for each in error.problems]
    assert found == unfit


def test_a_tool_that_the_policy_does_not_name_is_not_held_for_others_than_its_manifest_says(write: Write) -> None:
    known = VOCABULARIES | {"cancel_order": replace(VOCABULARIES["cancel_order"], roles=("treasury",))}
    with pytest.raises(PolicyError, match="cancel_order / defaults: asks finance"):
        load_policy(write(HEAD + TAIL), known)
