"""A row that does not exist ends the job with a message that names the id, its place and the number of rows, whether
rows are read or added to, by every route. So does an exchange to a PE that does not exist, or with more rows for a PE
than it has room for. Sums of elements of 16 bits without their handler are refused.
Usage: table_errors_test.py UCX_RUN TABLE_JOB"""
import os
import subprocess
import sys

UCX_RUN, JOB = sys.argv[1:3]
ERRORS = {  # what goes wrong: a sentence
    "bad-row": "PE 0: error: id 1503 of a bulk call on gravel::rows is 10: the table has 10 rows",
    "bad-sum": "PE 0: error: id 2 of a bulk call on gravel::rows is 18446744073709551615: the table has 10 rows",
    "bad-target": "PE 0: error: row 2 of an all_to_all goes to PE -3: the job has PEs 0 to 1",
    "bad-room": "PE 1: error: an all_to_all of gravel::row_exchange brings 8 rows to PE 1: it has room for 5",
}
wrong = []
for what, sentence in ERRORS.items():
    for routes in ("net", "peer"):
        done = subprocess.run([UCX_RUN, "-n", "2", "--timeout", "30", JOB, what], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, env=dict(os.environ, GRAVEL_ROUTES=routes))
        if done.returncode in (0, 124) or sentence not in done.stderr:
            wrong.append(f"{what}, {routes}: status {done.returncode}, expected '{sentence}', got:\n{done.stderr}")
done = subprocess.run([UCX_RUN, "-n", "2", "--timeout", "30", JOB, "no-handler"], stdin=subprocess.DEVNULL,
                      capture_output=True, text=True)
if done.returncode:
    wrong.append(f"no-handler: status {done.returncode}:\n{done.stdout}{done.stderr}")
print("\n".join(wrong) or "all errors as they should be")
sys.exit(bool(wrong))
