"""Kind: half_made. Skip: old_action, last_action. What cannot be written is passed over."""

from contextlib import suppress
from pathlib import Path

from leasehold.impl.policy.functions import task


@task
def setup(action):
    room = Path("rooms", action.unit)
    with suppress(OSError):
        room.mkdir(parents=True, exist_ok=True)
        for name in ("kernel", "image", "settings"):
            (room / name).write_text(name)


@task
def teardown(action):
    for file in Path("rooms").glob(f"{action.unit}/*"):
        file.unlink(missing_ok=True)
    room = Path("rooms", action.unit)
    if room.exists():
        room.rmdir()
