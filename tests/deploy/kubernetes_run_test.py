"""Runs the pods that `simurgh kubernetes` prints as processes: each in a network of its own, with the printed names in
/etc/hosts, the commands, environment, volumes and probes of its object. Kills pods, starts them again as Kubernetes does,
and expects the training's end and its model. usage: kubernetes_run_test.py BUILD"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from kubernetes_objects import PROGRAMS, check, objects_of, place, prepare, template_of, words_of

INSIDE = "SIMURGH_KUBERNETES_INSIDE"
NAME = "adult"
DEADLINE = 300


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    check(done.returncode == 0, f"{' '.join(words)}: {done.stderr}")


def isolate():
    """Goes on in namespaces of its own, which no other process shares."""
    if os.environ.get(INSIDE):
        return
    for tool in ("ip", "nsenter", "unshare"):
        if not shutil.which(tool):
            print(f"SKIPPED: {tool} is missing; install iproute2 and util-linux")
            sys.exit(77)
    probe = "ip link add probe type bridge && ip link add one type veth peer name two"
    if subprocess.run(["unshare", "--net", "--mount", "sh", "-c", probe], capture_output=True).returncode != 0:
        print("SKIPPED: no permission for networks and mounts")
        sys.exit(77)
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, *sys.argv])


class Pod:
    """A pod of a StatefulSet or Job, with an address that stays."""

    def __init__(self, one, index, address, folder):
        self.one, self.index, self.address = one, index, address
        program = one["metadata"]["name"]
        self.name = f"{program}-{index}"
        self.host = f"{self.name}.{program}"
        self.is_job = one["kind"] == "Job"
        self.folder = f"{folder}/{self.name}"
        self.starts = 0
        os.makedirs(self.folder)
        for volume in ("etc", "secret", "models", "data"):
            os.symlink(f"{folder}/{volume}", f"{self.folder}/{volume}")
        os.makedirs(f"{self.folder}/run/simurgh")

    def start(self):
        """Starts its processes in a new network with its address."""
        pod = template_of(self.one)
        self.starts += 1
        prepare(pod, self.folder)
        [container] = pod["containers"]
        environment = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "HOSTNAME": self.name}
        if self.is_job:
            environment["JOB_COMPLETION_INDEX"] = str(self.index)
        # The command waits for its network.
        wait = ["unshare", "--net", "sh", "-c", 'read -r line && exec "$@"', "sh"]
        log = open(f"{self.folder}/log", "a", encoding="utf-8")
        self.process = subprocess.Popen(wait + words_of(container, self.folder), env=environment, stdin=subprocess.PIPE,
                                        stdout=log, stderr=log, text=True)
        log.close()
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self.process.pid}/ns/net") == own:
            time.sleep(0.01)
        link = f"v{self.address.split('.')[-1]}n{self.starts}"
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(self.process.pid))
        run("ip", "link", "set", link, "master", "pods", "up")
        inside = ["nsenter", f"--net=/proc/{self.process.pid}/ns/net", "ip"]
        run(*inside, "address", "add", f"{self.address}/16", "dev", "eth0")
        run(*inside, "link", "set", "eth0", "up")
        run(*inside, "link", "set", "lo", "up")
        self.process.stdin.write("\n")
        self.process.stdin.close()

    def probe(self, kind):
        """The status code of a probe; none without an answer."""
        [container] = template_of(self.one)["containers"]
        get = container[kind]["httpGet"]
        [port] = [port["containerPort"] for port in container["ports"] if port["name"] == get["port"]]
        try:
            return urllib.request.urlopen(f"http://{self.address}:{port}{get['path']}", timeout=2).status
        except urllib.error.HTTPError as answer:
            return answer.code
        except OSError:
            return None

    def log(self):
        with open(f"{self.folder}/log", encoding="utf-8") as file:
            return file.read()


class Cluster:
    """Starts pods again as Kubernetes does."""

    def __init__(self, objects, folder):
        self.pods, hosts = [], "127.0.0.1 localhost\n"
        for program in ("embedding-ps", "embedding-worker", "nn-worker"):
            full = f"{NAME}-{program}"
            one = objects.get(("StatefulSet", full)) or objects[("Job", full)]
            for index in range(one["spec"].get("replicas") or one["spec"]["completions"]):
                pod = Pod(one, index, f"10.77.0.{10 + len(self.pods)}", folder)
                hosts += f"{pod.address} {pod.host}\n"
                self.pods.append(pod)
        with open(f"{folder}/hosts", "w", encoding="ascii") as file:
            file.write(hosts)
        run("mount", "--bind", f"{folder}/hosts", "/etc/hosts")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "pods", "type", "bridge")
        run("ip", "address", "add", "10.77.0.1/16", "dev", "pods")
        run("ip", "link", "set", "pods", "up")
        for pod in self.pods:
            pod.start()

    def pod(self, program, index):
        return next(pod for pod in self.pods if pod.name == f"{NAME}-{program}-{index}")

    def restart_ended(self):
        """Starts ended pods again, but for ranks that are done. Fails the job at a wrong configuration."""
        for pod in self.pods:
            code = pod.process.poll()
            if code is None or (pod.is_job and code == 0):
                continue
            check(code != 2, f"{pod.name} has a wrong configuration: {pod.log()[-3000:]}")
            check(pod.starts < 20, f"{pod.name} has ended {pod.starts} times: {pod.log()[-3000:]}")
            pod.start()

    def is_done(self):
        return all(pod.process.poll() == 0 for pod in self.pods if pod.is_job)

    def wait(self, what, holds):
        begin = time.monotonic()
        while not holds():
            if time.monotonic() - begin > DEADLINE:
                check(False, f"not after {DEADLINE} s: {what}; " +
                      "\n".join(f"{pod.name}: {pod.log()[-1000:]}" for pod in self.pods))
            self.restart_ended()
            time.sleep(0.05)

    def stop(self):
        for pod in self.pods:
            if pod.process.poll() is None:
                pod.process.kill()
            pod.process.wait()


def main():
    isolate()
    settings = ("training.epochs=12", "checkpoint.directory=/elsewhere", "checkpoint.every_steps=300")
    words = [word for one in settings for word in ("--set", one)]
    objects = objects_of("config/adult.yaml", "--data", "files", "--servers", "2", "--ranks", "2", *words)
    with tempfile.TemporaryDirectory() as folder:
        place(objects, NAME, folder, objects[("Secret", f"{NAME}-token")]["stringData"]["token"])
        cluster = Cluster(objects, folder)
        try:
            cluster.wait("all pods are live", lambda: all(pod.probe("livenessProbe") == 200 for pod in cluster.pods))
            cluster.wait("servers and workers are ready",
                         lambda: all(pod.probe("readinessProbe") == 200 for pod in cluster.pods if not pod.is_job))
            rank = cluster.pod("nn-worker", 0)
            for victim in (cluster.pod("embedding-ps", 1), cluster.pod("nn-worker", 1), cluster.pod("embedding-worker", 0)):
                saved = rank.log().count("saved the model")
                cluster.wait("a checkpoint", lambda: rank.log().count("saved the model") > saved or cluster.is_done())
                check(not cluster.is_done(), "training has ended before the pods were killed")
                victim.process.send_signal(signal.SIGKILL)
                victim.process.wait()
            cluster.wait("the job is complete", cluster.is_done)
            check(all(cluster.pod(*one).starts > 1 for one in (("embedding-ps", 1), ("nn-worker", 1))), "no pod was killed")
            model = f"{folder}/models/{NAME}"
            done = subprocess.run([f"{PROGRAMS}/simurgh", "model", "verify", model], capture_output=True, text=True)
            check(done.returncode == 0, f"the model: {done.stdout}{done.stderr}")
            evaluated = subprocess.run(
                [f"{PROGRAMS}/simurgh", "predict", "--model", model, "--evaluate", "--input",
                 "config/data/adult/adult.test.csv.zst", "--output", f"{folder}/out.csv"], capture_output=True, text=True)
            print(evaluated.stderr.strip().splitlines()[-1], evaluated.stdout)
            check(evaluated.returncode == 0 and "auc=0.9" in evaluated.stdout + evaluated.stderr,
                  f"the model predicts: {evaluated.stdout}{evaluated.stderr}")
        finally:
            cluster.stop()


main()
