"""History: a result is current until a commit changes the code that it measured."""

from __future__ import annotations

import subprocess

import pytest

from benchmarks.history import Commit, current_commit, read_commit, why_outdated


@pytest.fixture
def repository(tmp_path):
    """A repository with a file that is measured and one that is not."""

    def git(*arguments: str) -> None:
        settings = ("-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *settings, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def commit(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        git("add", ".")
        git("commit", "-m", name)

    git("init", "-q")
    commit("src/code.py", "1")
    return tmp_path, commit


def test_only_commits_to_the_measured_code_make_a_result_old(repository):
    root, commit = repository
    now = current_commit(("src",), root)
    version = now.stamp("0.1.0")
    assert not now.dirty
    assert why_outdated(version, ("src",), root) == ""
    commit("README.md", "documents")
    assert why_outdated(version, ("src",), root) == ""
    (root / "src" / "code.py").write_text("2")
    assert why_outdated(version, ("src",), root) == "older than uncommitted changes"
    commit("src/code.py", "2")
    assert why_outdated(version, ("src",), root) == "1 commit older than the code"
    commit("src/code.py", "3")
    assert why_outdated(version, ("src",), root) == "2 commits older than the code"


def test_a_result_names_the_commit_that_last_changed_the_measured_code(repository):
    root, commit = repository
    before = current_commit(("src",), root)
    commit("README.md", "documents")
    assert current_commit(("src",), root) == before
    commit("src/code.py", "2")
    assert current_commit(("src",), root) != before


def test_a_result_of_uncommitted_code_is_of_no_commit(repository):
    root, _ = repository
    (root / "src" / "code.py").write_text("2")
    now = current_commit(("src",), root)
    assert now.dirty
    assert why_outdated(now.stamp("0.1.0"), ("src",), root) == f"measured with uncommitted changes on {now.hash}"


def test_a_commit_that_is_unknown_is_called_so(repository):
    root, _ = repository
    version = Commit("0123456789ab", dirty=False).stamp("0.1.0")
    assert why_outdated(version, ("src",), root) == "measured at 0123456789ab, which is not in this history"
    assert why_outdated("0.1.0", ("src",), root) == "from before commits were recorded"
    assert why_outdated(None, ("src",), root) == "from before commits were recorded"


def test_outside_a_repository_there_is_no_commit(tmp_path):
    assert current_commit(("src",), tmp_path / "nowhere") is None


@pytest.mark.parametrize("commit", [Commit("0123456789ab", dirty=False), Commit("0123456789ab", dirty=True)])
def test_a_stamp_is_read_back_and_replaced(commit):
    stamp = commit.stamp("0.1.0")
    assert read_commit(stamp) == commit
    assert Commit("ffffffffffff", dirty=False).stamp(stamp) == "0.1.0+gffffffffffff"
