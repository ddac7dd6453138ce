"""An error of libgravel that the program does not catch ends the job with its text, whether libgravel shares the
program's C++ library or contains one of its own. Usage: uncaught_test.py UCX_RUN AGGREGATOR TASK_JOB
LIBGRAVEL"""
import os
import subprocess
import sys

UCX_RUN, AGGREGATOR, JOB, OWN_RUNTIME = sys.argv[1:]
wrong = []
for what, folder in (("the program's", None), ("its own", os.path.dirname(OWN_RUNTIME))):
    # The heap is too small for this job. The aggregator does not lie beside the second libgravel.
    environment = dict(os.environ, GRAVEL_SYMMETRIC_SIZE="4M", GRAVEL_AGGREGATOR=AGGREGATOR)
    if folder:
        environment["LD_LIBRARY_PATH"] = folder
        loaded = subprocess.run(["ldd", JOB], capture_output=True, text=True, env=environment, check=True).stdout
        if folder not in loaded:
            sys.exit(f"the program does not load libgravel from {folder}:\n{loaded}")
    done = subprocess.run([UCX_RUN, "-n", "2", "--timeout", "30", JOB], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, env=environment)
    lines = done.stderr.splitlines()
    if done.returncode != 1 or len(lines) != 2 or "error: gravel_malloc: " not in lines[0] or \
            not lines[0].endswith("raise GRAVEL_SYMMETRIC_SIZE"):
        wrong.append(f"libgravel with {what} C++ library: status {done.returncode}, output:\n{done.stderr}")
print(*wrong, sep="\n")
sys.exit(bool(wrong))
