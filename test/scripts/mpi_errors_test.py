"""A mistake in a call of the subset of MPI ends the job with a message that says what was wrong. Usage:
mpi_errors_test.py UCX_RUN MPI_SUBSET_JOB"""
import os
import subprocess
import sys

UCX_RUN, JOB = sys.argv[1:3]
OUTSIDE = "do not lie in the window of rank 0, which has 40 bytes"
ERRORS = {
    "displacement": f"MPI_Put: 4 bytes at displacement 10 (unit 4) {OUTSIDE}",
    "before": f"MPI_Put: 4 bytes at displacement -1 (unit 4) {OUTSIDE}",
    "rank": "MPI_Put: rank 1: the job has ranks 0 to 0",
    "type": "MPI_Put: unknown type 99: it takes MPI_CHAR, MPI_INT, MPI_LONG, MPI_FLOAT and MPI_DOUBLE",
    "counts": "MPI_Put: count or type differ between origin and target",
    "place": "MPI_Put: byte 4 of the window of rank 0 is no place for elements of 8 bytes",
    "operation": "MPI_Accumulate: unknown operation 0",
    "epoch": "MPI_Accumulate: no epoch for rank 0: call MPI_Win_fence",
    "unlock": "MPI_Win_unlock: rank 0 is not locked",
    "lock": "is locked by this process already",
    "freed": "MPI_Win_fence: MPI_WIN_NULL",
    "communicator": "MPI_Barrier: another communicator than MPI_COMM_WORLD",
    "assertion": "MPI_Win_fence: assertion 1: only 0 is supported",
    "characters": "MPI_Allreduce: MPI_CHAR, which is no number",
    "root": "MPI_Reduce: rank -1: the job has ranks 0 to 0",
    "dynamic": "MPI_Win_create_dynamic: not supported",
    "open": "MPI_Finalize: 1 windows are not freed",
    "early": "MPI_Comm_rank: called before MPI_Init",
    "late": "MPI_Barrier: called after MPI_Finalize",
}
wrong = []
for name, text in ERRORS.items():
    done = subprocess.run([UCX_RUN, "-n", "1", "--timeout", "60", JOB, name], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, env=dict(os.environ))
    if done.returncode in (0, 124) or text not in done.stderr:
        wrong.append(f"{name}: status {done.returncode}, expected '{text}', got:\n{done.stderr}")
print("\n".join(wrong) or f"{len(ERRORS)} mistakes are reported")
sys.exit(bool(wrong))
