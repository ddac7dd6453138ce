"""What kernels do wrong with a link ends the job with a message that says what, and which ends; and so does the death of a PE that others wait for, and an
exception that passes an open link. Usage: link_errors_test.py UCX_RUN LINK_JOB"""
import os
import subprocess
import sys

UCX_RUN, JOB = sys.argv[1:3]
DIED = "killed by signal 9"
ERRORS = {  # what goes wrong: a sentence, routes
    "closed": ("PE 0: error: a kernel sends 0 bytes on the link from PE 0 to PE 1 after its shutdown", ("net", "peer")),
    "channel": ("PE 0: error: a kernel uses channel 4 of a link to PE 1: it has channels 0 to 0", ("net", "peer")),
    "held": ("PE 1: error: a kernel waits for a packet on the link from PE 0 to PE 1 while it holds all 2 buffers: release one before", ("net", "peer")),
    "thrown": ("caught: something has gone wrong", ("net", "peer")),
    "dies-host": (DIED, ("net",)),
    "dies-stream": (DIED, ("peer",)),
    "dies-kernel": (DIED, ("net", "peer")),
    "dies-sends": (DIED, ("net", "peer")),
    "dies-copies": (DIED, ("peer",)),
}
wrong = []
for what, (sentence, of_routes) in ERRORS.items():
    for routes in of_routes:
        done = subprocess.run([UCX_RUN, "-n", "2", "--timeout", "30", JOB, what], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=dict(os.environ, GRAVEL_ROUTES=routes))
        if done.returncode in (0, 124) or sentence not in done.stderr:
            wrong.append(f"{what}, {routes}: status {done.returncode}, expected '{sentence}', got:\n{done.stderr}")
print("\n".join(wrong) or f"{len(ERRORS)} mistakes are told")
sys.exit(bool(wrong))
