"""Trainings by `simurgh train CONFIG -- PROGRAM`: their processes, logs, and how they end.

A program has what `hosted` has, in the case's folder, and these:

    name        name of the training
    step_is(batch, step, what): whether a thing is to be done in this step; true once, also after a new start
    kill(daemon): kills a daemon of the training, such as "embedding-ps-0", by SIGKILL
"""

import signal
import time

from hosted import *

PATIENCE = 300  # Seconds.

_HEAD = """\
import os, signal, sys
sys.path[:0] = [{tests!r}, {package!r}]
_folder = os.getcwd()
from hosted import *
os.chdir(_folder)
name = {name!r}

def step_is(batch, step, what):
    path = pathlib.Path(f"{{name}}-{{step}}-{{what}}")
    if batch.step != step or path.exists():
        return False
    path.touch()
    return True

def kill(daemon):
    for line in pathlib.Path(f"{{name}}-logs/state").read_text().splitlines():
        if line.split("\\t")[0] == daemon:
            os.kill(int(line.split("\\t")[1]), signal.SIGKILL)
            return
    raise RuntimeError(f"{{daemon}} does not run")

"""


def torchrun(ranks, *words):
    """The start of a command line that runs a program's ranks by torchrun."""
    # PyTorch 1 with Python 3.11 cannot take the default of these two.
    old = ["--redirects=1", "--tee=1", "--log_dir=torchrun"] if torch.__version__ < "2" else []
    program, place = [], ["--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    if not old:  # That of Debian 13 has no libuv, without which torchrun itself cannot listen. Its ranks can.
        program = ["env", "USE_LIBUV=0", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"]
        place = ["--rdzv_backend=c10d", "--rdzv_conf=store_type=file", "--local_addr=127.0.0.1"]  # A file in TMPDIR.
    program += [sys.executable, "-B", "-m", "torch.distributed.run"]
    return [*program, f"--nproc_per_node={ranks}", *place, "--monitor_interval=0.2", *old, *words]


def write_program(name, text):
    """Writes a program as NAME.py."""
    pathlib.Path(f"{name}.py").write_text(_HEAD.format(
        tests=str(ROOT / "tests/python"), package=str(ROOT / "services/python"), name=name) + textwrap.dedent(text))


class Training:
    """A training of NAME.py that runs. servers, ranks, loaders: numbers of them. launcher: see torchrun."""

    def __init__(self, name, text, *overrides, servers=1, ranks=1, loaders=0, launcher=None, config="clicks.yaml"):
        self.name = name
        self.model = f"{name}-model"
        self.logs = pathlib.Path(f"{name}-logs").absolute()
        folder = os.getcwd()

        def listed(daemon, count):
            return "[" + ",".join(f"{{address: 'unix://{folder}/{name}-{daemon}{i}'}}" for i in range(count)) + "]"

        settings = [f"embedding_ps.instances={listed('ps', servers)}", f"embedding_worker.instances={listed('ew', 1)}",
                    f"nn_worker.instances={listed('nn', ranks)}", f"checkpoint.directory={folder}/{self.model}",
                    "training.progress_interval=100ms", *overrides]
        if loaders > 0:
            settings.append(f"loaders.instances=[{','.join(['{}'] * loaders)}]")
        write_program(name, text)
        words = [str(BIN / "simurgh"), "train", config, "--logs", str(self.logs)]
        words += [word for one in settings for word in ("--set", one)]
        words += ["--", *(launcher or [sys.executable, "-B"]), f"{name}.py"]
        self._errors = open(f"{name}.err", "w+")
        # Temporary folders of processes that are killed go with that of the case.
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors,
                                         text=True, env={**os.environ, "TMPDIR": folder})

    def end(self, code=0):
        """Waits for the end. Expects the exit code. Returns stdout."""
        begin = time.time()
        try:
            self.out, _ = self._process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGTERM)
            self.out, _ = self._process.communicate()
            expect(False, f"{self.name} has not ended after {PATIENCE} s")
        self.seconds = time.time() - begin
        self._errors.seek(0)
        self.err = self._errors.read()
        self._errors.close()
        ended = self._process.returncode
        expect(ended == code, f"{self.name}: exit code {ended}, expected {code}; it printed:\n{self.out}{self.err[-2000:]}\n"
                              f"its program logged:\n{self.log()[-2000:]}")
        return self.out

    def log(self, daemon="program-0"):
        """The log of a daemon or of the program."""
        path = self.logs / f"{daemon}.log"
        return path.read_text() if path.exists() else ""

    def starts(self):
        """How often nn-workers and loaders, or one daemon, were started again."""
        return self.err.count(" again")


def finished(*arguments, code=0, **options):
    """Runs a training to its end. See Training."""
    training = Training(*arguments, **options)
    training.end(code)
    return training
