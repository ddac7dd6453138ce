"""A wrong call of a kernel on a link ends the job with a message that names the call and both ends. So does the death
of a PE that others wait for, and an exception that passes an open link. A wait without end is reported. Usage:
link_errors_test.py UCX_RUN LINK_JOB"""
import os
import re
import subprocess
import sys

UCX_RUN, JOB = sys.argv[1:3]
DIED = "killed by signal 9"
ERRORS = {  # what goes wrong: a sentence, routes
    "closed": ("PE 0: error: a kernel sends 0 bytes on the link from PE 0 to PE 1 after its shutdown", ("net", "peer")),
    "lane": ("PE 0: error: a kernel uses lane 4 of a link to PE 1: it has lanes 0 to 0", ("net", "peer")),
    "held": ("PE 1: error: a kernel waits for a packet on the link from PE 0 to PE 1 while it holds all 2 buffers: "
             "release one before", ("net", "peer")),
    "element": ("error: a merge of elements of 40 bytes along a path with PE 1: the router's packets have 16 bytes: "
                "open it with packet_bytes of an element or more", ("net",)),
    "thrown": ("caught: something has gone wrong", ("net", "peer")),
    "open": ("gravel_finalize: gravel_link (the link from device 0 of PE 0 to device 0 of PE 1) is still open: "
             "end it before", ("net",)),
    "dies-host": (DIED, ("net",)),
    "dies-stream": (DIED, ("peer",)),
    "dies-kernel": (DIED, ("net", "peer")),
    "dies-sends": (DIED, ("net", "peer")),
    "dies-copies": (DIED, ("peer",)),
}
wrong = []
for what, (sentence, of_routes) in ERRORS.items():
    for routes in of_routes:
        done = subprocess.run([UCX_RUN, "-n", "2", "--timeout", "30", JOB, what], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, env=dict(os.environ, GRAVEL_ROUTES=routes))
        if done.returncode in (0, 124) or sentence not in done.stderr:
            wrong.append(f"{what}, {routes}: status {done.returncode}, expected '{sentence}', got:\n{done.stderr}")

FULL = (r"what was sent on the link from device 1 of PE 0 to device 0 of PE 0 to leave: "
        r"its 2 buffers at a destination are full until segments are received")
NO_BUFFER = (r"a kernel has waited \d+ s \(GRAVEL_WATCHDOG_S\) for a free buffer for packet 2 of the link to PE 0: "
             r"what was sent before has not been released there")
HOST = r"PE 0: warning: a thread of the host has waited \d+ s \(GRAVEL_WATCHDOG_S\) for "
WAITS = {  # how one thread waits for itself: sentences
    "event": (NO_BUFFER, HOST + "the word at offset 0x[0-9a-f]+ of the symmetric heap to be >= 1"),
    "sends": (NO_BUFFER, HOST + FULL),
    "host": (HOST + r"a segment on the router's output at device 0 of PE 0, by gravel_pending_segment::get\(\): "
             "nothing comes, and 2 of its 2 sources have not shut down; 1 segments are pending, 0 not released",),
}
for how, sentences in WAITS.items():
    job = subprocess.Popen([UCX_RUN, "-n", "2", "--timeout", "60", JOB, "waits", how], stdin=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True, env=dict(os.environ, GRAVEL_WATCHDOG_S="1"))
    text = ""
    for line in job.stderr:
        text += line
        if all(re.search(sentence, text) for sentence in sentences):
            break
    else:
        wrong.append(f"waits {how}: expected {sentences}, got:\n{text}")
    job.terminate()
    job.communicate()
print("\n".join(wrong) or f"{len(ERRORS)} mistakes and {len(WAITS)} waits are reported")
sys.exit(bool(wrong))
