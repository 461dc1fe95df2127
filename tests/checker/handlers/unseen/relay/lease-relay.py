"""Count in the unit's folder, with the step that the settings say."""

import os
import pathlib
import time

count = int(pathlib.Path("count").read_text()) if os.path.exists("count") else 0
while True:
    count += int(pathlib.Path("settings").read_text())
    pathlib.Path("count.new").write_text(str(count))
    os.replace("count.new", "count")
    time.sleep(0.2)
