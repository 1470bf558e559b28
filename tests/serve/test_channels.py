"""Channels: every viewer gets the newest part, slow viewers miss parts, and no one waits for another."""

import asyncio

from stmg.serve.channels import Channel, Viewer
from waiting import PATIENCE


def parts_of(viewer: Viewer, count: int) -> list[bytes | None]:
    async def read() -> list[bytes | None]:
        return [await asyncio.wait_for(viewer.next(), PATIENCE) for _ in range(count)]

    return asyncio.run(read())


def test_a_slow_viewer_gets_the_newest_picture_and_misses_the_others():
    channel = Channel()
    viewer = Viewer([channel])
    for number in range(5):
        channel.publish(b"%d" % number)
    assert parts_of(viewer, 1) == [b"4"]
    channel.publish(b"5")
    assert parts_of(viewer, 1) == [b"5"]


def test_records_wait_for_a_late_listener_as_far_as_they_are_kept():
    channel = Channel(depth=3)
    viewer = Viewer([channel])
    for number in range(5):
        channel.publish(b"%d" % number)
    assert parts_of(viewer, 3) == [b"2", b"3", b"4"]


def test_a_viewer_of_several_channels_gets_each_in_turn():
    busy, quiet = Channel(depth=10), Channel(depth=10)
    viewer = Viewer([busy, quiet])
    for _ in range(3):
        busy.publish(b"busy")
    quiet.publish(b"quiet")
    assert b"quiet" in parts_of(viewer, 2)


def test_a_viewer_that_is_sent_away_gets_nothing_more():
    async def run() -> bytes | None:
        channel = Channel()
        viewer = Viewer([channel])
        reading = asyncio.create_task(viewer.next())
        await asyncio.sleep(0)
        viewer.close()
        viewer.close()
        assert not channel.viewers
        return await asyncio.wait_for(reading, PATIENCE)

    assert asyncio.run(run()) is None


def test_a_later_viewer_may_begin_with_what_there_is_or_with_what_comes():
    channel = Channel()
    first = Viewer([channel])
    channel.publish(b"old")
    assert parts_of(Viewer([channel]), 1) == [b"old"]
    fresh = Viewer([channel], fresh=False)
    channel.publish(b"new")
    assert parts_of(fresh, 1) == [b"new"]
    first.close()
