"""A mistake of a sender of tasks ends the job with a message that names it; so does the death of a PE on which a task
runs. Usage: task_errors_test.py UCX_RUN TASK_JOB"""
import os
import subprocess
import sys

UCX_RUN, JOB = sys.argv[1:3]
ERRORS = {
    "unknown": "PE 0 has sent a task (id 0xfde0387) that task queue 0 here does not know",
    "payload": "PE 0: error: a task with 38000 bytes of payload and steps of a chain: the queue was opened for up to "
               "36000",
    "room": "all 8 slots there are taken, and the 8 for those that wait here",
    "dies": "PE 1",
    "finalize": "gravel_finalize: gravel_task_queue is still open",
    "forged": "PE 0 has sent a task (id 0x",
    "closed": "but no queue is open there: its handle was used after close()",
    "other": "that task queue 1 here does not know: it was opened without it",
}
ONE_ROUTE = {  # mistakes that are found before the routes part, or behind them
    "pe": ("net", "PE 0: error: a task for PE 2: the job has PEs 0 to 1"),
    "target": ("peer", "in no heap of"),
    "place": ("net", "in no heap of"),
    "chain": ("peer", "a chain of tasks of 18 words: it may have up to 12"),
    "memory": ("net", "a chain of tasks of 12 words: it may have up to 8"),
    "steps": ("peer", "PE 0: error: a task with 38400 bytes of payload and steps of a chain"),
    "itself": ("net", "PE 0 has sent a task (id 0x"),
    "step": ("peer", "PE 1 has sent a task (id 0xfde0387) that task queue 0 here does not know"),
    "endless": ("net", "with an invalid command: "),
    "into": ("peer", "a task with a payload of 64 bytes for byte 35940 of registered buffer 1, which has no room"),
    "buffer": ("net", "PE 0 has sent a task whose payload of 64 bytes is to lie at place 0x9000000000000"),
    "beyond": ("peer", "is to lie at place 0x1000000008ca0, which is in no buffer"),
    "own": ("net", "or in a queue's own memory"),
}
wrong = []


def check(what, routes, sentence):
    done = subprocess.run([UCX_RUN, "-n", "2", "--timeout", "60", JOB, what], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, env=dict(os.environ, GRAVEL_ROUTES=routes))
    if done.returncode in (0, 124) or sentence not in done.stderr:
        wrong.append(f"{what}, {routes}: status {done.returncode}, expected '{sentence}', got:\n{done.stderr}")


for name, text in ERRORS.items():
    for route in ("net", "peer"):
        check(name, route, text)
for name, (route, text) in ONE_ROUTE.items():
    check(name, route, text)
print("\n".join(wrong) or f"{len(ERRORS) + len(ONE_ROUTE)} mistakes are reported")
sys.exit(bool(wrong))
