"""Drills: faults on a running cluster. Each must raise its alert, and a command must name cause and remedy.

The alerts are those of config/monitoring, with durations that are shorter by FACTOR.
"""

import contextlib
import pathlib
import random
import re
import resource
import subprocess
import sys
import time

from example_cluster import BIN, Processes, await_that
from prometheus import FOLDER, Prometheus, missing_program

FACTOR = 200
FAULTY_CLOCK = pathlib.Path(BIN, "faulty_clock.so").resolve()
# Ports of the metrics.
DAEMONS = {"embedding-ps/0": 7501, "embedding-ps/1": 7502, "embedding-worker/0": 7511,
           "nn-worker/0": 7521, "nn-worker/1": 7522}
CONFIG = """
cluster: {name: drills, seed: 1}
embedding_ps:
  partitions: 2
  instances: [{address: "HOST:7401", metrics: "HOST:7501"}, {address: "HOST:7402", metrics: "HOST:7502"}]
embedding_worker: {instances: [{address: "HOST:7411", metrics: "HOST:7511"}]}
nn_worker:
  instances: [{address: "HOST:7421", metrics: "HOST:7521"}, {address: "HOST:7422", metrics: "HOST:7522"}]
tables: [{names: [item], dim: 8}]
features: [{name: item, hash: none}]
data:
  format: csv
  train: [even.csv]
  on_bad_row: skip
  max_bad_share: 0.1
  csv: {columns: [{name: label, kind: label}, {name: x, kind: dense}, {name: item, kind: id}]}
model:
  towers: [{name: sparse, input: embeddings, layers: [{linear: 8}, relu]},
           {name: top, input: [dense, sparse], layers: [{linear: 1}]}]
training: {batch_size: 128, epochs: 1000000, staleness: 4, progress_interval: 200ms}
checkpoint: {every: 2s}
"""


def shorter(rules):
    """All durations of the alerts, divided by FACTOR."""
    seconds = {"s": 1, "m": 60, "h": 3600}
    return re.sub(r"(for: |offset |\[)(\d+)([smh])\b",
                  lambda found: f"{found[1]}{int(found[2]) * seconds[found[3]] * 1000 // FACTOR}ms", rules)


def server_of(item):
    """The owner of a row: of the id's hash, BucketMap takes the top 16 bits."""
    item = (item ^ item >> 30) * 0xbf58476d1ce4e5b9 % 2**64
    item = (item ^ item >> 27) * 0x94d049bb133111eb % 2**64
    return (item ^ item >> 31) >> 63


class Cluster(Processes):
    """Two servers, an embedding worker and two ranks, which nothing starts again."""

    def __init__(self):
        super().__init__()
        self.targets = {"loader": [], "serve": []}  # Of Prometheus.
        for daemon in DAEMONS:
            self.targets.setdefault(daemon.split("/")[0], []).append(self.metrics(daemon))

    def metrics(self, daemon):
        return f"{self.address}:{DAEMONS[daemon]}"

    def __enter__(self):
        super().__enter__()
        self.config = pathlib.Path(self.folder, "drills.yaml")
        self.config.write_text(CONFIG.replace("HOST", self.address))
        self.running, self.settings, self.models = {}, [], 0
        self.slow = pathlib.Path(self.folder, "slow")  # While it exists, server 1 is slow.
        self.disk = pathlib.Path(self.folder, "disk")
        self.disk.mkdir()
        # Containers may lack the right to mount.
        self.has_disk = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "drills", self.disk],
                                       stderr=subprocess.DEVNULL, check=False).returncode == 0
        return self

    def __exit__(self, *error):
        self.kill(*self.running)
        if self.has_disk:
            subprocess.run(["umount", "--lazy", self.disk], check=True)
        super().__exit__(*error)

    def write_data(self, name, items, xs=("0.5", "-0.5")):
        rows = [f"{random.randrange(2)},{random.choice(xs)},{item}\n" for item in items]
        pathlib.Path(self.folder, name).write_text("".join(rows))

    def start_daemon(self, daemon, *settings, prefix=()):
        kind, index = daemon.split("/")
        if daemon == "embedding-ps/1":
            prefix = ["env", f"SLOW_PARTITIONS={self.slow}", f"LD_PRELOAD={FAULTY_CLOCK}"]
        self.running[daemon] = self.start(
            daemon.replace("/", "-"), *prefix, f"{BIN}/{kind}", "--config", str(self.config), "--index",
            index, *self.options(*settings))

    def options(self, *more):
        return [word for one in (*self.settings, *more) for word in ("--set", one)]

    def kill(self, *daemons):
        for daemon in daemons:
            self.running[daemon].kill()
            self.running[daemon].wait()

    def restart(self, daemon, *settings, prefix=()):
        self.kill(daemon)
        self.start_daemon(daemon, *settings, prefix=prefix)

    def begin(self, *settings):
        """Trains a new model."""
        self.kill(*self.running)
        self.models += 1
        self.settings = [*settings, f"checkpoint.directory={self.disk}/{self.models}"]
        self.heal()

    def heal(self):
        """Starts what has ended, until the cluster trains."""
        def trains():
            for daemon in DAEMONS:
                if daemon not in self.running or self.running[daemon].poll() is not None:
                    self.start_daemon(daemon)
            return "bound by nothing" not in (self.ask("status", 0) or "bound by nothing")
        await_that("training", trains)

    def ask(self, command, code=None):
        """What `simurgh doctor` or `simurgh status` prints; nothing with another exit code."""
        done = subprocess.run([f"{BIN}/simurgh", command, self.config, *self.options()], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.stdout if code in (None, done.returncode) else ""


@contextlib.contextmanager
def slow_server(cluster):
    cluster.slow.touch()
    yield
    cluster.slow.unlink()


@contextlib.contextmanager
def staleness_at_its_bound(cluster):
    cluster.begin("training.staleness=2")
    with slow_server(cluster):
        yield


def killed(daemon):
    @contextlib.contextmanager
    def fault(cluster):
        cluster.kill(daemon)
        yield
    return fault


@contextlib.contextmanager
def clock_skew(cluster):
    cluster.restart("embedding-worker/0", prefix=["env", "FAST_CLOCK=1", f"LD_PRELOAD={FAULTY_CLOCK}"])
    yield
    cluster.kill("embedding-worker/0")


@contextlib.contextmanager
def wrong_address(cluster):
    cluster.restart("embedding-worker/0", f"embedding_ps.instances.1.address={cluster.address}:7409")
    yield
    cluster.kill("embedding-worker/0")


@contextlib.contextmanager
def full_disk(cluster):
    """Without a disk to fill, the server may not write files larger than a byte."""
    server = cluster.running["embedding-ps/0"].pid
    filler = cluster.disk / "filler"
    if cluster.has_disk:
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
    else:
        resource.prlimit(server, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    yield
    filler.unlink(missing_ok=True)
    resource.prlimit(server, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@contextlib.contextmanager
def full_cold_disk(cluster):
    """The segments of all partitions need more room than the disk has."""
    folder = cluster.disk / "cold"
    folder.mkdir(exist_ok=True)
    cluster.begin("data.train=[many.csv]", "tables.0.memory_rows=2000", f"embedding_ps.cold_directory={folder}")
    server = cluster.running["embedding-ps/0"].pid
    if not cluster.has_disk:
        resource.prlimit(server, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    yield
    cluster.begin()


def trained_with(*settings):
    @contextlib.contextmanager
    def fault(cluster):
        cluster.begin(*settings)
        yield
    return fault


# Alert, its daemon, the command that names cause and remedy, and what it says.
DRILLS = {
    "slow server": (slow_server, "ServerSlow", "embedding-ps/1", "status",
                    "bound by the slow server embedding-ps/1: .*; remove other load from its machine"),
    "clock skew": (clock_skew, "ClockSkew", "embedding-worker/0", "doctor",
                   "embedding-worker/0: its clock differs by (8\\d(\\.\\d)?|90) s .*; synchronise the clocks"),
    "wrong address": (wrong_address, "DaemonNotReady", "embedding-worker/0", "doctor",
                      "embedding-worker/0: not ready: waiting for embedding-ps 1: .*:7409.*; start that "
                      "daemon, or correct its address"),
    "full disk": (full_disk, "CheckpointOverdue", "nn-worker/0", "doctor",
                  "nn-worker/0: .* saves have failed .*; make room in checkpoint.directory"),
    "full cold disk": (full_cold_disk, "ColdRowsRefused", "embedding-ps/0", "doctor",
                       "embedding-ps/0: .* times a row found no room in memory nor in embedding_ps.cold_directory.*: make "
                       "room on the disk"),
    "killed rank": (killed("nn-worker/1"), "DaemonDown", "nn-worker/1", "doctor",
                    "nn-worker/1: it does not run, and other daemons do; .* start it again"),
    "killed server": (killed("embedding-ps/1"), "DaemonDown", "embedding-ps/1", "doctor",
                      "embedding-ps/1: it does not run, and other daemons do; .* start it again"),
    "infinite data": (trained_with("data.train=[infinite.csv]"), "DataSkipped", "nn-worker/0", "doctor",
                 "nn-worker/0: .* bad rows were skipped, .*: correct the data"),
    "staleness at its bound": (
        staleness_at_its_bound, "StalenessAtLimit", "nn-worker/0", "status",
        "; nn-workers wait .* staleness is at its limit; a larger training.staleness hides latency"),
    "memory budget": (
        trained_with("data.train=[many.csv]", "tables.0.dim=1024", "embedding_ps.memory_budget=80000000",
                     "checkpoint.every=10m"),
        "MemoryNearBudget", "embedding-ps/0", "doctor",
        "embedding-ps/0: .* of embedding_ps.memory_budget, .*; add servers or raise it, or limit tables"),
    "skewed partition": (trained_with("data.train=[skewed.csv]"), "ServersSkewed", "embedding-ps/1", "doctor",
                         "embedding-ps/1: it has .* rows, and the mean .*; give them the same memory. .* set "
                         "another features.N.seed"),
    "checkpoint overdue": (
        trained_with("checkpoint.every=1s", "checkpoint.bandwidth=1000"), "CheckpointOverdue", "nn-worker/0",
        "doctor", "nn-worker/0: no checkpoint for .*checkpoint.every is 1 s; .* raise checkpoint.bandwidth"),
}


def drill(cluster, prometheus, fault, alert, daemon, command, words):
    instance = cluster.metrics(daemon)
    cluster.heal()
    await_that(f"end of {alert} at {daemon}", lambda: (alert, instance) not in prometheus.firing())
    with fault(cluster):
        await_that(f"{alert} at {daemon}", lambda: (alert, instance) in prometheus.firing())
        said = []

        def says():
            said[:] = [cluster.ask(command)]
            return re.search(words, said[0])
        try:
            await_that(f"'{words}' of simurgh {command}", says)
        except SystemExit as error:
            raise SystemExit(f"{error}, but:\n{said[0]}") from None


def main():
    if missing_program():
        return 77
    with Cluster() as cluster:
        cluster.write_data("even.csv", [random.randrange(2000) for _ in range(20000)])
        cluster.write_data("infinite.csv", [random.randrange(2000) for _ in range(20000)],
                           ["0.5"] * 49 + ["inf"])
        cluster.write_data("many.csv", range(40000))
        cluster.write_data("skewed.csv", [item for item in range(16000) if server_of(item) == 1])
        rules = pathlib.Path(cluster.folder, "alerts.yml")
        rules.write_text(shorter((FOLDER / "alerts.yml").read_text()))
        prometheus = Prometheus(cluster, "250ms", rules)
        cluster.begin()
        for name in sys.argv[1:] or DRILLS:
            begin = time.monotonic()
            drill(cluster, prometheus, *DRILLS[name])
            print(f"{name}: {DRILLS[name][1]}, {time.monotonic() - begin:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
