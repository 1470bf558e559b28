"""The videos that arguments stand for, and the names of their outputs."""

import cv2
import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from stmg.errors import MissingPackageError, SettingsError, VideoError
from stmg.jobs.videos import Video, find_videos, keep_names


@pytest.fixture
def tree(tmp_path):
    for name in ("x2.mp4", "x10.MKV", "deep/er/x.avi", ".hidden/x.mp4", "notes.md", "deep/more.md"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(b"1234")
    return tmp_path / "in"


def names(*arguments):
    return [video.name for video in find_videos(arguments)]


def test_a_folder_stands_for_the_videos_below_it(tree):
    assert names(tree) == ["deep/er/x.avi", "x2.mp4", "x10.MKV"]
    first = find_videos([tree])[0]
    assert (first.source, first.size) == (str(tree / "deep/er/x.avi"), 4)


def test_a_pattern_is_named_from_where_it_begins(tree):
    assert names(f"{tree}/*.mp4") == ["x2.mp4"]
    assert names(f"{tree}/de*/**/*.avi") == ["deep/er/x.avi"]
    with pytest.raises(VideoError, match="matches no file"):
        find_videos([f"{tree}/*.mov"])


def test_what_exists_is_no_pattern(tree):
    (tree / "[2024] x").mkdir()
    for name in ("[2024] x/Drive [dQw4w9].mp4", "what?.mp4", "*.mp4", "Drive d.mp4"):
        (tree / name).write_bytes(b"12")
    assert names(tree / "[2024] x") == ["Drive [dQw4w9].mp4"]
    assert names(tree / "[2024] x/Drive [dQw4w9].mp4") == ["Drive [dQw4w9].mp4"]
    assert names(tree / "what?.mp4") == ["what?.mp4"]
    assert names(tree / "*.mp4") == ["*.mp4"]
    assert names(tree / "Drive [d].mp4") == ["Drive d.mp4"]


def test_single_videos_are_named_below_the_folder_that_holds_them_all(tree):
    assert names(tree / "x2.mp4") == ["x2.mp4"]
    assert names(tree / "x2.mp4", tree / "deep/er/x.avi") == ["deep/er/x.avi", "x2.mp4"]


def test_a_list_holds_one_argument_a_line_seen_from_where_it_lies(tree, tmp_path):
    (tree.parent / "list.txt").write_text(f"# drives\n\nin/x2.mp4\n{tree}/deep\n")
    assert names(tree.parent / "list.txt") == ["er/x.avi", "x2.mp4"]
    with pytest.raises(VideoError, match=r"nothing\.txt does not exist"):
        find_videos([tree / "nothing.txt"])
    (tree / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(VideoError, match="no text"):
        find_videos([tree / "bytes.txt"])
    for text in ("", "# all of them\n\n"):
        (tree / "empty.txt").write_text(text)
        with pytest.raises(VideoError, match=r"empty\.txt names no video; a list is"):
            find_videos([tree / "x2.mp4", tree / "empty.txt"])


def test_a_video_named_twice_is_one_and_two_of_a_name_are_two(tree, tmp_path):
    assert names(tree, tree / "x2.mp4") == ["deep/er/x.avi", "x2.mp4", "x10.MKV"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "x2.mp4").write_bytes(b"12345")
    found = names(tree, other)
    assert len(found) == len(set(found)) == 4
    assert sum(name.startswith("x2.mp4-") for name in found) == 2


def test_a_folder_of_images_is_one_video(tmp_path):
    (tmp_path / "frames").mkdir()
    for number in range(3):
        cv2.imwrite(str(tmp_path / "frames" / f"{number}.png"), np.zeros((8, 8, 3), np.uint8))
    before = find_videos([tmp_path / "frames"])
    assert [video.name for video in before] == ["frames"]
    cv2.imwrite(str(tmp_path / "frames" / "3.png"), np.zeros((8, 8, 3), np.uint8))
    assert find_videos([tmp_path / "frames"])[0].stamp != before[0].stamp
    (tmp_path / "empty").mkdir()
    with pytest.raises(VideoError, match="holds no videos"):
        find_videos([tmp_path / "empty"])


def test_what_a_batch_wrote_is_not_segmented(tree):
    for out in (tree / "deep", tree / ".." / "in" / "deep"):
        assert [video.name for video in find_videos([tree], without=str(out))] == ["x2.mp4", "x10.MKV"]
    with pytest.raises(VideoError, match=r"all of these lie in the output folder .*in; choose another --out"):
        find_videos([tree, tree / "x2.mp4"], without=str(tree))


def test_a_video_that_was_named_is_not_left_out_without_a_word(tree):
    with pytest.raises(VideoError, match=r"er/x\.avi lies in the output folder .*deep; choose another --out"):
        find_videos([tree / "x2.mp4", tree / "deep/er/x.avi"], without=str(tree / "deep"))


def test_a_path_may_go_up_and_down(tree):
    assert find_videos([tree / "deep" / "..", tree]) == find_videos([tree])


def test_a_name_does_not_lead_out_of_the_output_folder(tmp_path):
    memory = fsspec.filesystem("memory")
    for path in ("/out/a/1.mp4", "/out/b/../../../home/2.mp4"):
        memory.pipe_file(path, b"123")
    (tmp_path / "list.txt").write_text("memory://out/a/1.mp4\nmemory://out/b/../../../home/2.mp4\n")
    for argument in (tmp_path / "list.txt", "memory://out/b/*/*/*/home/*.mp4"):
        with pytest.raises(VideoError, match=r"2\.mp4 would go to '.*\.\./home/2\.mp4', which is not inside"):
            find_videos([argument])


def test_names_of_an_earlier_run_are_kept_and_given_to_no_other_video():
    videos = [Video(f"/d/{name}", name, 1, "") for name in ("drives/a.mp4", "drives/b.mp4", "gone.mp4", "c.mp4")]
    earlier = {"a.mp4": "/d/drives/a.mp4", "c.mp4": "/d/drives/b.mp4", "gone.mp4": "/e/gone.mp4"}
    kept = keep_names(videos, earlier)
    assert [video.name for video in kept[:2]] == ["a.mp4", "c.mp4"]
    assert [video.name.rpartition("-")[0] for video in kept[2:]] == ["gone.mp4", "c.mp4"]
    assert [video.source for video in kept] == [video.source for video in videos]
    with pytest.raises(VideoError, match="not inside the output folder"):
        keep_names(videos, {"../c.mp4": "/d/c.mp4"})


def test_other_storages_are_searched_alike():
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/search/a/x.mp4", b"123")
    memory.pipe_file("/search/b/y.mp4", b"123")
    assert names("memory://search") == ["a/x.mp4", "b/y.mp4"]
    assert find_videos(["memory://search/a/x.mp4"])[0].source == "memory:///search/a/x.mp4"
    assert names("memory://search/*/y.mp4") == ["b/y.mp4"]


class Elsewhere(MemoryFileSystem):
    """Files of a machine that the address names, as ftp:// has them."""

    protocol = "elsewhere"

    def __init__(self, host, **options):
        super().__init__(**options)

    @staticmethod
    def _get_kwargs_from_urls(url):
        return {"host": url.partition("://")[2].partition("/")[0]}


def test_an_address_that_names_a_machine_is_refused(monkeypatch):
    fsspec.register_implementation("elsewhere", Elsewhere, clobber=True)
    with pytest.raises(SettingsError, match=r"^videos are not read from elsewhere://; copy them here, or give a path"):
        find_videos(["elsewhere://me:secret@host/drives/a.mp4"])


class Web(MemoryFileSystem):
    """Files behind web addresses."""

    def exists(self, path, **options):
        return True

    def isdir(self, path):
        return False

    def isfile(self, path):
        return False

    def info(self, path, **options):
        return {"name": path, "size": 5, "type": "file"}


def test_one_address_with_two_queries_is_refused(monkeypatch):
    monkeypatch.setattr("stmg.jobs.videos.open_storage", lambda url: (Web(), url))
    monkeypatch.setattr("stmg.jobs.videos.full_name", lambda system, path: path)
    monkeypatch.setattr("stmg.jobs.videos._refuse_host", lambda *given: None)
    with pytest.raises(VideoError, match="given twice with different queries"):
        find_videos(["https://h/a.mp4?version=1", "https://h/a.mp4?version=2"])
    assert len(find_videos(["https://h/a.mp4?version=1"] * 2)) == 1


def test_a_list_that_is_not_there_is_named_without_its_password(monkeypatch):
    monkeypatch.setattr("stmg.jobs.videos.open_storage", lambda url: (Web(), url))
    with pytest.raises(VideoError) as caught:
        find_videos(["https://user:secret@h/list.txt"])
    assert "secret" not in str(caught.value)
    assert "list.txt does not exist" in str(caught.value)


def test_what_cannot_be_reached_says_what_to_do(tmp_path):
    with pytest.raises(VideoError, match="does not exist; give videos, folders, patterns or a list"):
        find_videos([tmp_path / "none.mp4"])
    with pytest.raises(SettingsError, match="cannot be reached"):
        find_videos(["nowhere://x"])
    with pytest.raises(MissingPackageError, match="s3:// needs another package: Install s3fs"):
        find_videos(["s3://bucket/x"])
