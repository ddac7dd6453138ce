"""A process that does not belong to a job cannot join it: no process of the job listens on a network, and a stranger
that finds the port of the rendezvous is refused.

Run by Meson with UCX_RUN, FAILURE_JOB and BOOTSTRAP_PROBE in the environment.
"""
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from watched_job import START_S, Job, read, wait_for

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
                self.assertEqual(listeners(job.processes()), [])
                os.kill(job.process.pid, signal.SIGTERM)
                self.end(job, 143)

    def test_find_one_where_the_user_wants_tcp(self):
        """That is: the test above sees what there is. In the aggregators alone."""
        job = self.start("-n", 2, "--nodes", 2, FAILURE_JOB, "--fault", "traffic", UCX_TLS="tcp,self")
        self.assertEqual(len(job.ready(2)), 2, job.text)
        self.assertEqual({pid for _, _, pid in listeners(job.processes())}, set(job.aggregators().values()))
        os.kill(job.process.pid, signal.SIGTERM)
        self.end(job, 143)

    def test_cannot_join(self):
        """While PE 1 is still awaited, hence the port is open; by the right name or a guessed one, in place of a PE
        that is there or not."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        script = f"[ $PMIX_RANK = 0 ] || while [ ! -e {folder}/go ]; do sleep 0.05; done; exec {PROBE} exchange 0 10"
        job = self.start("-n", 2, "/bin/sh", "-c", script, program=PROBE)
        pe0 = wait_for(lambda: job.pes().get(0), START_S)
        self.assertTrue(pe0, job.text)
        # A child has its parent's sockets until it becomes another program.
        owners = wait_for(lambda: [x for _, _, x in listeners(job.processes())] == [job.process.pid], START_S)
        self.assertTrue(owners, listeners(job.processes()))
        entries = read(f"/proc/{pe0}/environ").decode().split("\0")
        environment = dict(entry.split("=", 1) for entry in entries if entry.startswith("PMIX_"))
        self.assertRegex(environment["PMIX_NAMESPACE"], "^ucx-run-[0-9a-f]{32}$")
        users = [[]]
        if os.geteuid() == 0 and shutil.which("setpriv"):
            users.append(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
        for user in users:
            for name in (environment["PMIX_NAMESPACE"], f"ucx-run-{job.process.pid}"):
                for rank in "01":
                    with self.subTest(user=user, name=name, rank=rank):
                        variables = {**os.environ, **environment, "PMIX_NAMESPACE": name, "PMIX_RANK": rank}
                        answer = subprocess.run([*user, PROBE, "exchange", "0", "10"], capture_output=True, text=True,
                                                timeout=60, env=variables)
                        self.assertEqual((answer.returncode, answer.stdout), (1, ""))
                        self.assertIn("cannot join the job", answer.stderr)
        open(folder + "/go", "w").close()
        self.end(job, 0)
        self.assertEqual(sorted(job.out.splitlines()), [b"PE 0 of 2 is content", b"PE 1 of 2 is content"])
        refused = "a process that does not belong to the job wanted to join the job: refused"
        self.assertRegex(job.text, rf"^ucx-run: warning: {refused}\n$")

    def test_cannot_be_a_pe_twice(self):
        """Several processes of one PE at the same time (children inherit its environment): the first is the PE. Some
        connect before PMIx has reported that the first has joined."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        others = 8
        script = (f"if [ $PMIX_RANK = 0 ]; then for i in $(seq {others + 1}); do "
                  f"({PROBE} exchange 0 10 || echo $? >{folder}/$i) & done; wait; "
                  f"else while [ $(ls {folder} | wc -l) -lt {others} ]; do sleep 0.05; done; {PROBE} exchange 0 10; fi")
        job = self.start("-n", 2, "bash", "-c", script, program=PROBE)
        self.end(job, 0)
        self.assertEqual(sorted(job.out.splitlines()), [b"PE 0 of 2 is content", b"PE 1 of 2 is content"])
        self.assertEqual([read(f"{folder}/{name}") for name in os.listdir(folder)], [b"1\n"] * others)
        self.assertRegex(job.text, r"a second process of PE 0 \(pid \d+\) wanted to join the job: refused")

    def test_silent_child_keeps_nobody_out(self):
        """A child of a PE connects and says nothing: it is not the PE, and the PE's program joins."""
        for then in ("keeps", "closes"):
            with self.subTest(then=then):
                folder = tempfile.mkdtemp()
                self.addCleanup(shutil.rmtree, folder)
                close = "exec 9>&-;" if then == "closes" else ""
                script = (f"[ $PMIX_RANK = 0 ] || exec {PROBE} exchange 0 10; "
                          "for name in ${!PMIX_SERVER_URI*}; do port=${!name##*:}; done; "
                          f"(exec 9<>/dev/tcp/127.0.0.1/$port; {close} >{folder}/connected; "
                          f"while [ ! -e {folder}/end ]; do sleep 0.05; done) & "
                          f"while [ ! -e {folder}/connected ]; do sleep 0.05; done; "
                          f"{PROBE} exchange 0 10; status=$?; >{folder}/end; wait; exit $status")
                job = self.start("-n", 2, "--timeout", 60, "bash", "-c", script, program=PROBE)
                self.end(job, 0)
                self.assertEqual(sorted(job.out.splitlines()), [b"PE 0 of 2 is content", b"PE 1 of 2 is content"])
                self.assertNotIn("wanted to join", job.text)


if __name__ == "__main__":
    unittest.main()
