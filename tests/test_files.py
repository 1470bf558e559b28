"""Files: written completely or not at all; values that do not fit are named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from stmg.errors import DataError, SettingsError
from stmg.files import atomic_path, build_dataclass, path_inside, quote, read_mapping, write_atomically


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    write_atomically(tmp_path / "one.bin", b"first")
    write_atomically(tmp_path / "one.bin", b"second")
    assert (tmp_path / "one.bin").read_bytes() == b"second"
    assert [path.name for path in tmp_path.iterdir()] == ["one.bin"]


@pytest.mark.parametrize("error", [OSError, ValueError, KeyboardInterrupt])
def test_after_an_error_the_old_file_is_as_it_was_and_nothing_else_is_there(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "weights.pt"
    path.write_bytes(b"old")

    def fail_half_way() -> None:
        with atomic_path(path) as part:
            part.write_bytes(b"half of the n")
            raise error

    with pytest.raises(error):
        fail_half_way()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_temporary_path_is_hidden_of_the_same_kind_and_its_own(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "graph.xml") as one, atomic_path(tmp_path / "graph.xml") as two:
        assert one != two
        assert {one.parent, two.parent} == {tmp_path}
        assert one.name.startswith(".")
        assert one.suffix == ".xml"
        one.write_bytes(b"one")
        two.write_bytes(b"two")
        assert not (tmp_path / "graph.xml").exists()
    assert (tmp_path / "graph.xml").read_bytes() == b"one"


def test_if_nothing_is_written_nothing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "cache.bin").write_bytes(b"old")
    with atomic_path(tmp_path / "cache.bin"):
        pass
    assert (tmp_path / "cache.bin").read_bytes() == b"old"


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1
    kind: Literal["sgd", "adamw"] = "sgd"


@dataclass(frozen=True)
class Outer:
    name: str = ""
    steps: int = 1
    flip: bool = True
    limit: int | None = None
    size: tuple[int, int] = (1, 2)
    stages: tuple[float, ...] = ()
    inner: Inner = field(default_factory=Inner)


class Span(NamedTuple):
    first: int
    last: int = 9


@dataclass(frozen=True)
class Named:
    spans: tuple[Span, ...]
    by_name: Mapping[str, Span]
    key: str | int | None = None
    anything: object = None


def test_named_tuples_are_read_by_name_or_in_order() -> None:
    content = {"spans": [[1, 2], {"first": 3}], "by_name": {"a": [4, 5]}, "key": 7, "anything": [1, {"b": None}]}
    assert build_dataclass(Named, content) == Named((Span(1, 2), Span(3, 9)), {"a": Span(4, 5)}, 7, [1, {"b": None}])
    for wrong, message in (([1], "is a list of first, last"), ({"last": 1}, "spans.first is missing")):
        with pytest.raises(SettingsError, match=message):
            build_dataclass(Named, {"spans": [wrong], "by_name": {}})


def test_plain_values_become_a_dataclass() -> None:
    content = {"name": 7, "limit": None, "size": [3, 4], "stages": [1, "2e-1"], "inner": {"rate": "1e-3"}}
    assert build_dataclass(Outer, content) == Outer("7", 1, True, None, (3, 4), (1.0, 0.2), Inner(0.001))
    assert build_dataclass(Outer, {}) == Outer()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"step": 3}, "there is no setting step; there are name, steps, flip, limit, size, stages, inner"),
        ({"inner": {"rat": 3}}, "there is no setting inner.rat; there are rate, kind"),
        ({"inner": 3}, "inner is a group of settings; got 3"),
        ({"inner": {"kind": "adam"}}, "inner.kind is one of sgd, adamw; got 'adam'"),
        ({"inner": {"rate": "fast"}}, "inner.rate is a number; got 'fast'"),
        ({"steps": 1.5}, "steps is a whole number; got 1.5"),
        ({"steps": True}, "steps is a whole number; got True"),
        ({"flip": 1}, "flip is true or false; got 1"),
        ({"limit": "all"}, "limit is a whole number; got 'all'"),
        ({"size": [1, 2, 3]}, r"size is a list of 2; got \[1, 2, 3\]"),
        ({"size": 5}, "size is a list of 2; got 5"),
        ({"stages": 5}, "stages is a list of any length; got 5"),
        ({"name": ["a"]}, r"name is text; got \['a'\]"),
    ],
)
def test_what_does_not_fit_is_named_with_what_is_allowed(content: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        build_dataclass(Outer, content)


@pytest.mark.parametrize("name", ["a.onnx", "deep/a.onnx", "a..b", ".hidden"])
def test_names_inside_a_folder_lead_there(tmp_path: Path, name: str) -> None:
    assert path_inside(tmp_path, name) == tmp_path / name


@pytest.mark.parametrize(
    "name",
    ["", "..", "../a", "deep/../../a", "/etc/passwd", "C:/a", "C:a", "..\\a", "\\\\host\\share\\a", "a\0b"],
)
def test_names_that_lead_out_of_a_folder_are_refused_on_every_system(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="is no name inside the folder"):
        path_inside(tmp_path, name)


def test_a_link_may_lead_out_only_where_that_is_allowed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    (folder / "in").symlink_to(folder)
    assert path_inside(folder, "out") == folder / "out"
    assert path_inside(folder, "in", links=False) == folder / "in"
    with pytest.raises(SettingsError, match="a link that leads out"):
        path_inside(folder, "out", links=False)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.json", b"{", "is damaged: Expecting"),
        ("a.json", b"null", "holds None, not values by name"),
        ("a.json", b'{"a": "\xff"}', "no text in UTF-8, from byte 7 on"),
        ("a.json", b"[" * 100_000, "nested too deeply"),
        ("a.json", b'{"format": "1"}', "another format than 1 \\('1'\\)"),
        ("a.yaml", b"a: [", "is not YAML"),
        ("a.yaml", b"a: &a [*a]\nb: *b", "is not YAML"),
        ("b.json", b"", "cannot be read: No such file"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line_that_names_it(tmp_path: Path, name: str, data: bytes, message: str):
    (tmp_path / name.replace("b", "c")).write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        read_mapping(tmp_path / name, DataError, format=1)
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_yaml_file_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("")
    assert read_mapping(tmp_path / "a.yaml", DataError) == {}


def test_values_are_quoted_in_a_short_line_however_large_they_are() -> None:
    value: list[Any] = ["x" * 1000]
    for _ in range(60):
        value = [value] * 60  # 60 to the power of 60 of them
    assert len(quote(value)) < 20_000
    assert "\n" not in quote("a\nb")
