"""The guide's table "Who may call what": every call from a place where it is not allowed ends the job with a sentence
that names the call and says why. Usage: callers_test.py UCX_RUN CALLERS_JOB"""
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

UCX_RUN, JOB = sys.argv[1:3]


def run(pair):
    """The error, or an empty string."""
    place, call, sentence = pair
    done = subprocess.run([UCX_RUN, "-n", "1", "--timeout", "60", JOB, place, call], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    # Calls that report one operation are all named: "gravel_fetch or gravel_get_value inside a handler".
    said = rf"\b{re.escape(call.removesuffix('()'))}\b.* {re.escape(sentence)}"
    if done.returncode not in (0, 124) and re.search(said, done.stderr) and "not refused" not in done.stderr:
        return ""
    return f"{call} in {place}: status {done.returncode}, expected '{said}', got:\n{done.stderr}"


listed = subprocess.run([JOB, "--list"], check=True, capture_output=True, text=True).stdout
pairs = [line.split(" ", 2) for line in listed.splitlines()]
assert len({(place, call) for place, call, _ in pairs}) == len(pairs) > 30, pairs
with ThreadPoolExecutor(2) as pool:
    wrong = [why for why in pool.map(run, pairs) if why]
print("\n".join(wrong) or f"{len(pairs)} calls are refused")
sys.exit(bool(wrong))
