"""Pods of printed objects as processes. Each has a network of its own, and its object's volumes, user, environment and
probes. Its root file system is read-only if the object says so. For kubernetes_run_test.py."""

import http.server
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from kubernetes_objects import PROGRAMS, check, template_of

INSIDE = "SIMURGH_KUBERNETES_INSIDE"
BUILD = os.path.dirname(PROGRAMS)
BRIDGE = "10.77.0.1"  # The test.
STORE = "10.77.0.2"
STORE_NAME = "s3.storage.svc"
DEADLINE = 300
PODS = ("Deployment", "Job", "StatefulSet")
# What the image has.
SYSTEM = ("bin", "dev", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "sys", "usr")
LIBRARIES = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "nsswitch.conf")
HOME = "/var/lib/simurgh"
SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(77)


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    check(done.returncode == 0, f"{' '.join(words)}: {done.stderr}")


def isolate():
    """Goes on in namespaces of its own, which no other process shares."""
    os.umask(0o022)  # Pods run as another user.
    if os.environ.get(INSIDE):
        return
    for tool in ("ip", "nsenter", "setpriv", "unshare"):
        if not shutil.which(tool):
            skip(f"{tool} is missing; install iproute2 and util-linux")
    probe = "ip link add probe type bridge && ip link add one type veth peer name two"
    if subprocess.run(["unshare", "--net", "--mount", "sh", "-c", probe], capture_output=True).returncode != 0:
        skip("no permission for networks and mounts")
    for path in (f"{PROGRAMS}/simurgh", "config/data/adult/adult.train.csv.zst"):
        if not os.stat(path).st_mode & 0o004:
            skip(f"the user of pods cannot read {path}; chmod --recursive o=u,o-w")
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, *sys.argv])


def make_network():
    run("ip", "link", "set", "lo", "up")
    # Without an address, a bridge has that of a pod, and changes it when that pod ends.
    run("ip", "link", "add", "pods", "address", "02:00:00:00:00:01", "type", "bridge")
    for address in (BRIDGE, STORE):
        run("ip", "address", "add", f"{address}/16", "dev", "pods")
    run("ip", "link", "set", "pods", "up")


class Hosts:
    """/etc/hosts of the test and of all pods. It is the DNS of the cluster."""

    def __init__(self, folder, names):
        self.path, self.offsets = f"{folder}/hosts", {}
        text = f"127.0.0.1 localhost\n{STORE} {STORE_NAME}\n"
        for name in names:
            self.offsets[name] = len(text)
            text += f"{self.line(name, '10.77.0.0')}\n"
        with open(self.path, "w", encoding="ascii") as file:
            file.write(text)
        run("mount", "--bind", self.path, "/etc/hosts")

    @staticmethod
    def line(name, address):
        return f"{address:15} {name}"

    def set(self, name, address):
        """Changes a line in its place: readers see the old one or the new one."""
        with open(self.path, "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), self.line(name, address).encode(), self.offsets[name])


class Volumes:
    """The volumes of the printed objects, in a folder.

    claims: the folder of each claim that exists. secrets: the texts of each Secret that exists."""

    def __init__(self, objects, folder, claims, secrets):
        self.folder, self.claims = folder, dict(claims)
        self.secrets = dict(secrets)
        for (kind, name), one in objects.items():
            if kind == "PersistentVolumeClaim":
                self.claims[name] = f"{folder}/claim-{name}"
                os.makedirs(self.claims[name])
            elif kind == "Secret":
                self.secrets[name] = one["stringData"]
            elif kind == "ConfigMap":
                self.write(f"config-{name}", one["data"])
        for name, texts in self.secrets.items():
            self.write(f"secret-{name}", texts)

    def write(self, name, texts):
        os.makedirs(f"{self.folder}/{name}")
        for key, text in texts.items():
            with open(f"{self.folder}/{name}/{key}", "w", encoding="utf-8") as file:
                file.write(text)

    def source(self, volume, scratch):
        """The folder of a volume. Those of a pod are in `scratch`."""
        if "emptyDir" in volume:
            return f"{scratch}/{volume['name']}"
        if "configMap" in volume:
            return f"{self.folder}/config-{volume['configMap']['name']}"
        if "secret" in volume:
            return f"{self.folder}/secret-{volume['secret']['secretName']}"
        return self.claims[volume["persistentVolumeClaim"]["claimName"]]

    def environment(self, container):
        """The variables that a container gets from Secrets."""
        variables = {}
        for one in container.get("envFrom", []):
            secret = one["secretRef"]
            check(secret["name"] in self.secrets or secret.get("optional"), f"there is no Secret {secret['name']}")
            variables.update(self.secrets.get(secret["name"], {}))
        return variables

    def files(self):
        """The files that pods share, with their times."""
        found = {}
        for top in [self.folder, *self.claims.values()]:
            for folder, _, names in os.walk(top):
                for name in names:
                    found[f"{folder}/{name}"] = os.stat(f"{folder}/{name}").st_mtime_ns
        return found


class Identities:
    """Gives the pods of a service account keys of a bucket, as the Pod Identity of EKS does."""

    ADDRESS = "169.254.170.23"
    FOLDER = "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount"
    TOKEN = "token-of-the-account"

    def __init__(self, keys, seconds):
        """The keys end after some seconds, as those of a role do."""
        run("ip", "address", "add", f"{self.ADDRESS}/32", "dev", "pods")
        self.asked = []  # The address of each request.
        identities = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                is_known = self.headers.get("Authorization") == identities.TOKEN and self.path == "/v1/credentials"
                end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
                body = json.dumps({"AccessKeyId": keys["AWS_ACCESS_KEY_ID"], "Expiration": end,
                                   "SecretAccessKey": keys["AWS_SECRET_ACCESS_KEY"]}).encode()
                self.send_response(200 if is_known else 403)
                self.send_header("Content-Length", str(len(body) if is_known else 0))
                self.end_headers()
                if is_known:
                    identities.asked.append(self.client_address[0])
                    self.wfile.write(body)

            def log_message(self, *args):
                pass

        server = http.server.ThreadingHTTPServer((self.ADDRESS, 80), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def admit(self, objects, account):
        """Changes the pods of an account as the webhook of EKS does. Returns the Secret of its token."""
        for one in objects.values():
            if one["kind"] not in PODS or template_of(one).get("serviceAccountName") != account:
                continue
            pod = template_of(one)
            [container] = pod["containers"]
            pod["volumes"].append({"name": "identity", "secret": {"secretName": "identity"}})
            container["volumeMounts"].append({"name": "identity", "mountPath": self.FOLDER, "readOnly": True})
            container["env"] = [
                {"name": "AWS_CONTAINER_CREDENTIALS_FULL_URI", "value": f"http://{self.ADDRESS}/v1/credentials"},
                {"name": "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "value": f"{self.FOLDER}/token"}]
        return {"identity": {"token": self.TOKEN}}


def is_writable(mount, volume):
    return not mount.get("readOnly") and ("emptyDir" in volume or "persistentVolumeClaim" in volume)


class Pod:
    """A pod of a StatefulSet, Job or Deployment. Each start is a new pod with an address of its own."""

    def __init__(self, one, index, number, folder, volumes, hosts):
        self.one, self.index, self.number, self.volumes, self.hosts = one, index, number, volumes, hosts
        self.is_job = one["kind"] == "Job"
        self.name, self.host = names_of(one, index)
        self.folder = f"{folder}/{self.name}"
        self.root = f"{self.folder}/root"
        self.starts, self.process = 0, None
        self.is_evicted = False
        self.make_root()

    def make_root(self):
        os.makedirs(f"{self.root}/etc")
        os.makedirs(self.root + HOME)
        for name in SYSTEM:
            if os.path.islink(f"/{name}"):
                os.symlink(os.readlink(f"/{name}"), f"{self.root}/{name}")
            elif os.path.isdir(f"/{name}"):
                os.makedirs(f"{self.root}/{name}")
        for name in LIBRARIES:
            if os.path.isdir(f"/etc/{name}"):
                shutil.copytree(f"/etc/{name}", f"{self.root}/etc/{name}", symlinks=True)
            elif os.path.exists(f"/etc/{name}"):
                shutil.copy(f"/etc/{name}", f"{self.root}/etc/{name}")
        user = template_of(self.one)["securityContext"]["runAsUser"]
        for name, text in (("passwd", f"simurgh:x:{user}:{user}::{HOME}:/usr/sbin/nologin"),
                           ("group", f"simurgh:x:{user}:"), ("hosts", "")):
            with open(f"{self.root}/etc/{name}", "w", encoding="ascii") as file:
                file.write(text + "\n")

    def mounts_of(self, container):
        """The mounts of a container, each with its volume."""
        volumes = {volume["name"]: volume for volume in template_of(self.one)["volumes"]}
        return [(mount, volumes[mount["name"]]) for mount in container["volumeMounts"]]

    @property
    def scratch(self):
        return f"{self.folder}/scratch{self.starts}"

    def inside(self, container):
        """A script that becomes "$@" in the file systems of a container, as its user."""
        lines = []

        def mount(source, target, *words):
            target = self.root + target
            if os.path.isdir(source):
                lines.append(f"mkdir -p {shlex.quote(target)}")
            lines.append(shlex.join(["mount", *words, source, target]))

        mount(self.root, "", "--bind")
        for name in SYSTEM:
            if os.path.isdir(f"{self.root}/{name}") and not os.path.islink(f"{self.root}/{name}"):
                mount(f"/{name}", f"/{name}", "--rbind")
        mount("shm", "/dev/shm", "-t", "tmpfs", "-o", "size=64m")  # Each container has one.
        mount(self.hosts.path, "/etc/hosts", "--bind", "-o", "ro")
        for one, volume in self.mounts_of(container):
            access = "rw" if is_writable(one, volume) else "ro"
            mount(self.volumes.source(volume, self.scratch), one["mountPath"], "--bind", "-o", access)
        mount(BUILD, BUILD, "--bind", "-o", "ro")
        security = template_of(self.one)["securityContext"]
        own = container["securityContext"]
        if own["readOnlyRootFilesystem"]:
            lines.append(shlex.join(["mount", "-o", "remount,bind,ro", self.root]))
        check(own["capabilities"] == {"drop": ["ALL"]}, f"{self.name}: {own}")
        # Pods end with the test, whatever ends it.
        rights = ["--pdeathsig=KILL", "--bounding-set=-all", "--inh-caps=-all"]
        if not own["allowPrivilegeEscalation"]:
            rights.append("--no-new-privs")
        enter = ["unshare", f"--root={self.root}", f"--wd={container['workingDir']}", "setpriv",
                 f"--reuid={security['runAsUser']}", f"--regid={security['runAsGroup']}",
                 f"--groups={security['fsGroup']}", *rights]
        lines.append(f'exec {shlex.join(enter)} "$@"')
        return "\n".join(lines)

    def make_scratch(self):
        """Makes the volumes that only this pod has, and lets its group write to claims."""
        pod = template_of(self.one)
        for volume in pod["volumes"]:
            path = self.volumes.source(volume, self.scratch)
            if "emptyDir" in volume:
                os.makedirs(path)
            elif volume.get("persistentVolumeClaim", {"readOnly": True}).get("readOnly"):
                continue
            os.chown(path, 0, pod["securityContext"]["fsGroup"])
            os.chmod(path, 0o2777 if "emptyDir" in volume else 0o2775)

    def start(self):
        """Starts its processes in a new network with a new address."""
        pod = template_of(self.one)
        self.starts += 1
        self.is_evicted = False
        self.make_scratch()
        [container] = pod["containers"]
        environment = {"PATH": f"{PROGRAMS}:{SEARCHED}", "HOME": HOME, "HOSTNAME": self.name}
        for one in pod.get("initContainers", []):
            done = subprocess.run(["unshare", "--mount", "sh", "-ec", self.inside(one), "sh", *one["command"]],
                                  env=environment, capture_output=True, text=True)
            check(done.returncode == 0, f"{self.name}: {one['command']}: {done.stderr}")
        environment.update(self.volumes.environment(container))
        environment.update({one["name"]: one["value"] for one in container.get("env", [])})
        if self.is_job:
            environment["JOB_COMPLETION_INDEX"] = str(self.index)
        # The command waits for its network.
        script = f"read -r line\n{self.inside(container)}"
        with open(f"{self.folder}/log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                ["unshare", "--net", "--mount", "sh", "-ec", script, "sh", *container["command"]],
                env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True)
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self.process.pid}/ns/net") == own:
            time.sleep(0.01)
        self.address = f"10.77.{100 + self.starts}.{100 + self.number}"
        self.hosts.set(self.host, self.address)
        link = f"v{self.number}n{self.starts}"
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(self.process.pid))
        run("ip", "link", "set", link, "master", "pods", "up")
        inside = ["nsenter", f"--net=/proc/{self.process.pid}/ns/net", "ip"]
        run(*inside, "address", "add", f"{self.address}/16", "dev", "eth0")
        run(*inside, "link", "set", "eth0", "up")
        run(*inside, "link", "set", "lo", "up")
        run(*inside, "route", "add", "169.254.0.0/16", "dev", "eth0")  # Services of the node.
        self.process.stdin.write("\n")
        self.process.stdin.close()

    def kill(self):
        """Kills its processes, as a lack of memory does."""
        self.process.kill()
        self.process.wait()

    def evict(self):
        """Stops it in order, as the drain of a node does."""
        self.is_evicted = True
        self.process.terminate()
        grace = template_of(self.one)["terminationGracePeriodSeconds"]
        try:
            self.process.wait(grace)
        except subprocess.TimeoutExpired:
            check(False, f"{self.name} has not stopped within {grace} s: {self.log()[-3000:]}")

    def is_done(self):
        """Whether it is a part of a job that is complete."""
        return self.is_job and self.process.poll() == 0

    def action(self):
        """What the policy of its job says about its end."""
        code = self.process.returncode
        code = 128 - code if code < 0 else code
        for rule in self.one["spec"].get("podFailurePolicy", {"rules": []})["rules"]:
            codes = rule.get("onExitCodes", {"operator": "In", "values": []})
            check(codes["operator"] == "In", f"a rule that this test does not know: {rule}")
            conditions = [one["type"] for one in rule.get("onPodConditions", [])]
            if code in codes["values"] or (self.is_evicted and "DisruptionTarget" in conditions):
                return rule["action"]
        return "Count"

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

    def scratch_files(self):
        """The files that its processes have left in volumes of their own."""
        found = set()
        for folder, _, names in os.walk(self.folder):
            place = re.sub(r"^.*/scratch[0-9]+/", "", f"{folder}/") if "/scratch" in folder else None
            found.update(place + name for name in names if place is not None)
        return found


def names_of(one, index):
    """The name of a pod, and that by which others call it."""
    name = one["metadata"]["name"]
    return f"{name}-{index}", name if one["kind"] == "Deployment" else f"{name}-{index}.{name}"


class Cluster:
    """Starts pods again as Kubernetes does."""

    def __init__(self, objects, folder, volumes):
        wanted = []
        for one in objects.values():
            if one["kind"] in PODS:
                count = one["spec"].get("replicas") or one["spec"].get("completions") or 1
                wanted += [(one, index) for index in range(count)]
        hosts = Hosts(folder, [names_of(*one)[1] for one in wanted])
        self.pods = [Pod(one, index, number, f"{folder}/pods", volumes, hosts)
                     for number, (one, index) in enumerate(wanted)]
        self.failures = 0  # Ends of ranks that the job counts.

    def start(self):
        for pod in self.pods:
            pod.start()

    def pod(self, name):
        return next(pod for pod in self.pods if pod.name == name)

    def restart_ended(self):
        """Starts ended pods again, but for ranks that are done. Fails if the job fails."""
        for pod in self.pods:
            code = pod.process.poll()
            if code is None or pod.is_done():
                continue
            check(code != 2 and pod.action() != "FailJob", f"{pod.name} has a wrong configuration: {pod.log()[-3000:]}")
            check(pod.starts < 20, f"{pod.name} has ended {pod.starts} times: {pod.log()[-3000:]}")
            if pod.is_job and pod.action() == "Count":
                self.failures += 1
                check(self.failures <= pod.one["spec"]["backoffLimit"], f"the job has failed: {pod.log()[-3000:]}")
            pod.start()

    def is_done(self):
        return all(pod.is_done() for pod in self.pods if pod.is_job)

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
            if pod.process:
                pod.kill()
