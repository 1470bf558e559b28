"""Configurations: allowed values, and errors without passwords."""

import logging
from pathlib import Path

import pytest

from stmg.cli.serve import name_of
from stmg.errors import SettingsError
from stmg.serve.config import (
    RecordConfig,
    ServeConfig,
    StreamConfig,
    is_loopback,
    make_model_spec,
    read_config,
)
from stmg.serve.run import LogFormatter

STREAM = StreamConfig(name="one", source="street:1")


def test_another_address_needs_a_token_or_an_explicit_word():
    for host in ("0.0.0.0", "192.168.0.7", "example.org", "::"):
        with pytest.raises(SettingsError, match="token"):
            ServeConfig(streams=(STREAM,), host=host)
        ServeConfig(streams=(STREAM,), host=host, token="long enough")
        ServeConfig(streams=(STREAM,), host=host, insecure=True)
    for host in ("127.0.0.1", "localhost", "::1"):
        ServeConfig(streams=(STREAM,), host=host)


@pytest.mark.parametrize(
    ("host", "expected"), [("127.9.9.9", True), ("[::1]", True), ("10.0.0.1", False), ("x", False)]
)
def test_loopback(host, expected):
    assert is_loopback(host) is expected


@pytest.mark.parametrize("name", ["", "A", "../x", "a b", "-a", "a" * 41, "a/b", "é"])
def test_names_that_could_mean_something_else_are_refused(name):
    with pytest.raises(SettingsError):
        StreamConfig(name=name, source="street:1")


def test_what_cannot_be_honored_is_an_error():
    with pytest.raises(SettingsError, match="name of its own"):
        ServeConfig(streams=(STREAM, STREAM))
    with pytest.raises(SettingsError, match="name of its own"):
        ServeConfig(streams=(STREAM,), sources={"one": "street:2"})
    with pytest.raises(SettingsError, match="at least one"):
        ServeConfig(streams=())
    with pytest.raises(SettingsError, match="8 characters"):
        ServeConfig(streams=(STREAM,), token="short")
    with pytest.raises(SettingsError, match="standard input"):
        StreamConfig(name="one", source="-")
    with pytest.raises(SettingsError, match="no model"):
        make_model_spec(None, None)


def test_credentials_of_all_sources_are_taken_out_of_a_text():
    streams = (StreamConfig(name="a", source="rtsp://u:se cret@h/"), StreamConfig(name="b", source="/videos/b.mp4"))
    config = ServeConfig(streams=streams, sources={"c": "rtsp://u:se cret@spare/"})
    text = "rtsp://u:se cret@h/ and rtsp://u:se cret@spare/, not /videos/b.mp4, and http://other/?p=secret"
    shown = "rtsp://h/ and rtsp://spare/, not /videos/b.mp4, and http://other/"
    assert config.hide_credentials(text) == shown
    line = logging.LogRecord("stmg.serve", logging.WARNING, __file__, 1, "stream a is down: %s", (text,), None)
    assert LogFormatter(config).format(line).endswith(f"WARNING stream a is down: {shown}")


def test_a_configuration_shows_no_password_when_it_is_printed():
    config = ServeConfig(
        streams=(StreamConfig(name="a", source="rtsp://u:secret@h/"),),
        sources={"b": "rtsp://u:secret@h/"},
        token="secret token",
    )
    assert "secret" not in repr(config)


def test_a_file_is_read_with_paths_beside_it(tmp_path: Path):
    (tmp_path / "drive.mp4").touch()
    (tmp_path / "tuned.yaml").write_text("{motion: dis-fine, max_change: 0.02}")
    file = tmp_path / "streams.yaml"
    file.write_text(
        "model: small-streets\n"
        "streams:\n"
        "  - {name: drive, source: drive.mp4, settings: tuned.yaml}\n"
        "  - {name: gate, source: 'rtsp://gate/live', model: lite0-camvid, settings: {motion: none}}\n"
        "sources: {spare: camera:0}\n"
        "record: {folder: kept, hours: 2}\n"
        "uploads: {megabytes: 5}\n"
    )
    config = read_config(file, {"port": 9000})
    assert config.port == 9000
    assert config.streams[0].source == str(tmp_path / "drive.mp4")
    assert config.streams[1].source == "rtsp://gate/live"
    assert config.record == RecordConfig(folder=str(tmp_path / "kept"), hours=2.0)
    spec = make_model_spec(config.model, config.streams[0].settings)
    assert (spec.name, spec.options) == ("small-streets", {"motion": "dis-fine", "max_change": 0.02})
    assert make_model_spec("m", config.streams[1].settings).options == {"motion": "none"}
    assert config.stream_of("spare").source == "camera:0"
    assert config.stream_of("/etc/passwd") is None


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("later.mp4", "{}/later.mp4"),
        ("frames/*.png", "{}/frames/*.png"),
        ("/videos/a.mp4", "/videos/a.mp4"),
        ("rtsp://gate/live", "rtsp://gate/live"),
        ("camera:0", "camera:0"),
        ("street:7", "street:7"),
    ],
)
def test_sources_are_seen_from_the_file(tmp_path, source, expected):
    file = tmp_path / "streams.yaml"
    file.write_text(f"streams: [{{name: a, source: '{source}', settings: tuned.yaml}}]\nsources: {{b: '{source}'}}")
    config = read_config(file)
    assert config.streams[0].source == config.sources["b"] == expected.format(tmp_path)
    assert config.streams[0].settings == str(tmp_path / "tuned.yaml")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("nets.py:build", "{}/nets.py:build"),
        ("code/nets.py:build", "{}/code/nets.py:build"),
        ("net.onnx", "{}/net.onnx"),
        ("./best", "{}/best"),
        ("runs/one/best", "{}/runs/one/best"),
        ("out/lite0", "{}/out/lite0"),
        ("/models/best", "/models/best"),
        ("owner/model", "owner/model"),
        ("lite0-camvid", "lite0-camvid"),
        ("package.module:build", "package.module:build"),
        ("out:build", "out:build"),  # a folder of that name may be a package
    ],
)
def test_models_are_seen_from_the_file(tmp_path, model, expected):
    (tmp_path / "out").mkdir()
    file = tmp_path / "streams.yaml"
    file.write_text(f"model: {model}\nstreams: [{{name: a, source: street:1, model: '{model}'}}]")
    config = read_config(file)
    assert config.model == config.streams[0].model == expected.format(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "{streams: [{name: a, source: camera:0}], token: [secret token]}",
        "{streams: [{name: a, source: camera:0}], token: {secret: token}}",
        "streams: [{name: a, source: 'rtsp://u:secret@h/', fps: no}]",
        "streams: [{name: a, source: 'rtsp://u:secret@h/'",
        "streams: [{name: A, source: 'rtsp://u:secret@h/?p=secret'}]",
        "streams: ['rtsp://user:se secret@h/']",
        f"streams: ['rtsp://user:{'secret' * 9}@{'h' * 80}/']",
        f"streams: [{{name: a, source: ['http://{'h' * 80}/?{'t' * 80}=secret']}}]",
        "{streams: [], sources: {'rtsp://u:secret@h/': street:1}}",
        "- rtsp://u:secret@h/",
    ],
)
def test_what_is_wrong_in_a_file_is_reported_without_its_passwords(tmp_path: Path, text: str):
    file = tmp_path / "streams.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as raised:
        read_config(file)
    assert str(file) in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("videos/My Drive.mp4", "my-drive"),
        ("camera:0", "camera-0"),
        ("rtsp://user:secret@gate.lan/live", "gate-lan"),
        ("rtsp://user:se/cret@gate.lan/live", "gate-lan"),
        ("street:7", "street-7"),
        ("…", "stream"),
    ],
)
def test_streams_of_the_command_line_are_named_by_their_sources(source, name):
    assert name_of(source) == name


def test_an_address_that_is_none_is_reported_without_its_password():
    with pytest.raises(SettingsError, match=r"^rtsp://\[::1/live is not an address"):
        name_of("rtsp://user:secret@[::1/live")
