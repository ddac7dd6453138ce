"""A job that fails ends within ten seconds, says which PE did what and why, and leaves nothing behind.

Run by Meson with UCX_RUN, FAILURE_JOB and MPIRUN (may be empty) in the environment.
"""
import contextlib
import ctypes
import glob
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

from watched_job import LIMIT_S, POLITE, START_S, Job, read, wait_for

UCX_RUN = os.environ["UCX_RUN"]
FAILURE_JOB = os.environ["FAILURE_JOB"]
ON_GPU = not FAILURE_JOB.endswith("-cpu")
MPIRUN = os.environ.get("MPIRUN", "")
SEED = int(os.environ.get("FAILURE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
LIBC, SYS_TGKILL = ctypes.CDLL(None), {"x86_64": 234, "aarch64": 131}[os.uname().machine]


class FailureTest(unittest.TestCase):
    n, nodes = 4, 2

    def start(self, fault, *arguments, launcher="ucx-run", options=(), **environment):
        program = [FAILURE_JOB, "--fault", fault, *map(str, arguments)]
        if launcher == "ucx-run":
            command = [UCX_RUN, "-n", str(self.n), "--nodes", str(self.nodes), *options, *program]
        elif launcher == "mpirun":
            environment.setdefault("GRAVEL_NODES", self.nodes)
            command = [MPIRUN, "--oversubscribe", "-n", str(self.n), *options, *program]
        else:
            command = [*launcher, *program]
        job = Job(command, FAILURE_JOB, **environment)
        self.addCleanup(job.clean_up)
        return job

    def assert_clean(self, job, left):
        self.assertEqual(left, {}, "processes left behind; stderr:\n" + job.text)
        self.assertEqual(job.leftovers(), set(), "files left behind; stderr:\n" + job.text)
        self.assertNotRegex(job.text, "ERROR: AddressSanitizer|runtime error: ")

    def assert_failed(self, job, *causes, status=None, limit_s=LIMIT_S):
        """The job ends in time, not well, with each of the causes (regular expressions) on stderr, and leaves nothing.
        If the test has hurt the job, the time counts from now. Any other job must report in time after its begin, and
        end in time after its report."""
        if not job.was_hurt:
            text = (f"neither says {causes} nor ends, {limit_s} s after it began, {START_S} s after its start; "
                    f"begun: {job.out.count(b'begun')}; stderr:\n{job.text}")
            self.assertTrue(job.says(self.n, limit_s, *causes), text)
        got, left = job.end(limit_s)
        self.assertIsNotNone(got, f"still running after {limit_s} s; stderr:\n{job.text}")
        self.assert_clean(job, left)
        self.assertNotEqual(got, 0, "stderr:\n" + job.text)
        if status is not None:
            self.assertEqual(got, status, "stderr:\n" + job.text)
        for cause in causes:
            self.assertRegex(job.text, cause)

    def assert_fine(self, job, limit_s=60):
        got, left = job.end(limit_s)
        self.assertEqual(got, 0, "stderr:\n" + job.text)
        self.assert_clean(job, left)

    def kill_at(self, fault, victim, launcher="ucx-run", arguments=(), **environment):
        """Kills PE `victim`, or with ("aggregator", PE) the aggregator which that PE started."""
        job = self.start(fault, *arguments, launcher=launcher, **environment)
        ready = job.ready(self.n)
        self.assertEqual(sorted(ready), list(range(self.n)), job.text)
        if fault in ("barrier", "finalize"):
            time.sleep(0.1)  # most of them wait by now; if not, that is a moment like any other
        if fault in ("heap", "register"):
            time.sleep(random.Random(SEED).uniform(0, 0.1))
        if isinstance(victim, int):
            job.hurt(ready[victim])
            if launcher == "mpirun":
                # Open MPI 5 breaks its lines, anywhere.
                self.assert_failed(job, rf"(rank\s+{victim}\s[^;]{{0,200}}?exited\s+on\s+signal\s+9|"
                                        rf"PE {victim} .*ended without)")
            else:
                self.assert_failed(job, rf"PE {victim} \(pid {ready[victim]}, .*killed by signal 9", status=137)
        else:
            node = victim[1] * self.nodes // self.n
            job.hurt(job.aggregators()[victim[1]])
            self.assert_failed(job, rf"aggregator of node {node} \(process \d+\) was killed by signal 9")


    def kill_if_there(self, job, pid):
        if pid:
            with contextlib.suppress(ProcessLookupError):
                job.hurt(pid)

    def assert_all_or_nothing(self, job):
        """The kill came too late and the job ended well, or the job failed with a cause; nothing in between."""
        status, left = job.end(LIMIT_S if job.was_hurt else START_S)
        self.assertIsNotNone(status, job.text)
        self.assert_clean(job, left)
        if status == 0:
            self.assertEqual(job.out.count(b"done"), self.n, job.text)
        else:
            self.assertRegex(job.text, "killed by signal 9|ended without gravel_finalize|lost the|aggregator")


class Killed(FailureTest):
    victims = (0, 2, 3, ("aggregator", 0), ("aggregator", 2))

    def kill_each(self, fault, arguments=()):
        for victim in self.victims:
            with self.subTest(victim=victim):
                self.kill_at(fault, victim, arguments=arguments)

    def test_while_idle(self):
        self.kill_each("idle")

    def test_in_traffic(self):
        self.kill_each("traffic")

    def test_while_slots_are_sent(self):
        """Everything goes to other nodes straight from slots."""
        for victim in self.victims:
            with self.subTest(victim=victim):
                self.kill_at("traffic", victim, GRAVEL_ZERO_COPY_SIZE=1, GRAVEL_SLOTS=8)

    def test_in_a_barrier(self):
        self.kill_each("barrier", ("--pe", 3))

    def test_while_heaps_grow(self):
        """A process dies while PEs commit memory, pass on its descriptors, map it, or take it away."""
        for victim in self.victims:
            with self.subTest(victim=victim):
                self.kill_at("heap", victim, GRAVEL_ROUTES="auto" if ON_GPU else "peer")

    def test_while_memory_is_registered(self):
        """The same while PEs pass on descriptors of memory of the program, map it, or take it away."""
        for victim in self.victims:
            with self.subTest(victim=victim):
                self.kill_at("register", victim, GRAVEL_ROUTES="auto" if ON_GPU else "peer")

    def test_in_two_hops(self):
        self.n = self.nodes = 6
        for victim in (4, ("aggregator", 1)):
            with self.subTest(victim=victim):
                self.kill_at("traffic", victim, GRAVEL_TWO_HOP_NODES=4)

    def test_in_finalize(self):
        self.kill_each("finalize", ("--pe", 1))

    def test_while_all_finalize(self):
        chance = random.Random(SEED)
        for victim in (*range(self.n), ("aggregator", 0), ("aggregator", 2)):
            with self.subTest(victim=victim, FAILURE_SEED=SEED):
                job = self.start("all-finalize")
                ready = job.ready(self.n)
                pid = ready.get(victim) if isinstance(victim, int) else job.aggregators().get(victim[1])
                time.sleep(chance.uniform(0, 0.02))
                self.kill_if_there(job, pid)
                self.assert_all_or_nothing(job)

    def test_during_init(self):
        chance = random.Random(SEED)
        for number in range(24):
            victim = (0, 1, 2, 3, ("aggregator", 0), ("aggregator", 2))[number % 6]
            delay = chance.uniform(0, 0.2)
            with self.subTest(victim=victim, delay=delay, FAILURE_SEED=SEED):
                job = self.start("idle")
                if isinstance(victim, int):
                    pid = wait_for(lambda: job.pes().get(victim), START_S)
                else:
                    pid = wait_for(lambda: job.aggregators().get(victim[1]), START_S)
                self.assertTrue(pid, job.text)
                time.sleep(delay)
                job.hurt(pid)
                if isinstance(victim, int):
                    self.assert_failed(job, rf"PE {victim} .*killed by signal 9", status=137)
                else:
                    self.assert_failed(job, rf"aggregator of node {victim[1] // 2}|aggregator at '")

    @unittest.skipUnless(MPIRUN, "no Open MPI")
    def test_under_mpirun(self):
        for fault, victim in (("idle", 0), ("traffic", 3), ("barrier", 2), ("finalize", ("aggregator", 0)),
                              ("traffic", ("aggregator", 2))):
            with self.subTest(fault=fault, victim=victim):
                self.kill_at(fault, victim, launcher="mpirun")

    def test_without_a_launcher(self):
        for what in ("PE", "aggregator"):
            with self.subTest(what):
                job = self.start("traffic", launcher=())
                pid = job.ready(1)[0]
                job.hurt(pid if what == "PE" else job.aggregators()[0])
                self.assert_failed(job, "PE 0 .process .*ended without gravel_finalize" if what == "PE" else
                                   "aggregator of node 0 .*was killed by signal 9")

    def test_nobody_with_closed_descriptors(self):
        """A file that Gravel opens must not become standard output or error of any process."""
        self.assert_fine(self.start("none", launcher=("/bin/sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-')))

    def test_without_a_launcher_while_it_starts(self):
        """The aggregator dies, at any moment: no other process cleans up after it."""
        chance = random.Random(SEED)
        for _ in range(6):
            job = self.start("idle", launcher=())
            aggregator = wait_for(lambda: job.aggregators().get(0), START_S)
            time.sleep(chance.uniform(0, 0.03))
            job.hurt(aggregator)
            self.assert_failed(job, "aggregator")

    def test_launcher(self):
        for launcher in ("ucx-run",) + (("mpirun",) if MPIRUN else ()):
            for fault in ("idle", "traffic"):
                with self.subTest(launcher, fault=fault):
                    job = self.start(fault, launcher=launcher)
                    self.assertEqual(len(job.ready(self.n)), self.n, job.text)
                    job.process.kill()
                    status, left = job.end()
                    self.assertEqual((status, left), (-9, {}), job.text)
                    if launcher == "ucx-run":  # what it could not remove itself, the next one does
                        again = Job([UCX_RUN, "-n", "1", FAILURE_JOB, "--fault", "none"], FAILURE_JOB, TMPDIR=job.tmp)
                        self.addCleanup(again.clean_up)
                        self.assert_fine(again)
                        self.assertEqual(os.listdir(job.tmp), [])

    def test_launcher_during_init(self):
        chance = random.Random(SEED)
        for _ in range(6):
            delay = chance.uniform(0, 0.3)
            with self.subTest(delay=delay, FAILURE_SEED=SEED):
                job = self.start("idle")
                time.sleep(delay)
                job.process.kill()
                status, left = job.end()
                self.assertEqual((status, left), (-9, {}), job.text)

    def test_by_polite_signals(self):
        for number in POLITE:
            with self.subTest(number.name):
                job = self.start("traffic")
                self.assertEqual(len(job.ready(self.n)), self.n, job.text)
                job.hurt(job.process.pid, number)
                self.assert_failed(job, rf"PE \d .*signal {number.value} ", status=128 + number)

    def test_by_the_time_limit(self):
        job = self.start("traffic", options=("--timeout", "1"))
        self.assert_failed(job, "--timeout", status=124, limit_s=LIMIT_S + 1)


    def test_pmix_in_the_launcher(self):
        """PMIx may crash in ucx-run; what is left of ucx-run must still end the job."""
        for number in (signal.SIGSEGV, signal.SIGABRT):
            with self.subTest(number.name):
                job = self.start("traffic")
                self.assertEqual(len(job.ready(self.n)), self.n, job.text)
                launcher = job.process.pid
                thread = next((tid for tid in map(int, os.listdir(f"/proc/{launcher}/task"))
                               if tid != launcher and not self.blocks(tid, number)), None)
                if thread is None:
                    self.skipTest("all threads of this PMIx block this signal")
                job.was_hurt = True
                self.assertEqual(LIBC.syscall(SYS_TGKILL, launcher, thread, number.value), 0)
                self.assert_failed(job, "PMIx, which connects the PEs, has crashed", status=1)

    @staticmethod
    def blocks(thread, number):
        mask = re.search(rb"SigBlk:\s*(\w+)", read(f"/proc/{thread}/status"))
        return int(mask[1], 16) >> (number - 1) & 1

    def test_at_any_moment(self):
        chance = random.Random(SEED)
        for number in range(16):
            victim = chance.choice((0, 1, 2, 3, ("aggregator", 0), ("aggregator", 2)))
            delay = chance.uniform(0, 0.6)
            with self.subTest(number=number, victim=victim, delay=delay, FAILURE_SEED=SEED):
                job = self.start("many", "--messages", 1_000_000)
                time.sleep(delay)
                pid = job.pes().get(victim) if isinstance(victim, int) else job.aggregators().get(victim[1])
                self.kill_if_there(job, pid)
                self.assert_all_or_nothing(job)


class Stopped(FailureTest):
    def test_pe(self):
        for pe in (0, 3):
            with self.subTest(pe=pe):
                job = self.start("traffic", GRAVEL_WATCHDOG_S=2)
                job.hurt(job.ready(self.n)[pe], signal.SIGSTOP)
                # A GPU goes on without its process, and may have applied everything.
                cause = r"no progress for 2 s \(GRAVEL_WATCHDOG_S\)"
                progress = rf"to PE {pe}.*: \d+ packets sent, \d+ freed, \d+ applied, \d+ credits left"
                if ON_GPU:
                    cause += rf"|PE {pe} \(process \d+\) has not run for 4 s"
                    progress = "plane "
                self.assert_failed(job, cause, progress, r"plane \d+ of node \d: \d+ messages taken",
                                   r"PE \d .*queue: \d+ slots taken", r"collective \d+", limit_s=LIMIT_S + 2)

    def test_pe_to_which_nobody_sends(self):
        job = self.start("barrier", "--pe", 3, GRAVEL_WATCHDOG_S=1)
        job.hurt(job.ready(self.n)[3], signal.SIGSTOP)
        self.assert_failed(job, r"PE 3 \(process \d+\) has not run for 2 s",
                           r"collective \d+: this node waits for PE 3", limit_s=LIMIT_S + 2)

    def test_aggregator(self):
        job = self.start("traffic", GRAVEL_WATCHDOG_S=2)
        job.ready(self.n)
        job.hurt(job.aggregators()[2], signal.SIGSTOP)
        self.assert_failed(job, r"the aggregator of node 1 has not run for 2 s|no progress for 2 s",
                           limit_s=LIMIT_S + 2)

    def test_whole_job_goes_on_afterwards(self):
        # Small packets: on a busy machine a slow handler needs long for a large one, which looks like no progress.
        job = self.start("slow", "--messages", 3000, GRAVEL_WATCHDOG_S=2, GRAVEL_PACKET_SIZE="4K")
        pids = wait_for(lambda: len(p := list(job.processes())) == self.n + self.nodes + 1 and p, START_S)
        self.assertTrue(pids, job.text)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(3)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        self.assert_fine(job)

    def test_pe_that_never_starts(self):
        chance = random.Random(SEED)
        for delay in (0, *(chance.uniform(0, 0.03) for _ in range(3))):  # also inside PMIx_Init
            with self.subTest(delay=delay, FAILURE_SEED=SEED):
                job = self.start("barrier", "--pe", 3, GRAVEL_CONNECT_TIMEOUT_S=2, GRAVEL_WATCHDOG_S=2)
                pid = wait_for(lambda: job.pes().get(1), START_S)
                time.sleep(delay)
                job.hurt(pid, signal.SIGSTOP)
                self.assert_failed(job, "GRAVEL_CONNECT_TIMEOUT_S|GRAVEL_WATCHDOG_S", limit_s=LIMIT_S + 5)


class Waits(FailureTest):
    """For what does not come: they are reported again and again, and go on until it does come."""

    def assert_reported(self, fault, sentence, **environment):
        job = self.start(fault, "--pe", 1, GRAVEL_WATCHDOG_S=1, **environment)
        ready = job.ready(self.n)
        self.assertEqual(len(ready), self.n, job.text)
        wait_for(lambda: len(re.findall(sentence, job.text)) >= 2 or job.process.poll() is not None, START_S)
        os.kill(ready[0], signal.SIGUSR1)
        self.assert_fine(job)
        times = [int(s) for s in re.findall(sentence, job.text)]
        self.assertGreaterEqual(len(times), 2, job.text)
        self.assertGreaterEqual(times[0], 1)
        self.assertGreaterEqual(times[1], 2 * times[0])
        self.assertLess(job.text.count("It goes on waiting"), 10, job.text)

    def test_of_a_kernel(self):
        for routes in ("net", "peer"):
            with self.subTest(routes=routes):
                self.assert_reported(
                    "wait-kernel",
                    r"PE 1: warning: a kernel has waited (\d+) s \(GRAVEL_WATCHDOG_S\) for the word at offset 0x0 of "
                    r"the symmetric heap to be >= 5 \(gravel_wait_until or gravel_wait\); it is 0; "
                    r"block \(1,0,0\), thread \(3,0,0\)\. It goes on waiting", GRAVEL_ROUTES=routes)

    def test_of_a_host_thread(self):
        self.assert_reported(
            "wait-host",
            r"PE 1: warning: a thread of the host has waited (\d+) s \(GRAVEL_WATCHDOG_S\) for the word at offset 0x0 "
            r"of the symmetric heap to be == 5 \(gravel_wait_until or gravel_wait\); it is 0\. It goes on waiting")

    def test_of_a_collective_of_kernels(self):
        self.assert_reported(
            "wait-collective",
            r"PE 1: warning: a kernel has waited (\d+) s \(GRAVEL_WATCHDOG_S\) for PE \d to call a collective of "
            r"kernels \(gravel_barrier_block and the like\), too; block \(0,0,0\), thread \(0,0,0\)")

    def test_of_a_channel(self):
        for who in ("a kernel", "a thread of the host"):
            with self.subTest(who):
                self.assert_reported(
                    "wait-channel",
                    rf"PE 1: warning: {who} has waited (\d+) s \(GRAVEL_WATCHDOG_S\) for an element of a channel: none "
                    r"is put into it, and it has not ended")

    def test_of_an_asynchronous_worklist(self):
        self.assert_reported(
            "wait-worklist",
            r"PE 1: warning: a kernel has waited (\d+) s \(GRAVEL_WATCHDOG_S\) for PE 0 to work off its vertices of an "
            r"asynchronous worklist: none is left here; block \(0,0,0\), thread \(0,0,0\)\. It goes on waiting")

    def test_of_a_task_graph_of_all_pes(self):
        self.assert_reported(
            "wait-tasks",
            r"PE 1: warning: a kernel has waited (\d+) s \(GRAVEL_WATCHDOG_S\) for PE 0 to finish its own tasks of a "
            r"shared task graph: none of this PE's own is left; block \(0,0,0\), thread \(0,0,0\)\. It goes on waiting")


class Handlers(FailureTest):
    def test_that_throws(self):
        for fault, name in (("throw", "thrower"), ("throw-host", "host_thrower")):
            if fault == "throw" and ON_GPU:
                continue  # no exceptions there
            with self.subTest(fault):
                self.assert_failed(self.start(fault), rf"PE 2: .*handler '{name}' threw: the handler's own reason")

    def test_kernel_that_fails(self):
        cause = "PE 1: .*the kernel's own reason"
        unheard = "PE 1: .*a kernel failed, and the program has not waited for it since: the kernel's own reason"
        if ON_GPU:
            cause = unheard = "PE 1: .*a kernel of gravel_launch"
        self.assert_failed(self.start("kernel"), cause)
        self.assert_failed(self.start("kernel-unheard"), unheard)

    def test_that_blocks(self):
        self.assert_failed(self.start("block"), "PE 2: .*gravel_quiet.* inside a handler: handlers must not wait")
        self.assert_failed(self.start("block-host"),
                           "PE 2: .*handler 'host_blocker' threw: gravel_barrier_all inside a handler")

    def test_without_context(self):
        for fault, name in (("no-context", "without_context"), ("no-context-host", "without_context_on_host")):
            with self.subTest(fault):
                self.assert_failed(self.start(fault), rf"PE 2: error: a message arrived for handler '{name}' "
                                                      "before gravel_set_context was called")
        self.assert_failed(self.start("context-of-stranger"),
                           "PE 1: .*gravel_set_context: handler 'stranger' is not in the list of gravel_init")

    def test_that_sends_without_end(self):
        self.assert_failed(self.start("breed", GRAVEL_SPILL_SIZE="1M"),
                           r"handlers of PE \d send faster .*handler 'breeder' exceeds GRAVEL_SPILL_SIZE")

    def test_that_never_returns(self):
        self.assert_failed(self.start("endless", GRAVEL_WATCHDOG_S=2), "no progress for 2 s",
                           r"to PE 2: \d+ packets sent|to PE 2: \d+ packets arrived",  # whichever node notices first
                           limit_s=LIMIT_S + 2)


@unittest.skipIf(ON_GPU and os.environ.get("GRAVEL_ROUTES") != "peer",
                 "there it is the usual route, where each PE has a GPU")
class OverPeers(FailureTest):
    """On the route peer a kernel waits for words in memory, and the aggregator does not see it."""

    def start(self, fault, *arguments, **environment):
        environment.setdefault("GRAVEL_ROUTES", "peer")
        return super().start(fault, *arguments, **environment)

    def test_killed_in_traffic(self):
        for nodes, victim in ((1, 2), (2, 0), (2, 3), (2, ("aggregator", 2))):
            self.nodes = nodes
            with self.subTest(nodes=nodes, victim=victim):
                self.kill_at("traffic", victim)

    def test_killed_in_a_barrier(self):
        self.nodes = 1  # they decide it among themselves
        for victim in (0, 3, ("aggregator", 0)):
            with self.subTest(victim=victim):
                self.kill_at("barrier", victim, arguments=("--pe", 3))

    def test_killed_in_quiescence(self):
        self.nodes = 1
        for victim in (0, 3, ("aggregator", 0)):
            with self.subTest(victim=victim):
                self.kill_at("devices-quiescence", victim, arguments=("--pe", 3))

    def test_killed_at_any_moment(self):
        chance = random.Random(SEED)
        for number in range(6):
            victim, delay = chance.choice((0, 1, 2, 3, ("aggregator", 0))), chance.uniform(0, 0.4)
            with self.subTest(number=number, victim=victim, delay=delay, FAILURE_SEED=SEED):
                self.nodes = 1
                job = self.start("many", "--messages", 1_000_000)
                time.sleep(delay)
                pid = job.pes().get(victim) if isinstance(victim, int) else job.aggregators().get(victim[1])
                self.kill_if_there(job, pid)
                self.assert_all_or_nothing(job)

    def test_stopped(self):
        self.nodes = 1
        job = self.start("traffic", GRAVEL_WATCHDOG_S=2)
        job.hurt(job.ready(self.n)[3], signal.SIGSTOP)
        self.assert_failed(
            job,
            r"no progress for 2 s \(GRAVEL_WATCHDOG_S\) on the route peer|PE 3 \(process \d+\) has not run for 4 s",
            r"rings in device memory: \d+ chunks pushed to 3 peers and to the PE itself|collective \d+",
            limit_s=LIMIT_S + 2)

    def test_handlers(self):
        self.assert_failed(self.start("throw"), r"PE 2: .*handler 'thrower' threw: the handler's own reason")
        self.assert_failed(self.start("block"), "PE 2: .*gravel_quiet.* inside a handler: handlers must not wait")
        self.assert_failed(self.start("no-context"), "PE 2: error: a message arrived for handler 'without_context' "
                                                     "before gravel_set_context was called")
        self.nodes = 1
        self.assert_failed(self.start("endless", GRAVEL_WATCHDOG_S=2),
                           r"no progress for 2 s \(GRAVEL_WATCHDOG_S\) on the route peer",
                           r"rings in device memory: \d+ chunks pushed", limit_s=LIMIT_S + 2)
        small = {"GRAVEL_SPILL_SIZE": "1M", "GRAVEL_OWN_RING_SIZE": "64K", "GRAVEL_PEER_CHUNKS": 8}
        self.assert_failed(self.start("breed", **small),
                           r"handlers of PE \d send faster .*handler 'breeder' exceeds GRAVEL_SPILL_SIZE")

    def test_collectives_that_differ(self):
        self.nodes = 1
        for fault, cause in {
                "barrier-too-many": r"PE 3 waits in gravel_barrier_all, PE \d has called gravel_finalize",
                "devices-differ": r"different collectives: PE \d gravel_wait_quiescent, PE 3 gravel_barrier_all",
                "malloc-barrier": r"the PEs call different collectives: PE \d gravel_barrier_all, PE 3 gravel_malloc",
        }.items():
            with self.subTest(fault):
                job = self.start(fault, "--pe", 3, GRAVEL_WATCHDOG_S=0)
                self.assert_failed(job, "aggregator of node .: error: .*" + cause)

    def test_all_is_well(self):
        self.assert_fine(self.start("many"))


@unittest.skipIf(ON_GPU and os.environ.get("GRAVEL_ROUTES") != "peer",
                 "there it is the usual route, where each PE has a GPU")
class InADomain(FailureTest):
    """PEs of several nodes map each other's memory, so a PE that dies has peers with other aggregators."""

    def start(self, fault, *arguments, **environment):
        environment.setdefault("GRAVEL_ROUTES", "peer")
        environment.setdefault("GRAVEL_DOMAIN", "handles")
        return super().start(fault, *arguments, **environment)

    def test_killed(self):
        for fault, victim, arguments, environment in (
                ("traffic", 0, (), {}),
                ("traffic", 3, (), {}),
                ("traffic", ("aggregator", 2), (), {}),
                ("barrier", 0, ("--pe", 3), {}),
                ("barrier", ("aggregator", 0), ("--pe", 3), {}),
                ("devices-quiescence", 1, ("--pe", 3), {}),
                ("heap", 1, (), {"GRAVEL_HANDLE_TYPE": "auto" if ON_GPU else "fabric"}),
                ("heap", 2, (), {})):
            with self.subTest(fault=fault, victim=victim):
                self.kill_at(fault, victim, arguments=arguments, **environment)

    def test_killed_with_two_pes(self):
        self.n = 2
        for victim in (0, 1):
            with self.subTest(victim=victim):
                self.kill_at("traffic", victim)

    def test_collectives_that_differ(self):
        """With two PEs, neither aggregator knows both calls by itself."""
        for self.n, last in ((4, 3), (2, 1), (2, 0)):
            for fault, cause in {
                    "barrier-too-many": rf"PE {last} waits in gravel_barrier_all, PE \d has called gravel_finalize",
                    "devices-differ": "different collectives: PE .*gravel_wait_quiescent, PE .*gravel_barrier_all|"
                                      "different collectives: PE .*gravel_barrier_all, PE .*gravel_wait_quiescent",
                    "malloc-barrier": "different collectives: PE .*gravel_barrier_all, PE .*gravel_malloc|"
                                      "different collectives: PE .*gravel_malloc.*, PE .*gravel_barrier_all",
            }.items():
                with self.subTest(fault, n=self.n, last=last):
                    job = self.start(fault, "--pe", last, GRAVEL_WATCHDOG_S=0)
                    self.assert_failed(job, "aggregator of node .: error: .*(" + cause + ")")

    def test_all_is_well(self):
        self.assert_fine(self.start("many"))


class WrongArguments(FailureTest):
    def test_operations(self):
        for fault, cause in {
                "outside": "gravel_put or .*::put to PE 0: an address outside the symmetric heap: offset 0x200",
                "before": "gravel_put or .*::put to PE 0: an address outside the symmetric heap.* two ways: gravel_",
                "misaligned": "gravel_put or .*::put to PE 0: a misaligned address: offset 0x",
                "pe-high": "gravel_put or .*::put to PE 99: the job has PEs 0 to 3",
                "pe-negative": "gravel_put or .*::put to PE -1: the job has PEs 0 to 3",
                "am-pe": "gravel_am or .*::am to PE 99",
                "get": "gravel_get from PE 0: an address outside",
                "destination": "gravel_get: a destination outside its own symmetric heap.* offset 0x.* gravel_register",
                "destination-misaligned": "gravel_get: a destination outside its own symmetric heap, or misaligned",
                "stranger": "gravel_am or .*::am to PE 0: handler 'stranger' is not in the list",
                "stranger-by-block": "gravel_am or .*::am to PE 0: handler 'stranger' is not in the list",
                "stranger-from-host": "gravel_am or .*::am to PE 0: handler 'stranger' is not in the list",
                "fetch": "gravel_fetch_add to PE 99",
                "bulk": "gravel_put_bulk.* to PE 0: an address outside .* 1125899906842624 bytes",
                "block-sender": "gravel_inc or gravel_block_sender::inc to PE 99",
                "block-sender-threads": r"gravel_block_sender<128, ...> in a block of 256 threads: "
                                        r"its first argument must be",
                "block-sender-memory": r"dynamic\(\) of a sender in a block with 1000 bytes of dynamic shared memory: "
                                       r"it needs \d+ \(gravel_launch_config: shared_bytes\)",
                "host-outside": "gravel_put or .*::put to PE 0: an address outside"}.items():
            with self.subTest(fault):
                self.assert_failed(self.start(fault, "--pe", 3), "PE 3: error: " + cause)

    @unittest.skipIf(ON_GPU, "stacks of lanes are the CPU backend's")
    def test_stacks(self):
        self.assert_failed(self.start("stack", "--pe", 3),
                           r"PE 3: error: lane 3 of block \(0,0,0\) has used up its stack of \d+ bytes; "
                           r"GRAVEL_CPU_STACK_SIZE")
        self.assert_fine(self.start("stack", "--pe", 3, GRAVEL_CPU_STACK_SIZE="1M"))

    def test_handles(self):
        for fault, call in {"empty-handle": "gravel_put", "empty-handle-sender": "gravel_block_sender",
                            "empty-handle-quiet": "gravel_quiet.*", "empty-handle-host": "gravel_put"}.items():
            with self.subTest(fault):
                job = self.start(fault, "--pe", 3)
                if ON_GPU and fault != "empty-handle-host":  # CUDA says that the kernel has failed
                    self.assert_failed(
                        job, "PE 3: error: .*a kernel that uses a gravel_t that neither gravel_handle\\(\\) nor")
                else:
                    self.assert_failed(
                        job, f"PE 3: error: {call} was called with a handle that neither .* made: it is empty")
        self.assert_failed(self.start("stale-handle"),
                           "gravel_put was called after gravel_finalize: its handle is of a job that is over")

    def test_heap(self):
        if ON_GPU:
            self.assert_failed(self.start("none", GRAVEL_SYMMETRIC_SIZE="7T", GRAVEL_HANDLE_TYPE="ipc"),
                               "symmetric heap .*of .* does not fit", "GRAVEL_SYMMETRIC_SIZE")
            self.assert_failed(self.start("malloc-device", GRAVEL_SYMMETRIC_SIZE="7T"),
                               r"gravel_malloc: memory of the symmetric heap: .* do not fit: GPU \d has .* free of")
        else:  # only reserved: what is used must fit
            host = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            self.assert_fine(self.start("none", GRAVEL_SYMMETRIC_SIZE=2 * host))
            self.assert_failed(self.start("malloc-host", GRAVEL_SYMMETRIC_SIZE=2 * host),
                               r"PE 0: error: gravel_malloc: [\d.]+ .iB \(\d+ bytes\) do not fit: "
                               r"[\d.]+ .iB \(\d+ bytes\) would be in use, and this host, "
                               r"or the cgroup of this process, has [\d.]+ .iB")
            limit = 16 << 30  # of addresses
            self.assert_failed(self.start("none", GRAVEL_SYMMETRIC_SIZE="1T", limits={resource.RLIMIT_AS: limit}),
                               r"PE 0: error: the symmetric heap \(GRAVEL_SYMMETRIC_SIZE\) of 1 TiB \(\d+ bytes\) "
                               r"does not fit \(Cannot allocate memory\): "
                               r"this host has .*; a process may map 16 GiB \(\d+ bytes\) \(ulimit -v\)")
            limits = {resource.RLIMIT_FSIZE: 1 << 30}
            self.assert_failed(self.start("none", GRAVEL_SLOTS=65536, GRAVEL_SLOT_SIZE="64K", limits=limits),
                               r"the segment of PE \d \(GRAVEL_WARP_SLOTS, GRAVEL_SLOTS, .*\) of [\d.]+ GiB "
                               r"\(\d+ bytes\) does not fit \(File too large\): .*a file may have 1 GiB")
        self.assert_failed(self.start("malloc-huge"),
                           r"PE 0: error: gravel_malloc: 64 TiB \(70368744177664 bytes\) do not fit")
        self.assert_fine(self.start("malloc-caught"))
        self.assert_fine(self.start("free-null"))

    def test_free(self):
        self.assert_failed(self.start("double-free"), "gravel_free: .* is free already")
        self.assert_failed(self.start("free-foreign"), "PE 1: error: gravel_free: 0x.* is not in the symmetric heap")
        self.assert_failed(self.start("free-inside"), "PE 1: error: gravel_free: 0x.* lies 8 bytes inside an object")

    def test_collectives_that_differ(self):
        different = "the PEs call different collectives: PE {} {}, PE {} {}"
        arguments = "the PEs' arguments differ: PE {} calls {}, PE {} {}"
        free = "gravel_free of the object at offset "
        for fault, (text, usual, of_victim) in {
                "barrier-too-many": ("PE {2} waits in {3}, PE {0} has called {1}",
                                     "gravel_finalize", "gravel_barrier_all"),
                "sum-max": (different, "gravel_sum_all of 1 int32_t", "gravel_max_all of 1 int32_t"),
                "malloc-barrier": (different, "gravel_barrier_all", "gravel_malloc of 4096 bytes"),
                "malloc-differs": (arguments, "gravel_malloc of 256 bytes", "gravel_malloc of 512 bytes"),
                "free-null-one": (arguments, free + "0x0", "gravel_free of a null pointer"),
                "free-different": (arguments, free + "0x1000", free + "0x0"),
        }.items():
            for victim in (1, 3):  # beside one that calls the right thing, on the same node and, with 2 PEs, on another
                for self.n, self.nodes in ((4, 2), (2, 2)):
                    if victim >= self.n:
                        continue
                    with self.subTest(fault, victim=victim, n=self.n):
                        job = self.start(fault, "--pe", victim, GRAVEL_WATCHDOG_S=0)
                        # Which of the other PEs is named depends on who comes first.
                        pairs = [((pe, usual), (victim, of_victim)) for pe in range(self.n) if pe != victim]
                        if fault != "barrier-too-many":  # in the order of PEs
                            pairs = [sorted(pair) for pair in pairs]
                        causes = "|".join(text.format(*one, *other) for one, other in pairs)
                        self.assert_failed(job, f"aggregator of node .: error: .*({causes})")

    def test_services(self):
        """Errors of services: of their service blocks, and of PEs that open different services."""
        self.assert_fine(self.start("service"))
        cause = "a service block of service 'failing' failed: the service block's own reason"
        if ON_GPU:
            cause = "(the service 'failing'|a kernel of gravel_launch, a handler, or)"
        self.assert_failed(self.start("service-fails"), "PE 1: error: .*" + cause)
        self.assert_failed(self.start("service-fails-elsewhere"), "PE 2: error: .*" + cause)
        self.assert_failed(self.start("service-no-block"),
                           "PE 1: error: a message for block 2 of a service: it has blocks 0 to 1")
        shape = r"\(2 blocks of 32 threads, {} chunks of 64 messages, 8 bytes a message\)"
        self.assert_failed(self.start("service-names"),
                           r"the PEs open different services: PE 0 'failing' \(2 blocks .*\), PE 1 'other' \(2 ")
        self.assert_failed(self.start("service-shapes", "--pe", 3), "the PEs open different services: "
                           f"PE 0 'failing' {shape.format(4)}, PE 3 'failing' {shape.format(8)}")
        self.assert_failed(self.start("service-barrier"),
                           "different collectives: PE 0 gravel_service, PE 1 gravel_barrier_all")
        self.assert_failed(self.start("service-open"), "gravel_finalize: service 'failing' is still open")
        self.assert_failed(self.start("service-late"), "gravel_service was called after gravel_finalize")

    def test_service_that_hangs(self):
        """Each of two service blocks has a message or none; one does not return from its own."""
        self.nodes = 1
        sent = ("chunks of kernels of this PE: {}, applied: 0; "
                "messages of other PEs, handlers and service blocks: {} in a ring of 4096, applied: 0\n")
        for fault, pe, block, near, far in (("service-hangs", 1, 1, 1, 0), ("devices-service-hangs", 1, 1, 1, 0),
                                            ("service-hangs-elsewhere", 2, 0, 0, 1)):
            for routes in ("auto", "peer"):
                with self.subTest(fault, routes=routes):
                    self.assert_failed(
                        self.start(fault, GRAVEL_WATCHDOG_S=2, GRAVEL_ROUTES=routes),
                        rf"PE {pe}: error: service 'failing': service block {block} of PE {pe} has finished nothing "
                        r"for 2 s \(GRAVEL_WATCHDOG_S\)",
                        rf"service 'failing', service block {block} runs; {sent.format(near, far)}",
                        rf"service 'failing', service block {1 - block} (runs|sleeps); {sent.format(0, 0)}",
                        limit_s=LIMIT_S + 2)
        self.assert_failed(self.start("service-hangs-closed", GRAVEL_WATCHDOG_S=2),
                           r"service 'failing': it is closed, but its kernel at PE 1 has not ended for 2 s "
                           r"\(GRAVEL_WATCHDOG_S\)",
                           "service 'failing', service block 1 runs;", limit_s=LIMIT_S + 2)
        self.assert_failed(self.start("critical-hangs", GRAVEL_WATCHDOG_S=2),
                           r"service 'stuck_section': service block \d of PE 1 has finished nothing for 2 s "
                           r"\(GRAVEL_WATCHDOG_S\), .* a caller of a critical section has not left it",
                           limit_s=LIMIT_S + 2)

    def test_collectives_of_kernels(self):
        for victim in (1, 3):
            here_or_there = (r"(gravel_barrier_block here, gravel_sum_all_block at PE {0}|"
                             r"gravel_sum_all_block here, gravel_barrier_block at PE \d)").format(victim)
            self.assert_failed(self.start("kernels-differ", "--pe", victim),
                               "the PEs' kernels call different collectives: " + here_or_there)
        self.assert_failed(self.start("kernel-root"),
                           r"PE 1: error: gravel_broadcast_block from PE 99: the team has PEs 0 to 3")
        self.assert_failed(self.start("kernel-counts"),
                           "the PEs' kernels call gravel_reduce_all_block, _warp or _lane with different arguments: .*"
                           r" differ here and at PE \d")
        self.assert_failed(self.start("kernel-no-team"),
                           r"PE \d: error: gravel_sync_block, _warp or _lane with a team of which this PE is no member")
        self.assert_failed(self.start("kernel-team-over"),
                           "PE 1: error: gravel_sync_block, _warp or _lane with a team that gravel_team_destroy has "
                           "ended")
        self.assert_failed(self.start("splits-differ"),
                           r"gravel_team_split_strided: PE \d of the parent splits it differently")

    def test_more_nodes_than_pes(self):
        for launcher in ("ucx-run",) + (("mpirun",) if MPIRUN else ()):
            with self.subTest(launcher):
                self.n, self.nodes = 2, 1
                command = (UCX_RUN, "-n", "2") if launcher == "ucx-run" else (MPIRUN, "--oversubscribe", "-n", "2")
                job = self.start("none", launcher=command, GRAVEL_NODES=3)
                self.assert_failed(job, "PE 0: error: GRAVEL_NODES=3: a node needs at least one PE, "
                                        "but a host of this job has only 2")

    def test_program(self):
        # A process that uses a GPU ends slowly, so its aggregator may notice before ucx-run does.
        noticed = "left the job without finalizing"
        quick_exit = f"({noticed}|ended without gravel_finalize)" if ON_GPU else noticed
        for fault, cause, status in (
                ("exit", "PE 1: error: the program ended with exit status 0 without gravel_finalize", 1),
                ("exit-3", "PE 1: error: the program ended with exit status 3 without gravel_finalize", 3),
                ("quick-exit", "PE 1 .*" + quick_exit, 1),
                ("crash", "PE 1 .*killed by signal 6", 134),
                ("exception", "PE 1: error: the program's own reason", 1),
                ("thread-exception", "PE 1: error: the program's own reason", 1),
                ("abort", "PE 1: error: the program gives up", 7),
                ("init-twice", "PE 1: error: gravel_init was called twice", 1),
                ("before-init", "PE 0: error: gravel_barrier_all was called before gravel_init", 1),
                ("after-finalize", "gravel_barrier_all was called after gravel_finalize", 1),
                ("array-late", "device_array was called after gravel_finalize", 1)):
            with self.subTest(fault):
                self.assert_failed(self.start(fault), cause, status=status)

    def test_whose_threads_are_interrupted(self):
        """A handled signal in any of them stops no watch, and nobody takes the PE for stopped."""
        job = self.start("interrupted", GRAVEL_WATCHDOG_S=1)
        for pid in job.ready(self.n).values():
            for thread in os.listdir(f"/proc/{pid}/task"):
                if read(f"/proc/{pid}/task/{thread}/comm").startswith(b"gravel"):
                    self.assertEqual(LIBC.syscall(SYS_TGKILL, pid, int(thread), signal.SIGUSR1.value), 0)
        self.assert_fine(job)

    def test_that_forks(self):
        self.assert_fine(self.start("fork"))
        job = self.start("fork-killed")
        ready = job.ready(self.n)
        job.hurt(ready[1])
        self.assert_failed(job, "PE 1 .*killed by signal 9", status=137)

    @unittest.skipUnless(MPIRUN, "no Open MPI")
    def test_program_under_mpirun(self):
        for fault, cause in (("abort", "PE 1: error: the program gives up"),
                             ("exit", "PE 1: .*without gravel_finalize"),
                             ("corrupt-slot", "PE 1 handed over a corrupt slot"),
                             ("other-handlers", "PE 1: error: handler 0 differs")):
            with self.subTest(fault):
                for _ in range(5):
                    job = self.start(fault, launcher="mpirun")
                    ended, left = job.end(START_S)
                    # Now and then Open MPI's own process crashes in PMIx when a PE ends so, and leaves its files
                    # behind, and with them the folder that Gravel had in its folder.
                    if ended is not None and not left and not job.leftovers():
                        break
                self.assert_failed(job, cause)

    def test_pes_that_differ(self):
        self.assert_failed(self.start("other-handlers"),
                           "PE 1: error: handler 0 differs: 'breeder' here, 'count' at PE 0")
        for name, value, cause in (
                ("GRAVEL_PACKET_SIZE", "32K", "PE 1: error: GRAVEL_PACKET_SIZE differs: 32768 here, 65536 at PE 0"),
                ("GRAVEL_SYMMETRIC_SIZE", "2G", "GRAVEL_SYMMETRIC_SIZE differs"),
                ("GRAVEL_AGGREGATOR_THREADS", "7", "GRAVEL_AGGREGATOR_THREADS differs"),
                ("GRAVEL_NODES", "4", "GRAVEL_NODES differs"),
                ("GRAVEL_SLOTS", "512", "PE 1 .*GRAVEL_")):
            with self.subTest(name):
                script = f'if [ "$PMIX_RANK" = 1 ]; then export {name}={value}; fi; exec "$0" "$@"'
                job = self.start("none", launcher=(UCX_RUN, "-n", "4", "--nodes", "2", "sh", "-c", script))
                self.assert_failed(job, cause)


class Corruption(FailureTest):
    def test_packet(self):
        for pe, count in ((2, 1), (3, 5)):  # from another node, and built in place
            with self.subTest(pe=pe, count=count):
                job = self.start("many", "--messages", 1_000_000, GRAVEL_FAULT=f"corrupt-packet:{pe}:{count}")
                self.assert_failed(job, rf"corrupt packet from node \d for PE {pe}|"
                                        rf"PE {pe}: error: a corrupt packet arrived")
        self.nodes = 1
        job = self.start("many", "--messages", 1_000_000, GRAVEL_FAULT="corrupt-packet:1:3", GRAVEL_ROUTES="no-peer")
        self.assert_failed(job, "PE 1: error: a corrupt packet arrived: a bad table of rows")

    def test_slot(self):
        for fault in ("corrupt-slot", "corrupt-runs", "corrupt-kind"):
            with self.subTest(fault):
                self.assert_failed(self.start(fault, "--pe", 3), "PE 3 handed over a corrupt slot in its host queue")

    def test_slot_that_is_never_published(self):
        """The aggregator does not see it: the PE's monitor does."""
        for fault, queue, mark in (("lost-slot", "warp", 0), ("lost-block-slot", "block", 0),
                                   ("lost-host-slot", "host", 0), ("overwritten-slot", "warp", 12345)):
            with self.subTest(fault):
                self.assert_failed(
                    self.start(fault, "--pe", 3, GRAVEL_WATCHDOG_S=1),
                    rf"PE 3: error: {queue} queue: the slot of ticket \d+ was claimed and has not been published "
                    r"for 0.75 s \(three quarters of GRAVEL_WATCHDOG_S\); "
                    rf"\d+ tickets are claimed, and the slot says {mark} instead of \d+")

    def test_message(self):
        outside = r"gravel_inc with an address outside the symmetric heap \(offset 140771713875960\)"
        for fault, cause in (("corrupt-message", "gravel_put with an address outside the symmetric heap"),
                             ("corrupt-operation", "unknown operation"), ("corrupt-index", outside),
                             ("corrupt-handler", None), ("corrupt-row-of-handler", None)):
            for pe in (1, 3):  # on the same node, and on another
                with self.subTest(fault, pe=pe):
                    text = (rf"an active message arrived from node {pe // 2} whose handler \(id \w+\) "
                            "is not in the list of gravel_init")
                    if cause:
                        text = f"a corrupt message arrived from node {pe // 2}: {cause}"
                    self.assert_failed(self.start(fault, "--pe", pe), "PE 0: error: " + text)

    def test_fault_that_nobody_knows(self):
        self.assert_failed(self.start("none", GRAVEL_FAULT="corrupt-packet:x"),
                           "GRAVEL_FAULT: 'corrupt-packet:x' is not")


class Loads(FailureTest):
    def test_no_messages(self):
        self.assert_fine(self.start("many", "--messages", 0))

    def test_many_messages(self):
        messages = os.environ.get("FAILURE_MESSAGES", 2_500_000)
        self.assert_fine(self.start("many", "--messages", messages), limit_s=3600)

    def test_full_rings(self):
        tiny = {"GRAVEL_WARP_SLOTS": 4, "GRAVEL_SLOTS": 4, "GRAVEL_PACKETS_PER_DESTINATION": 2,
                "GRAVEL_PACKET_SIZE": "4K", "GRAVEL_SLOT_SIZE": "4K"}
        self.assert_fine(self.start("slow", "--messages", 2000, **tiny))
        self.assert_fine(self.start("many", "--messages", 200_000, **tiny))


class Surroundings(FailureTest):
    def test_aggregator_hears_signals(self):
        """SIGTERM is blocked while it starts."""
        job = self.start("idle")
        self.assertEqual(len(job.ready(self.n)), self.n, job.text)
        for pid in job.aggregators().values():
            blocked = int(re.search(rb"SigBlk:\s*(\w+)", read(f"/proc/{pid}/status"))[1], 16)
            self.assertEqual(blocked >> (signal.SIGTERM - 1) & 1, 0)
        job.hurt(next(iter(job.aggregators().values())), signal.SIGTERM)
        self.assert_failed(job, r"aggregator of node \d \(process \d+\) was killed by signal 15")

    def test_aggregator_missing(self):
        self.assert_failed(self.start("none", GRAVEL_AGGREGATOR="/nonexistent"), "GRAVEL_AGGREGATOR: '/nonexistent'")
        # One that starts and fails.
        self.assert_failed(self.start("none", GRAVEL_AGGREGATOR="/bin/false"), r"the aggregator of node \d .* ended")

    def test_unknown_transport(self):
        self.assert_failed(self.start("none", UCX_TLS="nonsense"), "UCX .* cannot start .UCX_TLS=nonsense")

    def test_bad_setting(self):
        self.assert_failed(self.start("none", GRAVEL_PACKET_SIZE="7"),
                           "PE 0: error: GRAVEL_PACKET_SIZE: '7' is out of range")

    def test_no_directory_for_temporary_files(self):
        job = self.start("none", TMPDIR="/nonexistent/directory")  # then it takes /tmp
        self.assert_fine(job)

    def test_read_only_tmp(self):
        probe = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o ro none /tmp && exec "$@"', "sh"]
        if not shutil.which("unshare") or subprocess.run([*probe, "true"], capture_output=True).returncode:
            self.skipTest("no permission to mount a read-only /tmp")
        if any(os.path.abspath(path).startswith("/tmp/") for path in (UCX_RUN, FAILURE_JOB)):
            self.skipTest("what it would run is in /tmp itself")
        job = self.start("none", launcher=(*probe, UCX_RUN, "-n", "2"), TMPDIR=None)
        self.assert_failed(job, "cannot make a directory for the job under /tmp .set TMPDIR")

    def test_few_descriptors(self):
        for number in (12, 24, 48, 60, 70):
            with self.subTest(number=number):
                job = self.start("many", "--messages", 10000, limits={resource.RLIMIT_NOFILE: number})
                status, left = job.end(START_S)
                self.assertIsNotNone(status, job.text)
                self.assert_clean(job, left)
                if status:
                    self.assertRegex(job.text, "[Tt]oo many open files|files may be open at once")

    def test_little_locked_memory(self):
        self.assert_fine(self.start("many", "--messages", 10000, limits={resource.RLIMIT_MEMLOCK: 65536}))

    def test_idle_job_sleeps(self):
        """Wake-ups are counted, not processor time, which a busy machine stretches: who polls (the receiver of each PE,
        the planes of each aggregator, one for eight processors) looks a hundred times a second at most, and nobody
        spins."""
        job = self.start("idle")
        self.assertEqual(len(job.ready(self.n)), self.n, job.text)

        def look():
            """{thread: (times it went to sleep, is it on a processor or waits for one)}"""
            found = {}
            for pid in job.processes():
                for path in glob.glob(f"/proc/{pid}/task/*"):
                    text = read(path + "/status")
                    # The GPU's driver has threads of its own, which look as often as it likes.
                    if re.match(rb"Name:\s*cuda", text):
                        continue
                    times = re.search(rb"^voluntary_ctxt_switches:\s*(\d+)", text, re.M)
                    state = re.search(rb"State:\s*(\w)", text)
                    if times and state:
                        found[path] = int(times[1]), state[1] == b"R"
            return found

        def window():
            """(wake-ups a second over four seconds, names of the threads that never slept, those that woke most, number
            of planes)"""
            begin, first = time.monotonic(), look()
            running = {path for path, (_, runs) in first.items() if runs}
            for _ in range(20):
                time.sleep(0.2)
                last = look()
                running &= {path for path, (_, runs) in last.items() if runs}
            counts = {path: times - first[path][0] for path, (times, _) in last.items() if path in first}
            woken = ((n, path, read(path + "/comm").decode().strip()) for path, n in counts.items())
            most_of = sorted(woken, reverse=True)[:20]
            planes = sum(read(path + "/comm").startswith(b"gravel plane") for path in counts)
            wakeups = sum(counts.values()) / (time.monotonic() - begin)
            return wakeups, {read(path + "/comm") for path in running}, most_of, planes

        for _ in range(8):  # on a busy machine it takes them longer to come to rest
            wakeups, spinning, most_of, planes = window()
            self.assertGreaterEqual(planes, self.nodes)
            most = 110 * (self.n + planes) + 50
            if wakeups < most and not spinning:
                break
        print(f"an idle job of {self.n} PEs on {self.nodes} nodes wakes {wakeups:.0f} times a second ",
              end="", file=sys.stderr)
        self.assertEqual(spinning, set(), "threads that spin")
        self.assertGreater(wakeups, 0)
        listed = "\n".join(f"{n} times in four seconds: {path} {name}" for n, path, name in most_of)
        self.assertLess(wakeups, most, listed)


class OtherUsers(FailureTest):
    def test_cannot_reach_memory(self):
        """Shared memory has no name in a file system, or belongs to this user alone."""
        job = self.start("traffic")
        self.assertEqual(len(job.ready(self.n)), self.n, job.text)
        pids = set(job.pes().values()) | set(job.aggregators().values())
        shared = set()
        for pid in pids:
            for line in read(f"/proc/{pid}/maps").decode().splitlines():
                _, permissions, _, _, _, *name = line.split(maxsplit=5)
                if permissions[3] == "s":
                    shared.add(name[0] if name else "")
        for name in ("/memfd:gravel-segment", "/memfd:ucx_shm_posix"):
            self.assertTrue([one for one in shared if one.startswith(name)], (name, shared))
        not_ours = ("/memfd:", "/dev/zero", "anon_inode:", "/dev/nvidia")
        self.assertEqual({name for name in shared if not name.startswith(not_ours)}, set())
        self.assertEqual(self.system_v_segments(pids), [])
        job.hurt(job.process.pid, signal.SIGTERM)
        self.assert_failed(job, status=143)

    def test_cannot_reach_system_v_memory(self):
        """Which UCX gives to the user's group, too."""
        job = self.start("traffic", UCX_TLS="sysv,self")
        self.assertEqual(len(job.ready(self.n)), self.n, job.text)
        ours = self.system_v_segments(set(job.aggregators().values()))
        self.assertTrue(ours, job.text)
        for row in ours:
            self.assertEqual((int(row[2], 8) & 0o777, int(row[7])), (0o600, os.geteuid()), row)
        job.hurt(job.process.pid, signal.SIGTERM)
        self.assert_failed(job, status=143)

    @staticmethod
    def system_v_segments(pids):
        """Rows of /proc/sysvipc/shm: segments that these processes made or attached last."""
        rows = [row.split() for row in read("/proc/sysvipc/shm").decode().splitlines()[1:]]
        return [row for row in rows if {int(row[4]), int(row[5])} & pids]

    AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")

    def connect_as_nobody(self, name):
        code = f"import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + {name!r})"
        return subprocess.run([*self.AS_NOBODY, sys.executable, "-c", code], capture_output=True, text=True)

    def test_few_open_files(self):
        """The kernel counts the descriptors that a user's processes have sent, and nobody has received yet: 24 PEs that
        share memory have more of them on the way than this limit. Root has no such limit."""
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("needs root, to be another user")
        if subprocess.run([*self.AS_NOBODY, "test", "-x", FAILURE_JOB]).returncode != 0:
            self.skipTest("another user cannot reach the programs of this build")
        if not FAILURE_JOB.endswith("-cpu"):
            self.skipTest("24 PEs are too many for a GPU")
        self.n = 24
        limited = [*self.AS_NOBODY, "sh", "-c", 'ulimit -S -n 64; exec "$0" "$@"', UCX_RUN, "-n", str(self.n)]
        job = self.start("none", launcher=limited, GRAVEL_ROUTES="peer", GRAVEL_SYMMETRIC_SIZE="4M")
        self.assert_fine(job)

    def test_is_not_heard_at_the_socket(self):
        """Of node 0, to which anybody may connect until all PEs have: so PE 1 is stopped before it has. It may be too
        quick for us, and the name is gone, at the latest when the others have come: then another job."""
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("needs root, to be another user")

        def names():
            return set(re.findall(rb"@(gravel-node-\w+)", read("/proc/net/unix")))

        for _ in range(30):
            before = names()
            job = self.start("none")
            new = wait_for(lambda: names() - before or job.process.poll() is not None, START_S)
            pe1 = job.pes().get(1)
            seen = False
            if pe1 and isinstance(new, set):
                job_name = new.pop().decode()
                os.kill(pe1, signal.SIGSTOP)
                time.sleep(0.3)
                # Another job may have started meanwhile: then it was that one's socket.
                if self.connect_as_nobody(job_name).returncode == 0 and wait_for(lambda: b"refused" in job.err, 3):
                    self.assertRegex(job.text, r"process \d+ of user 65534 connected to a socket of user 0; refused")
                    seen = True
                os.kill(pe1, signal.SIGCONT)
            self.assert_fine(job)
            if seen:
                return
        self.fail("PE 1 could not be stopped in time")


if __name__ == "__main__":
    print(f"FAILURE_SEED={SEED}", file=sys.stderr)
    unittest.main()
