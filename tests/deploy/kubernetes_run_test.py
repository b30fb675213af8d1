"""Runs the pods that `simurgh kubernetes` prints as processes; see kubernetes_pods.py. Kills pods, starts them again as
Kubernetes does, and expects the training's end and its model. With `bucket` and `account`, the model is in a bucket of an
S3 server, and a pod serves it. Keys are in the Secret, or those of the pods' account.
usage: kubernetes_run_test.py BUILD [bucket|account]"""

import contextlib
import csv
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request

from kubernetes_objects import PROGRAMS, check, objects_of, template_of
from kubernetes_pods import STORE, STORE_NAME, Cluster, Identities, Pod, Volumes, is_writable, isolate, make_network, skip

NAME = "adult"
WEED = "build/python/bin/weed"
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
TEST = "config/data/adult/adult.test.csv.zst"


class Store:
    """A real S3 server, which pods know as STORE_NAME."""

    def __init__(self, folder):
        os.makedirs(folder)
        self.folder = folder
        environment = {"PATH": os.environ["PATH"], **KEYS}
        self.process = subprocess.Popen(
            [python_with_pyarrow(), "tests/support/s3_server.py", "--address", STORE, WEED, folder],
            env=environment, stdout=subprocess.PIPE, text=True)
        port = re.search(rf"{STORE}:([0-9]+)", self.process.stdout.readline())
        check(port, f"the S3 server has not started: {self.log()[-3000:]}")
        self.port = port[1]
        # The Secret of the README.
        self.secret = {**KEYS, "AWS_ENDPOINT_URL": f"http://{STORE_NAME}:{self.port}"}

    def log(self):
        with open(f"{self.folder}/s3.log", encoding="utf-8") as file:
            return file.read()

    def stop(self):
        with open(f"{self.folder}/done", "w", encoding="ascii"):
            pass
        self.process.wait()


def python_with_pyarrow():
    for python in (sys.executable, "build/arrow/bin/python", "python3"):
        try:
            if subprocess.run([python, "-c", "import pyarrow"], capture_output=True).returncode == 0:
                return python
        except OSError:
            continue
    return skip("no Python can import pyarrow; scripts/bootstrap.sh --arrow installs it")


def simurgh(store, *words):
    """The output of a command outside of the pods."""
    environment = {"PATH": os.environ["PATH"], **(store.secret if store else {})}
    done = subprocess.run([f"{PROGRAMS}/simurgh", *words], env=environment, capture_output=True, text=True)
    check(done.returncode == 0, f"simurgh {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def lose_pods(cluster, *names, lose=Pod.kill):
    """Kills or evicts the pods after a further checkpoint, before the end of training."""
    rank = cluster.pod(f"{NAME}-nn-worker-0")
    saved = rank.log().count("saved the model")
    pods = [cluster.pod(f"{NAME}-{name}") for name in names]
    cluster.wait(f"a checkpoint before the loss of {names}",
                 lambda: rank.log().count("saved the model") > saved or cluster.is_done())
    cluster.wait(f"{names} are live",
                 lambda: all(pod.probe("livenessProbe") == 200 for pod in pods) or cluster.is_done())
    check(not cluster.is_done(), f"training has ended before the loss of {names}")
    for pod in pods:
        lose(pod)
    cluster.restart_ended()
    check(all(pod.starts > 1 for pod in pods), f"{names} are not started again")


def check_model(store, model):
    """The model is whole, has all steps and predicts well. Returns its step."""
    found = json.loads(simurgh(store, "model", "verify", model, "--json"))
    check(found["files"] > 0 and not found["damage"], f"the model is damaged: {found}")
    last = json.loads(simurgh(store, "model", "history", model).splitlines()[-1])
    step = int(found["folder"].rsplit("step-", 1)[1])
    end = {"event": "end", "reason": "epochs", "step": step}
    check(end.items() <= last.items(), f"the history of {found['folder']} ends with {last}")
    result = simurgh(store, "predict", "--model", model, "--evaluate", "--input", TEST)
    print(result.strip())
    check("auc=0.9" in result, f"the model predicts: {result}")
    return step


def ask(path, body=None):
    """The answer of the server; empty if it does not answer now."""
    url = f"http://{NAME}-serve:8000{path}"
    try:
        return json.load(urllib.request.urlopen(url, body and json.dumps(body).encode(), timeout=10))
    except OSError:
        return {}


def check_served(cluster, store, model, step, folder):
    """The server has followed the training, and predicts as `simurgh predict` does."""
    most_rows = 500
    about = {}
    cluster.wait("the model is served", lambda: about.update(ask(f"/v2/models/{NAME}")) or about)
    columns = [one["name"] for one in about["inputs"]]
    simurgh(store, "predict", "--model", model, "--input", TEST, "--output", f"{folder}/predicted.csv", "--columns",
            ",".join(columns))
    with open(f"{folder}/predicted.csv", newline="", encoding="utf-8") as file:
        rows = list(itertools.islice(csv.DictReader(file), most_rows))
    question = {"instances": [{name: row[name] or None for name in columns} for row in rows]}
    answer = {}

    def is_served():
        answer.update(ask(f"/v1/models/{NAME}:predict", question))
        return answer.get("model_version") == str(step)

    cluster.wait(f"step {step} is served", is_served)
    worst = max(abs(found - float(row["p"])) for found, row in zip(answer["predictions"], rows, strict=True))
    check(worst <= 1e-6, f"a served prediction differs by {worst} from that of simurgh predict")


def check_written(cluster, volumes, before):
    """No pod has written to a volume that others see, nor has tried to write to its own file system."""
    for pod in cluster.pods:
        [container] = template_of(pod.one)["containers"]
        check(container["securityContext"]["readOnlyRootFilesystem"], f"{pod.name} may write to its root")
        for mount, volume in pod.mounts_of(container):
            check(not is_writable(mount, volume) or "emptyDir" in volume, f"{pod.name} may write to {volume}")
        for problem in ("Read-only file system", "Permission denied"):
            check(problem not in pod.log(), f"{pod.name}: {pod.log()[-3000:]}")
        left = pod.scratch_files() - {"run/token"}
        check(not left, f"{pod.name} has left {left}")
    check(volumes.files() == before, "files of shared volumes have changed")


def wait_until_ready(cluster):
    cluster.wait("all pods are live", lambda: all(pod.probe("livenessProbe") == 200 for pod in cluster.pods))
    cluster.wait("servers and workers are ready",
                 lambda: all(pod.probe("readinessProbe") == 200 for pod in cluster.pods
                             if pod.one["kind"] == "StatefulSet"))


def print_objects(variant, store):
    """The objects of a variant, and the path of its model in them."""
    words = ["--data", "files", "--set", "checkpoint.directory=/elsewhere"]
    if variant == "account":
        words += ["--servers", "1", "--ranks", "1", "--set", "training.epochs=1", "--service-account", "trainer"]
    else:
        words += ["--servers", "2", "--ranks", "2", "--set", "training.epochs=12", "--set", "checkpoint.every_steps=200"]
    model = f"/models/{NAME}"
    if store:
        model = f"s3://bucket/models/{NAME}"
        # The Secret can have the endpoint.
        model += f"?endpoint_override={STORE_NAME}:{store.port}&scheme=http" if variant == "account" else ""
        words += ["--with-bucket", model, "--serve"]
    return objects_of("config/adult.yaml", *words), model


def main():
    isolate()
    variant = sys.argv[2] if len(sys.argv) > 2 else "claim"
    in_bucket = variant != "claim"
    if in_bucket and not os.access(WEED, os.X_OK):
        skip("tests/requirements.txt is not installed; scripts/test.sh installs it in build/python")
    make_network()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
        store = Store(f"{folder}/store") if in_bucket else None
        if store:
            ends.callback(store.stop)
        objects, model = print_objects(variant, store)
        secrets = {}
        if variant == "bucket":
            secrets = {f"{NAME}-s3": store.secret}
        elif variant == "account":
            identities = Identities(KEYS, seconds=10)
            secrets = identities.admit(objects, "trainer")
        volumes = Volumes(objects, f"{folder}/volumes", {"files": os.path.abspath("config")}, secrets)
        before = volumes.files()
        cluster = Cluster(objects, folder, volumes)
        ends.callback(cluster.stop)
        cluster.start()
        wait_until_ready(cluster)
        if variant != "account":
            lose_pods(cluster, "embedding-ps-1")
            lose_pods(cluster, "nn-worker-1", *(["serve-0"] if store else []))
            lose_pods(cluster, "nn-worker-0", lose=Pod.evict)
            lose_pods(cluster, "embedding-worker-0")
        cluster.wait("the job is complete", cluster.is_done)
        if variant != "account":
            check(cluster.failures == 1, f"the job counts {cluster.failures} failures, not only the killed rank")
        if not store:
            model = f"{folder}/volumes/claim-{NAME}-models/{NAME}"
        step = check_model(store, model)
        if store:
            check_served(cluster, store, model, step, folder)
            check_written(cluster, volumes, before)
        if variant == "account":
            users = [pod for pod in cluster.pods if "embedding-worker" not in pod.name]
            check(all(pod.address in identities.asked for pod in users), f"these have their keys: {identities.asked}")


main()
