#!/usr/bin/env python3
"""Prints the targets of a build folder that are installed, for ninja: examples and tests need not be compiled to
install Gravel.

    ninja -C BUILD $(tools/installed_targets.py BUILD) && meson install -C BUILD --no-rebuild"""

import json
import os
import subprocess
import sys

build = os.path.realpath(sys.argv[1])
# Otherwise these are the targets of the sources for which the folder was configured.
subprocess.run(["ninja", "-C", build, "build.ninja"], stdout=subprocess.DEVNULL, check=True)
targets = subprocess.run(["meson", "introspect", "--targets", build], stdout=subprocess.PIPE, check=True).stdout
print(*(os.path.relpath(target["filename"][0], build) for target in json.loads(targets) if target["installed"]))
