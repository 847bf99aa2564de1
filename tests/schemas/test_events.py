"""Every version of every event that was ever written: its shape is kept, and it is still read."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from docs import generate
from schemas.canonical import canonical
from schemas.upcasting import MODELS, UPCASTS, UnknownEvent, read_event, upcast

SHAPES = generate.DOCS / "events"
SAMPLES = Path(__file__).parent / "samples"
WRITTEN = sorted(path.stem for path in SHAPES.glob("*.json"))


def _of(name: str) -> tuple[str, int]:
    """`call.settled.v2` as type and version."""
    type_, _, version = name.rpartition(".v")
    return type_, int(version)


def _sample(name: str) -> Any:
    return json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))


def test_the_shape_of_a_version_never_changes() -> None:
    assert generate.changed_schemas() == []


def test_every_current_version_has_its_schema() -> None:
    missing = [name for name in generate.event_schemas() if not (generate.DOCS / name).exists()]
    assert missing == [], "run `make docs`"


def test_a_changed_shape_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "DOCS", tmp_path)
    (tmp_path / "events").mkdir()
    for name, content in generate.event_schemas().items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert generate.changed_schemas() == []
    changed = tmp_path / "events" / "approval.expired.v1.json"
    changed.write_text(changed.read_text().replace("approval_id", "approval"))
    (sentence,) = generate.changed_schemas()
    assert "approval.expired.v1.json" in sentence
    assert "next version" in sentence
    before = changed.read_text()
    with pytest.raises(SystemExit, match="next version"):
        generate.main()
    assert changed.read_text() == before


def test_every_version_has_a_kept_sample() -> None:
    samples = {path.stem for path in SAMPLES.glob("*.json")}
    assert samples == set(WRITTEN), "a body of every version, as it was stored, belongs into tests/schemas/samples/"


def test_versions_have_no_gap_and_each_old_one_its_upcast() -> None:
    written = [_of(name) for name in WRITTEN]
    assert {type_ for type_, _ in written} == set(MODELS)
    for type_, model in MODELS.items():
        assert [version for each, version in sorted(written) if each == type_] == list(range(1, model.version + 1))
    assert set(UPCASTS) == {(type_, version) for type_, version in written if version < MODELS[type_].version}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_kept_sample_has_its_shape_and_is_read_as_the_current_version(name: str) -> None:
    type_, version = _of(name)
    body = _sample(name)
    Draft202012Validator(json.loads((SHAPES / f"{name}.json").read_text(encoding="utf-8"))).validate(body)
    event = read_event(type_, version, canonical(body))
    assert (event.type, type(event)) == (type_, MODELS[type_])
    said = event.model_dump(mode="json")
    if version == MODELS[type_].version:
        assert said == body
    else:
        _says_no_more(said, body)


def _says_no_more(said: Any, body: Any) -> None:
    """What was said is still said; what was not, is None or empty."""
    if not isinstance(body, dict):
        assert said == body
        return
    assert not any(said[field] for field in said.keys() - body.keys())
    for field, value in body.items():
        _says_no_more(said[field], value)


def test_steps_follow_one_another() -> None:
    steps: Any = {
        ("a", 1): lambda body: body | {"two": None},
        ("a", 2): lambda body: body | {"three": body["two"]},
        ("b", 1): lambda body: {},
    }
    assert upcast("a", 1, {"one": 1}, steps) == {"one": 1, "two": None, "three": None}
    assert upcast("a", 2, {"two": 2}, steps) == {"two": 2, "three": 2}
    assert upcast("a", 3, {"kept": 1}, steps) == {"kept": 1}


@pytest.mark.parametrize(("type_", "version"), [("call.imagined", 1), ("call.settled", 99)])
def test_what_a_newer_release_wrote_is_no_event_of_this_one(type_: str, version: int) -> None:
    with pytest.raises(UnknownEvent, match=re.escape(f"{type_} of version {version}")):
        read_event(type_, version, b"{}")


def test_a_body_of_another_shape_is_not_read() -> None:
    body = _sample("approval.expired.v1")
    with pytest.raises(ValidationError):
        read_event("approval.expired", 1, canonical({**body, "more": 1}))
