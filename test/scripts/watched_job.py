"""Jobs that tests start, watch and clean up after: their processes, and what they leave behind."""
import contextlib
import glob
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid

POLITE = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
OURS = re.compile(r"gravel|ucx|pmix|uct", re.I)
# A machine on which other jobs run as well needs longer to end processes: test/gpu_check is more patient than others.
PATIENCE = float(os.environ.get("FAILURE_PATIENCE", "1"))
LIMIT_S = 10 * PATIENCE  # from the fault to the end of every process of the job
START_S = 60  # from the start of a job until all PEs are there


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def shared_state():
    """Leftovers that a job might leave outside its own TMPDIR: files, and System V segments to which no process is
    attached. UCX makes one of 4 KiB for some microseconds when a process begins, to try its memory hooks; who is killed
    then leaves it (docs/failure.md)."""
    # Tests themselves make some.
    found = {f"{d}/{name}" for d in ("/tmp", "/dev/shm") for name in os.listdir(d)
             if OURS.search(name) and "-test-" not in name}
    rows = [line.split() for line in read("/proc/sysvipc/shm").decode().splitlines()]
    return found | {"shmid " + row[1] for row in rows[1:] if row[6] == "0" and row[3] != "4096"}


def belongs_to_another_job(path):
    """Other jobs may run on this machine: the directory of a ucx-run that lives."""
    pid = read(path + "/launcher.pid").strip()
    return pid.isdigit() and os.path.exists("/proc/" + pid.decode())


def wait_for(condition, limit_s):
    """Polls until condition() is true; its last value."""
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.002)


class Job:
    """A job of `program`, started by a launcher. All its processes carry a marker in their environment."""

    def __init__(self, command, program, **environment):
        self.program = os.path.basename(program)[:15]  # as /proc/PID/comm has it
        self.marker = "WATCHED_JOB=" + uuid.uuid4().hex
        self.tmp = tempfile.mkdtemp(prefix="ft-", dir="/tmp")
        self.before = shared_state()
        env = dict(os.environ, TMPDIR=self.tmp)
        key, value = self.marker.split("=")
        env[key] = value
        env["OMPI_ALLOW_RUN_AS_ROOT"] = env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        limits = environment.pop("limits", {})
        for name, text in environment.items():
            env.pop(name, None)
            if text is not None:
                env[name] = str(text)

        def set_limits():
            for number in POLITE:  # whoever runs this test may ignore them (nohup), and that would be inherited
                signal.signal(number, signal.SIG_DFL)
            for what, number in limits.items():
                resource.setrlimit(what, (number, number))

        self.was_hurt = False  # has a test killed or stopped a process of it?
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, start_new_session=True, preexec_fn=set_limits)
        self.out, self.err = b"", b""
        self.readers = [threading.Thread(target=self.collect, args=a, daemon=True)
                        for a in (("out", self.process.stdout), ("err", self.process.stderr))]
        for reader in self.readers:
            reader.start()

    def collect(self, name, pipe):
        while data := pipe.read1(65536):
            setattr(self, name, getattr(self, name) + data)

    def processes(self):
        """{pid: name} of those that live and carry the marker."""
        found = {}
        for path in glob.glob("/proc/[0-9]*/environ"):
            if self.marker.encode() in read(path).split(b"\0"):
                pid = path.split("/")[2]
                state = re.search(rb"\) (\w)", read(f"/proc/{pid}/stat"))
                if state and state[1] not in b"ZX":
                    found[int(pid)] = read(f"/proc/{pid}/comm").decode().strip()
        return found

    def pes(self):
        """{PE: pid} of those that run the program."""
        found = {}
        for pid, name in self.processes().items():
            rank = re.search(rb"(?:^|\0)PMIX_RANK=(\d+)", read(f"/proc/{pid}/environ"))
            if rank and name == self.program:
                found[int(rank[1])] = pid
        return found

    def aggregators(self):
        """{PE that started it: pid}."""
        found = {}
        for pid, name in self.processes().items():
            if name.startswith("gravel-agg"):
                rank = re.search(rb"(?:^|\0)PMIX_RANK=(\d+)", read(f"/proc/{pid}/environ"))
                found[int(rank[1]) if rank else 0] = pid
        return found

    def ready(self, n):
        """Waits until n PEs have said so; {PE: pid}."""
        wait_for(lambda: self.process.poll() is not None or self.out.count(b"ready") >= n, START_S)
        return {int(pe): int(pid) for pe, pid in re.findall(rb"ready (\d+) (\d+)", self.out)}

    def hurt(self, pid, number=signal.SIGKILL):
        """Everything from now on is the effect of this signal."""
        os.kill(pid, number)
        self.was_hurt = True

    def says(self, n, limit_s, *causes):
        """Of a job that does something wrong by itself, and says "begun" n times before: waits until all causes
        (regular expressions) are on stderr, or it has ended. False: it has done neither, START_S after its start or
        limit_s after it had begun."""
        until = time.monotonic() + START_S
        begun = False
        while self.process.poll() is None and not all(re.search(cause, self.text) for cause in causes):
            if not begun and self.out.count(b"begun") >= n:
                begun, until = True, time.monotonic() + limit_s
            if time.monotonic() > until:
                return False
            time.sleep(0.002)
        return True

    def end(self, limit_s=LIMIT_S):
        """Waits for the launcher and for all processes. (exit status or None, those that are left)."""
        end = time.monotonic() + limit_s
        try:
            status = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        left = {}

        def all_gone():
            left.clear()
            left.update(self.processes())
            return not left

        # Nobody writes any more: what they have said is complete.
        if wait_for(all_gone, max(0, end - time.monotonic())):
            for reader in self.readers:
                reader.join(5)
        return status, left

    def leftovers(self):
        """Files that were not there before, and are there at each check. Files of other jobs on this machine come and
        go."""
        left = shared_state() - self.before
        def is_gone():
            left.intersection_update({path for path in shared_state() if not belongs_to_another_job(path)})
            return not left
        wait_for(is_gone, LIMIT_S)
        own = {os.path.join(where, name) for where, folders, files in os.walk(self.tmp) for name in folders + files}
        return left | own

    def clean_up(self):
        if os.environ.get("FAILURE_SHOW"):
            print(" ".join(self.process.args[1:]), "->", self.process.returncode, "\n" + self.text, file=sys.stderr)
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):  # it may end because of those that went before it
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        for reader in self.readers:
            reader.join(5)
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()
        shutil.rmtree(self.tmp, ignore_errors=True)

    @property
    def text(self):
        return self.err.decode(errors="replace")
