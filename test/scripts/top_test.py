"""gravel-top beside a job: what it shows, whom the aggregator refuses, and that no watcher disturbs the job.

Run by Meson with UCX_RUN, WATCHED_JOB and GRAVEL_TOP in the environment.
"""
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import unittest

from watched_job import START_S, Job, read, wait_for

UCX_RUN, PROGRAM, TOP = (os.environ[name] for name in ("UCX_RUN", "WATCHED_JOB", "GRAVEL_TOP"))
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
N = 3


class Top(unittest.TestCase):
    def setUp(self):
        before = self.names()
        # The PEs' reports come every twentieth part of it.
        self.job = Job(["/bin/sh", "-c", f'exec {UCX_RUN} -n {N} --nodes 2 {PROGRAM} "$TMPDIR/1" "$TMPDIR/2"'], PROGRAM,
                       GRAVEL_WATCHDOG_S=20)
        self.addCleanup(self.job.clean_up)
        self.assertTrue(wait_for(lambda: self.job.out.count(b"ready") == N, START_S), self.job.text)
        self.own = self.names() - before

    @staticmethod
    def names():
        return {name.decode() for name in re.findall(rb"@(gravel-sample-\w+)", read("/proc/net/unix"))}

    def go(self, part):
        open(f"{self.job.tmp}/{part}", "w").close()

    def end(self):
        """The job ends well, whoever has watched it."""
        self.go(1)
        self.go(2)
        got, left = self.job.end()
        self.assertEqual((got, left), (0, {}), self.job.text)

    def top(self, *words, before=()):
        return subprocess.run([*before, TOP, "--job", str(self.job.process.pid), *words], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)

    def sample(self):
        done = self.top("--once", "--json", "--interval", "0.5")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("\n"), 1)
        return json.loads(done.stdout)

    def test_shows_messages_and_who_waits(self):
        first, second = self.sample(), self.sample()
        self.assertEqual((first["program"], first["launcher"]), (os.path.basename(PROGRAM)[:15], self.job.process.pid))
        self.assertEqual((first["n_pes"], first["n_nodes"]), (N, 2))
        self.assertEqual({node["process"] for node in first["nodes"]}, set(self.job.aggregators().values()))
        self.assertEqual({pe["pe"]: pe["process"] for pe in first["pes"]}, self.job.pes())
        for a, b in zip(first["nodes"], second["nodes"]):
            self.assertGreater(b["total"]["messages_taken"], a["total"]["messages_taken"])
            self.assertGreater(b["per_second"]["packets"], 0)
            self.assertGreater(b["per_second"]["packet_bytes"], 0)
        for pe in second["pes"]:
            to = pe["messages_taken_to"]  # to the two others; on the own node perhaps by another route
            self.assertEqual(len(to), N)
            self.assertEqual(to[pe["pe"]], 0)
            self.assertGreater(pe["messages_taken_per_second"], 0)
            self.assertGreaterEqual(pe["queues"]["warp"]["slots"], pe["queues"]["warp"]["waiting"])
            self.assertGreater(pe["landing"]["device"]["arrived"], 0)
        # PE 2 is alone on its node, so all that it sends goes through its aggregator.
        alone = next(node["total"]["messages_taken"] for node in second["nodes"] if node["node"] == 1)
        self.assertAlmostEqual(sum(second["pes"][2]["messages_taken_to"]), alone, delta=max(1000, alone // 2))
        self.go(1)
        waits = wait_for(lambda: {wait["pe"]: wait for wait in self.sample()["waits"]
                                  if "gravel_barrier_all" in wait["text"]}.keys() >= {0, 2}, START_S)
        self.assertTrue(waits)
        waits = {wait["pe"]: wait["for"] for wait in self.sample()["waits"] if "gravel_barrier_all" in wait["text"]}
        self.assertEqual(waits, {0: [1], 2: [1]})
        text = self.top("--once").stdout
        self.assertIn("PE 0 is in gravel_barrier_all", text)
        self.assertIn("waits for PE 1\n", text)
        reports = wait_for(lambda: all("report_age_s" in pe for pe in self.sample()["pes"]), START_S)
        self.assertTrue(reports)
        self.end()

    def test_job_that_ends_ends_the_watch(self):
        watcher = subprocess.Popen([TOP, "--job", str(self.job.process.pid), "--interval", "0.1"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(watcher.kill)
        ours, theirs = pty.openpty()
        on_terminal = subprocess.Popen([TOP, "--job", str(self.job.process.pid)], stdout=theirs, stderr=theirs)
        self.addCleanup(on_terminal.kill)
        os.close(theirs)
        self.assertIn(f"{N} PEs on 2 nodes", watcher.stdout.readline())
        screen = b""
        while b"\033[J" not in screen:
            screen += os.read(ours, 1 << 16)
        self.assertIn(b"\033[H" + os.path.basename(PROGRAM)[:15].encode(), screen)
        self.end()
        self.assertEqual(on_terminal.wait(timeout=60), 0)
        os.close(ours)
        _, text = watcher.communicate(timeout=30)
        self.assertEqual(watcher.returncode, 0)
        self.assertIn("the job has ended", text)

    def test_watchers_that_do_not_read_are_harmless(self):
        self.assertEqual(len(self.own), 2)
        held = []
        for name in sorted(self.own):
            for i in range(50):
                held.append(socket.socket(socket.AF_UNIX))
                held[-1].connect("\0" + name)
                if i % 2:
                    try:
                        held[-1].send(b"garbage" * 100)
                    except (BrokenPipeError, ConnectionResetError):
                        pass  # it has been answered
        watcher = subprocess.Popen([TOP, "--job", str(self.job.process.pid), "--interval", "0.05", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        watcher.stdout.readline()
        os.kill(watcher.pid, signal.SIGSTOP)
        self.sample()
        self.end()
        watcher.kill()
        watcher.communicate()
        for one in held:
            one.close()

    def test_other_user_is_refused(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("needs root, to be another user")
        # Nobody need not be able to read the build's folder.
        copy = shutil.copy(TOP, self.job.tmp)
        os.chmod(self.job.tmp, 0o755)
        done = subprocess.run([*AS_NOBODY, copy, "--once"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no job of this user runs on this host", done.stderr)
        self.assertRegex(done.stderr, r"of user 65534 connected|connected to a socket of user 65534|of user 0")
        # The other end checks, too: bytes do not come even to who does not look at the user.
        name = sorted(self.own)[0]
        script = (f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0{name}'); s.settimeout(20)\n"
                  "try: print(len(s.recv(1)))\nexcept ConnectionResetError: print(0)")
        done = subprocess.run([*AS_NOBODY, "python3", "-c", script], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "0\n", done.stderr)
        self.end()

    def test_names_the_job(self):
        pid = self.job.pes()[1]
        done = subprocess.run([TOP, "--job", str(pid), "--once", "--interval", "0.1"], capture_output=True, text=True,
                              timeout=60)
        self.assertIn(f"started by process {self.job.process.pid}", done.stdout, done.stderr)
        done = subprocess.run([TOP, "--job", "nothing-of-this-name"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no job is called 'nothing-of-this-name' (--job); there are:", done.stderr)
        self.assertIn(f"started by process {self.job.process.pid}: {N} PEs on 2 nodes", done.stderr)
        self.end()


class WithoutJob(unittest.TestCase):
    def test_says_how_to_start_one(self):
        if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode:
            self.skipTest("needs a network namespace of its own, where no job is")
        done = subprocess.run(["unshare", "-n", TOP], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no job of this user runs on this host; start one, such as 'ucx-run -n 2", done.stderr)

    def test_wrong_options(self):
        for words in (["--interval", "0"], ["--interval", "soon"], ["--onec"]):
            with self.subTest(words=words):
                done = subprocess.run([TOP, *words], capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 2)
                self.assertIn(words[0], done.stderr)


if __name__ == "__main__":
    unittest.main()
