"""A unit is a folder, a copy of the template that is made at a low rate, with the settings of its holder."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path.cwd()
VERB, UNIT = os.environ["LEASEHOLD_VERB"], os.environ["LEASEHOLD_UNIT"]
FOLDER = HERE / "units" / UNIT
COMPLETE = HERE / "complete" / UNIT


def fill():
    """Copy the template, unless that was done; a copy that is not complete is made anew over what is there."""
    if COMPLETE.exists():
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    # It has a session of its own: a copy is not lost when this action is stopped at its time limit.
    copy = subprocess.Popen(
        ["bash", str(HERE / "fill.sh"), str(FOLDER)],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if copy.wait() != 0:
        sys.exit(f"the copy ended with {copy.returncode}")
    COMPLETE.parent.mkdir(exist_ok=True)
    COMPLETE.touch()


def write_settings():
    properties = json.loads(os.environ.get("LEASEHOLD_PROPERTIES") or "{}") or {}
    new = FOLDER / "settings.new"
    new.write_text(f"level={properties.get('level', 'info')}\n")
    new.replace(FOLDER / "settings")


if VERB == "setup":
    fill()
    write_settings()
    print(json.dumps({"properties": {"folder": str(FOLDER)}}))
elif VERB == "modify":
    write_settings()
    print(json.dumps({"properties": {"folder": str(FOLDER)}}))
elif VERB == "teardown":
    COMPLETE.unlink(missing_ok=True)
    if FOLDER.exists():
        shutil.rmtree(FOLDER)
elif VERB == "probe":
    sys.exit(0 if COMPLETE.exists() and (FOLDER / "settings").exists() else 1)
