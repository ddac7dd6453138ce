"""Calls of whole blocks, warps and grids: each that lacks threads, or in which threads differ, ends the job with a
sentence that names the call, says who is missing, and what to write; legal ones end well, also under seeded schedules.
Usage: scope_test.py UCX_RUN SCOPE_JOB"""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

UCX_RUN, JOB = sys.argv[1:3]
ROOT = Path(__file__).resolve().parents[2]


def run(case):
    """The error, or an empty string."""
    call, kind, sentence, seed = case
    right = call == "right"
    n = "2" if right else "1"
    done = subprocess.run([UCX_RUN, "-n", n, "--nodes", n, "--timeout", "60", JOB, call, kind],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env=dict(os.environ, GRAVEL_CPU_SEED=str(seed)))
    if right and done.returncode == 0:
        return ""
    said = sentence if seed == 0 else sentence.split(" in block")[0].split(" where")[0].split(" with different")[0]
    if not right and done.returncode not in (0, 124) and said in done.stderr and "not refused" not in done.stderr:
        return ""
    return f"{call} {kind}, seed {seed}: status {done.returncode}, expected '{said}', got:\n{done.stderr}"


# The guide lists every such call.
names = re.findall(r'^  X\(\w+,\s*"([^"]+)"', (ROOT / "lib/base/team_call.hpp").read_text().replace("\\\n", "\n"), re.M)
listed = (ROOT / "docs/programming.md").read_text().split("### Calls of several threads")[1].split("\n## ")[0]
unlisted = [name for name in names if f"`{name}`" not in listed]
assert len(names) > 40 and not unlisted, f"docs/programming.md does not list {unlisted}"

lines = subprocess.run([JOB, "--list"], check=True, capture_output=True, text=True).stdout.splitlines()
cases = [(*line.split(" ", 2), 0) for line in lines]
assert len(set(cases)) == len(cases) > 100, cases
cases += [(call, kind, sentence, seed) for call, kind, sentence, _ in cases for seed in (1, 2, 3) if call == "right"]
cases += [(call, kind, sentence, 1) for call, kind, sentence, _ in cases[:120:7] if call != "right" and kind != "other"]
with ThreadPoolExecutor(2) as pool:
    wrong = [why for why in pool.map(run, cases) if why]
print("\n".join(wrong) or f"{len(cases)} runs as they should be")
sys.exit(bool(wrong))
