"""A key that finds no slot ends the job with a message that names the map, its capacity, the PE whose slots are full,
and what to do, whether the PE itself or another one inserts, by every route. A map that cannot grow refuses items, and
stays as it was. When a PE dies amid calls, the job ends and says so.
Usage: map_errors_test.py UCX_RUN MAP_JOB"""
import os
import re
import subprocess
import sys

UCX_RUN, JOB = sys.argv[1:3]
wrong = []
for what, pe in (("full", 0), ("full-elsewhere", 1), ("full-all", 1)):
    sentence = (f"error: a gravel::map of keys of 8 bytes and values of 8 bytes, made for 20 items, has no "
                f"slot for a key: PE {pe} has 48 slots. Make the map for more items, or call make_room() or reserve() "
                "before")
    for routes in ("net", "peer"):
        done = subprocess.run([UCX_RUN, "-n", "2", "--timeout", "30", JOB, what], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, env=dict(os.environ, GRAVEL_ROUTES=routes))
        if done.returncode in (0, 124) or sentence not in done.stderr:
            wrong.append(f"{what}, {routes}: status {done.returncode}, expected '{sentence}', got:\n{done.stderr}")
for routes in ("net", "peer"):
    done = subprocess.run([UCX_RUN, "-n", "2", "--timeout", "30", JOB, "dies"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, env=dict(os.environ, GRAVEL_ROUTES=routes))
    if done.returncode != 137 or not re.search(r"PE 1 .*killed by signal 9", done.stderr):
        wrong.append(f"dies, {routes}: status {done.returncode}, got:\n{done.stderr}")
done = subprocess.run([UCX_RUN, "-n", "2", "--timeout", "30", JOB, "little-memory"], stdin=subprocess.DEVNULL,
                      capture_output=True, text=True, env=dict(os.environ, GRAVEL_SYMMETRIC_SIZE="2M"))
if done.returncode or "ok: a map that cannot grow" not in done.stdout:
    wrong.append(f"little-memory: status {done.returncode}, got:\n{done.stdout}{done.stderr}")
print("\n".join(wrong) or "all errors as they should be")
sys.exit(bool(wrong))
