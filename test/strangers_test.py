"""Who does not belong to a job has no way in: no process of it listens on a network, and whoever finds the port at which PEs meet is refused.

Run by Meson with UCX_RUN, FAILURE_JOB and BOOTSTRAP_PROBE in the environment.
"""
import os
import re
import signal
import unittest

from watched_job import Job, read

UCX_RUN, FAILURE_JOB, PROBE = (os.environ[name] for name in ("UCX_RUN", "FAILURE_JOB", "BOOTSTRAP_PROBE"))


def listeners(pids):
    """(address, pid) of each socket that listens for TCP, or takes what anybody sends by UDP, of these processes."""
    owner = {}
    for pid in pids:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                owner[os.readlink(f"/proc/{pid}/fd/{fd}")] = pid
            except OSError:
                pass
    found = []
    for table, state in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")):
        for line in read(f"/proc/net/{table}").decode().splitlines()[1:]:
            fields = line.split()
            if fields[3] == state and f"socket:[{fields[9]}]" in owner:
                found.append((table, fields[1], owner[f"socket:[{fields[9]}]"]))
    return found


class Strangers(unittest.TestCase):
    def start(self, *command, program=FAILURE_JOB, **environment):
        job = Job([UCX_RUN, *map(str, command)], program, **environment)
        self.addCleanup(job.clean_up)
        return job

    def end(self, job, status):
        got, left = job.end()
        self.assertEqual((got, left, job.leftovers()), (status, {}, set()), job.text)

    def test_find_no_listener(self):
        for n, nodes in ((2, 1), (4, 2), (3, 3)):
            with self.subTest(n=n, nodes=nodes):
                job = self.start("-n", n, "--nodes", nodes, FAILURE_JOB, "--fault", "traffic")
                self.assertEqual(len(job.ready(n)), n, job.text)
                self.assertEqual(len(job.aggregators()), nodes)
                self.assertEqual(listeners(set(job.processes()) - {job.process.pid}), [])
                os.kill(job.process.pid, signal.SIGTERM)
                self.end(job, 143)

    def test_find_one_where_the_user_wants_tcp(self):
        """That is: the test above sees what there is."""
        job = self.start("-n", 2, "--nodes", 2, FAILURE_JOB, "--fault", "traffic", UCX_TLS="tcp,self")
        self.assertEqual(len(job.ready(2)), 2, job.text)
        self.assertNotEqual(listeners(job.aggregators().values()), [])
        os.kill(job.process.pid, signal.SIGTERM)
        self.end(job, 143)


if __name__ == "__main__":
    unittest.main()
