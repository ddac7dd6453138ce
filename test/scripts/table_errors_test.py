"""A row that does not exist ends the job with a message that names the id, its place and the number of rows, whether
rows are read or added to, by every route. So does an exchange to a PE that does not exist, or with one row more for a
PE than it has room for; as many as there is room for arrive. Sums of elements of 16 bits without their handler are
refused. When a PE dies amid calls, the job ends and says so. A table may be larger than one PE's memory, also with the
fewest reply cells that there can be; fewer are refused.
Usage: table_errors_test.py UCX_RUN TABLE_JOB"""
import os
import re
import subprocess
import sys

UCX_RUN, JOB = sys.argv[1:3]
ERRORS = {  # what goes wrong: a sentence
    "bad-row": "PE 0: error: id 1503 of a bulk call on gravel::rows is 10: the table has 10 rows",
    "bad-sum": "PE 0: error: id 2 of a bulk call on gravel::rows is 18446744073709551615: the table has 10 rows",
    "bad-target": "PE 0: error: row 2 of an all_to_all goes to PE -3: the job has PEs 0 to 1",
    "bad-room": "PE 1: error: an all_to_all of gravel::row_exchange brings 8 rows to PE 1: it has room for 7",
    "dies": "PE 1 (pid ",
}
wrong = []


def run(what, pes=2, **variables):
    return subprocess.run([UCX_RUN, "-n", str(pes), "--timeout", "30", JOB, what], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, env=dict(os.environ, **variables))


for what, sentence in ERRORS.items():
    for routes in ("net", "peer"):
        done = run(what, GRAVEL_ROUTES=routes)
        if done.returncode in (0, 124) or sentence not in done.stderr:
            wrong.append(f"{what}, {routes}: status {done.returncode}, expected '{sentence}', got:\n{done.stderr}")
        if what == "dies" and (done.returncode != 137 or not re.search(r"PE 1 .*killed by signal 9", done.stderr)):
            wrong.append(f"dies, {routes}: status {done.returncode}, got:\n{done.stderr}")
SMALL = {"GRAVEL_SYMMETRIC_SIZE": "4M"}
for what, pes, variables in (("no-handler", 2, {}), ("least-room", 2, {}),
                             ("larger", 3, {**SMALL, "GRAVEL_ROUTES": "peer"}),
                             ("larger", 3, {**SMALL, "GRAVEL_ROUTES": "net", "GRAVEL_REPLY_CELLS": "64"})):
    done = run(what, pes, **variables)
    if done.returncode:
        wrong.append(f"{what}, {variables}: status {done.returncode}:\n{done.stdout}{done.stderr}")
done = run("larger", GRAVEL_REPLY_CELLS="63")
if done.returncode == 0 or "GRAVEL_REPLY_CELLS" not in done.stderr:
    wrong.append(f"63 reply cells: status {done.returncode}:\n{done.stderr}")
print("\n".join(wrong) or "all errors as they should be")
sys.exit(bool(wrong))
