"""Open any dataset by its path or name."""

from __future__ import annotations

from pathlib import Path

from stmg.data.camvid import is_camvid, open_camvid
from stmg.data.cityscapes import is_cityscapes, open_cityscapes
from stmg.data.dataset import Dataset
from stmg.data.folder import DESCRIPTION, is_video, open_folder, open_videos
from stmg.data.synthetic.scene import open_streets
from stmg.errors import DataError


def is_dataset(path: str | Path) -> bool:
    """True if `open_dataset` can open the path. Otherwise it may still be a folder of images."""
    if str(path).startswith("street:"):
        return True
    root = Path(path)
    if not root.is_dir():
        return root.name == DESCRIPTION or is_video(root)
    known = (root / DESCRIPTION).is_file() or is_cityscapes(root) or is_camvid(root)
    return known or any(is_video(entry) for entry in root.iterdir())


def open_dataset(path: str | Path) -> Dataset:
    """Open CamVid, Cityscapes, a folder with a `dataset.yaml`, videos without labels, or `street:0-99`."""
    if str(path).startswith("street:"):
        return open_streets(str(path))
    if not str(path):
        raise DataError("no data is given; set data.path=...")
    root = Path(path)
    if not root.exists():
        raise DataError(f"{root} does not exist")
    if (root / DESCRIPTION).is_file() or root.name == DESCRIPTION:
        return open_folder(root)
    if is_cityscapes(root):
        return open_cityscapes(root)
    if is_video(root) or (not is_camvid(root) and root.is_dir() and any(is_video(entry) for entry in root.iterdir())):
        return open_videos(root)
    if not is_camvid(root):
        raise DataError(
            f"{root} is not CamVid or Cityscapes and holds no videos; write a {DESCRIPTION} for your own data"
        )
    return open_camvid(root)
