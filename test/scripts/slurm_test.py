"""Jobs under a Slurm of the test's own: munged, slurmctld and two slurmd, which play two nodes on this machine.

    slurm_test.py OPERATIONS_JOB FAILURE_JOB

Problem: Slurm's daemons, its processes that leave their parent, and its ports must not outlive the test, nor get in
the way of another Slurm. Solution: the test runs itself again in namespaces of its own (processes, network, System V
memory, mounts). Whatever runs there ends with it, and the ports are free. It needs root and the packages of Debian that
`tools/setup --with slurm` installs. Where these or the right to make namespaces are missing the test is skipped.
"""
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from watched_job import LIMIT_S, START_S, Job, read, wait_for

OPERATIONS_JOB, FAILURE_JOB = map(os.path.abspath, sys.argv[1:3])
DAEMONS = "munged", "slurmctld", "slurmd"
PROGRAMS = *DAEMONS, "srun", "sbatch", "scancel", "scontrol", "sinfo", "unshare", "ip"
NODES = "node1", "node2"
TWO_NODES = "-N", "2", "-n", "4", "--ntasks-per-node", "2"
INSIDE = "SLURM_TEST_INSIDE"
# Slurm asks its processes to end, and kills them so much later.
KILL_WAIT_S = 2
# A node whose slurmd does not answer is down after so long. Slurm takes no less than this with its own checks.
NODE_TIMEOUT_S = 5
# Slurm looks for jobs over their limits twice a minute.
TIME_LIMIT_S = 45

# Two nodes of one host need a TmpFS each: Slurm names a step's folder in it by the step alone.
SLURM_CONF = """
ClusterName=gravel
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=46820
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=30
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/%n/spool
TmpFS={folder}/%n/tmp
MpiDefault=none
SwitchType=switch/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout={node_timeout_s}
KillWait={kill_wait_s}
NodeName={nodes} NodeAddr=127.0.0.1 NodeHostname={host} Port=[46821-46822] CPUs=8 State=UNKNOWN
PartitionName=test Nodes={nodes} Default=YES MaxTime=5 State=UP
"""


def skip(reason):
    print("SKIPPED:", reason)
    sys.exit(77)


def call(*command):
    """What a command of Slurm prints; an error if it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=START_S)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr}")
    return done.stdout


class Cluster:
    """The daemons. What Slurm starts for a node inherits TEST_NODE from its slurmd."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="slurm-test-", dir="/tmp")
        os.chmod(self.folder, 0o755)  # munged insists
        self.processes = {}
        for name in ("state", *(f"{node}/{part}" for node in NODES for part in ("spool", "tmp"))):
            os.makedirs(os.path.join(self.folder, name))
        with open(os.open(self.path("munge.key"), os.O_WRONLY | os.O_CREAT, 0o400), "wb") as key:
            key.write(os.urandom(128))
        with open(self.path("slurm.conf"), "w") as conf:
            conf.write(SLURM_CONF.format(folder=self.folder, host=socket.gethostname().partition(".")[0],
                                         nodes=",".join(NODES), node_timeout_s=NODE_TIMEOUT_S,
                                         kill_wait_s=KILL_WAIT_S))
        os.environ["SLURM_CONF"] = self.path("slurm.conf")

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self):
        self.daemon("munged", "munged", "--foreground", "--force", "--key-file", self.path("munge.key"),
                    "--socket", self.path("munge.socket"), "--pid-file", self.path("munge.pid"),
                    "--seed-file", self.path("munge.seed"))
        self.expect(lambda: os.path.exists(self.path("munge.socket")), "munged has no socket")
        self.daemon("slurmctld", "slurmctld", "-D")
        for node in NODES:
            self.start_node(node)
        self.expect_idle_nodes()

    def start_node(self, node):
        self.daemon(node, "slurmd", "-D", "-N", node, TEST_NODE=node)

    def daemon(self, name, *command, **environment):
        with open(self.path(name + ".log"), "ab") as log:
            self.processes[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                    env=dict(os.environ, **environment))

    def kill_node(self, node):
        """Everything that runs on it: its daemon, the daemons of steps, PEs and aggregators, as when a power cord is
        pulled. The daemons go first, so that they report nothing."""
        marks = f"TEST_NODE={node}".encode(), f"SLURMD_NODENAME={node}".encode()
        for mark in marks:
            for pid in filter(str.isdigit, os.listdir("/proc")):
                if mark in read(f"/proc/{pid}/environ").split(b"\0"):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
        self.processes[node].wait()

    def expect_idle_nodes(self):
        def idle():
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} has ended:\n{self.log(name)}")
            states = subprocess.run(["sinfo", "-h", "-N", "-o", "%N %T"], capture_output=True, text=True).stdout
            return states.split() == [word for node in NODES for word in (node, "idle")]
        self.expect(idle, "the nodes do not become idle")

    def expect(self, condition, text):
        if not wait_for(condition, START_S):
            raise RuntimeError("\n".join([text, *map(self.log, self.processes)]))

    def log(self, name):
        return name + ":\n" + read(self.path(name + ".log")).decode(errors="replace")[-3000:]

    def stop(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        shutil.rmtree(self.folder)


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()
        # Its end is awaited by the last test.
        cls.limited = Job(["srun", "-Q", "--mpi=pmix", "--job-name", "limited", "-N", "2", "-n", "2", FAILURE_JOB,
                           "--fault", "idle"], FAILURE_JOB)
        cls.addClassCleanup(cls.limited.clean_up)
        assert cls.limited.ready(2).keys() == {0, 1}, cls.limited.text
        call("scontrol", "update", "JobName=limited", "EndTime=now+1")

    def start(self, *words, program=FAILURE_JOB, launcher=("srun", "-Q", "--mpi=pmix"), **environment):
        job = Job([*launcher, *words], program, **environment)
        self.addCleanup(job.clean_up)
        return job

    def start_failing(self, fault):
        """A job of four PEs on two nodes that goes on until something is done to it, and {PE: process}."""
        job = self.start(*TWO_NODES, "--job-name", self.id(), FAILURE_JOB, "--fault", fault)
        ready = job.ready(4)
        self.assertEqual(sorted(ready), [0, 1, 2, 3], job.text)
        return job, ready

    def assert_ends(self, job, *causes, limit_s=LIMIT_S):
        status, left = job.end(limit_s)
        self.assertIsNotNone(status, f"still running after {limit_s} s; stderr:\n{job.text}")
        self.assertEqual(left, {}, "processes left behind; stderr:\n" + job.text)
        self.assertEqual(job.leftovers(), set(), "files left behind; stderr:\n" + job.text)
        for cause in causes:
            self.assertRegex(job.text, cause)
        return status

    def assert_fails(self, job, *causes, limit_s=LIMIT_S):
        self.assertNotEqual(self.assert_ends(job, *causes, limit_s=limit_s), 0, job.text)

    def test_one_node(self):
        job = self.start("-n", "2", OPERATIONS_JOB, "short", program=OPERATIONS_JOB)
        self.assertEqual(self.assert_ends(job, limit_s=START_S), 0, job.text)
        self.assertIn(b"ok: 2 PEs on 1 nodes", job.out)
        self.assertEqual(job.text, "")

    def test_two_nodes(self):
        job = self.start(*TWO_NODES, OPERATIONS_JOB, "short", program=OPERATIONS_JOB)
        self.assertEqual(self.assert_ends(job, limit_s=START_S), 0, job.text)
        self.assertIn(b"ok: 4 PEs on 2 nodes", job.out)
        self.assertEqual(job.text, "")

    def test_without_pmix(self):
        job = self.start(*TWO_NODES, OPERATIONS_JOB, "short", program=OPERATIONS_JOB, launcher=("srun", "-Q"))
        self.assert_fails(job, r"srun started 4 processes without PMIx .*srun --mpi=list.*add --mpi=pmix",
                          limit_s=START_S)
        self.assertEqual(job.text.count("`srun --mpi=list`"), 1, "PEs repeat the advice:\n" + job.text)

    def test_pe_is_killed(self):
        job, ready = self.start_failing("traffic")
        job.hurt(ready[2])
        self.assert_fails(job, "task 2: Killed",
                          rf"aggregator of node 1: error: PE 2 \(process {ready[2]}\) ended without gravel_finalize")

    def test_aggregator_is_killed(self):
        job, _ = self.start_failing("traffic")
        aggregator = job.aggregators()[2]
        job.hurt(aggregator)
        self.assert_fails(job, rf"aggregator of node 1 \(process {aggregator}\) was killed by signal 9")

    def test_scancel(self):
        job, _ = self.start_failing("idle")
        call("scancel", "--name", self.id())
        self.assert_fails(job, "CANCELLED")

    def test_requeue(self):
        """The second run of the job finds nothing of the first one, and ends well."""
        script = (f'echo "run ${{SLURM_RESTART_COUNT:-0}}"; fault=idle; [ -z "$SLURM_RESTART_COUNT" ] || fault=none; '
                  f'srun --mpi=pmix -n 4 {FAILURE_JOB} --fault $fault')
        output = self.cluster.path("requeue.out")
        job = self.start(*TWO_NODES, "--output", output, "--open-mode", "append", "--job-name", self.id(),
                         "--wrap", script, launcher=("sbatch", "--wait", "--requeue"))
        says = lambda text, n: read(output).count(text) >= n
        self.assertTrue(wait_for(lambda: says(b"ready", 4), START_S), read(output).decode() + job.text)
        number = re.search(r"job (\d+)", job.out.decode())[1]
        first = set(job.pes().values()) | set(job.aggregators().values())
        call("scontrol", "requeue", number)
        is_gone = lambda: not first & set(job.processes())
        self.assertTrue(wait_for(is_gone, LIMIT_S), "processes of the first run are left:\n" + read(output).decode())
        # Slurm would wait until the credentials of the first run have expired.
        call("scontrol", "update", "JobId=" + number, "StartTime=now")
        self.assertEqual(self.assert_ends(job, limit_s=START_S), 0, read(output).decode() + job.text)
        self.assertIn(b"run 1", read(output))
        self.assertEqual(read(output).split(b"run 1")[1].count(b"done"), 4, read(output).decode())


    def test_y_node_is_killed(self):
        job, _ = self.start_failing("traffic")
        self.cluster.kill_node("node2")
        job.was_hurt = True
        try:
            is_ended = lambda: not job.pes() and not job.aggregators()
            self.assertTrue(wait_for(is_ended, LIMIT_S), "PEs of the other node are left:\n" + job.text)
            self.assert_fails(job, "lost the connection to the aggregator of node 1", limit_s=START_S)
        finally:
            self.cluster.start_node("node2")

    def test_z_time_limit(self):
        self.assert_fails(self.limited, "DUE TO TIME LIMIT", limit_s=TIME_LIMIT_S)


def main():
    if INSIDE not in os.environ:
        missing = [name for name in PROGRAMS if not shutil.which(name)]
        if missing:
            skip(f"{', '.join(missing)} not installed (tools/setup --with slurm)")
        if os.geteuid():
            skip("a Slurm of one's own needs root")
        inside = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child", "--mount-proc"]
        probe = subprocess.run([*inside, "true"], capture_output=True, text=True)
        if probe.returncode:
            skip("namespaces are not allowed here: " + probe.stderr.strip())
        os.environ[INSIDE] = "1"
        os.execvp(inside[0], [*inside, sys.executable, *sys.argv])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Slurm resolves no address on a host that has none but those of the loopback.
    subprocess.run(["ip", "address", "add", "10.213.8.1/32", "dev", "lo"], check=True)
    for name in [name for name in os.environ if name.startswith(("SLURM_", "SBATCH_", "PMIX_", "GRAVEL_"))]:
        del os.environ[name]
    # Other jobs of this machine make and remove files there.
    for folder in "/dev/shm", "/tmp":
        if not OPERATIONS_JOB.startswith(folder + "/"):
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", folder], check=True)
    Slurm.cluster = Cluster()
    if "pmix" not in call("srun", "--mpi=list"):
        Slurm.cluster.stop()
        skip("this Slurm has no PMIx (slurm-wlm-basic-plugins)")
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])


if __name__ == "__main__":
    main()
