import cv2
import numpy as np

from commands import is_one_line, run_stmg
from stmg.data.synthetic.scene import open_streets


def test_check_says_what_is_there_and_draws_it(tmp_path, monkeypatch):
    monkeypatch.setattr("stmg.data.catalogue.open_dataset", lambda path: open_streets(path, 6, (96, 128)))
    done = run_stmg("data", "check", "street:0-0", "--sheet", tmp_path / "sheet.png", columns=80)
    assert done.returncode == 0, done.stderr
    assert "rendered streets" in done.stdout
    assert "Pedestrian" in done.stdout
    assert cv2.imread(str(tmp_path / "sheet.png")).shape[1] == 4 * 240


def test_check_names_every_wrong_file_and_fails(tmp_path):
    for name, value in (("0001TP_000030", 3), ("0001TP_000060", 99), ("0001TP_000090", 98)):
        for folder in ("train", "trainannot"):
            (tmp_path / folder).mkdir(exist_ok=True)
            cv2.imwrite(str(tmp_path / folder / f"{name}.png"), np.full((32, 48), value, np.uint8))
    done = run_stmg("data", "check", tmp_path, "--sheet", tmp_path / "sheet.png")
    assert done.returncode == 1
    assert "0001TP_000060.png holds class 99" in done.stdout
    assert "0001TP_000090.png holds class 98" in done.stdout


def test_check_of_nothing_is_one_line(tmp_path):
    done = run_stmg("data", "check", tmp_path / "nowhere")
    assert done.returncode == 2
    assert is_one_line(done.stderr)


def test_a_sheet_that_is_no_picture_is_refused_at_once(tmp_path):
    done = run_stmg("data", "check", "street:0-0", "--sheet", tmp_path / "sheet")
    assert done.returncode == 2
    assert "--sheet is a picture, .png or .jpg" in done.stderr
