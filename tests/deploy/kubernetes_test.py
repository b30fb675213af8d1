"""Builds the Kubernetes objects of each overlay, checks them against Kubernetes' schemas, and their cluster file and
commands with the real daemons. usage: kubernetes_test.py BUILD"""

import os
import subprocess
import sys
import tempfile

PYTHON = os.path.abspath("build/python/bin/python")  # Has the packages of tests/requirements.txt.
if os.path.exists(PYTHON) and os.path.abspath(sys.executable) != PYTHON:
    os.execv(PYTHON, [PYTHON, *sys.argv])
FOLDER = "config/deploy/kubernetes"
CLUSTER = "/etc/simurgh/cluster.yaml"
try:
    import kubernetes_validate
    import yaml
except ImportError as missing:
    print(f"SKIPPED: {missing}; scripts/test.sh installs it in build/python")
    sys.exit(77)
KUBECTL = f"{os.path.dirname(sys.executable)}/kubectl"


def check(holds, text):
    if not holds:
        sys.exit(f"kubernetes_test: {text}")


def objects_of(overlay):
    built = subprocess.run([KUBECTL, "kustomize", f"{FOLDER}/overlays/{overlay}"], capture_output=True, text=True)
    check(built.returncode == 0, f"{overlay}: {built.stderr}")
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(built.stdout)}


def validate(one):
    kubernetes_validate.validate(one, "1.31", strict=True)


def is_refused(one):
    try:
        validate(one)
    except kubernetes_validate.ValidationError:
        return True
    return False


def check_daemon(programs, folder, pod, environment):
    """The command of a pod accepts its configuration and index."""
    [container] = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    check(mounts["config"] == os.path.dirname(CLUSTER), f"{container['name']}: the configuration is at {mounts}")
    command = container["command"][-1].replace(CLUSTER, f"{folder}/cluster.yaml") + " --check-config"
    path = f"{programs}:{os.environ['PATH']}"
    done = subprocess.run(["sh", "-c", command], env=dict(os.environ, PATH=path, **environment), capture_output=True,
                          text=True)
    check(done.returncode == 0, f"{command}: {done.stdout}{done.stderr}")
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    check(set(ports) == {"rpc", "metrics"}, f"{container['name']}: ports are {ports}")
    return ports


def check_overlay(overlay, programs):
    objects = objects_of(overlay)
    for one in objects.values():
        validate(one)
    [text] = [one["data"]["cluster.yaml"] for (kind, _), one in objects.items() if kind == "ConfigMap"]
    cluster = yaml.safe_load(text)
    pods = {"embedding_ps": objects[("StatefulSet", "embedding-ps")],
            "embedding_worker": objects[("StatefulSet", "embedding-worker")],
            "nn_worker": objects[("Job", "nn-worker")]}
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/cluster.yaml", "w", encoding="utf-8") as file:
            file.write(text.replace("/usr/share/simurgh/examples", os.path.abspath("config"))
                       .replace("/run/simurgh", folder))
        with open(f"{folder}/token", "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write("0123456789" * 4)
        for section, one in pods.items():
            name = one["metadata"]["name"]
            instances = cluster[section]["instances"]
            count = one["spec"].get("replicas") or one["spec"]["completions"]
            check(count == len(instances), f"{name}: {count} pods, {len(instances)} instances in cluster.yaml")
            service = objects[("Service", name)]["spec"]
            check(service["clusterIP"] == "None" and service["publishNotReadyAddresses"], f"{name}: not headless")
            for index, instance in enumerate(instances):
                environment = {"HOSTNAME": f"{name}-{index}", "JOB_COMPLETION_INDEX": str(index)}
                ports = check_daemon(programs, folder, one["spec"]["template"]["spec"], environment)
                for key, port in (("address", ports["rpc"]), ("metrics", ports["metrics"])):
                    check(instance[key] == f"{name}-{index}.{name}:{port}", f"{name}: {key} is {instance[key]}")
            wrong = {"HOSTNAME": f"{name}-{len(instances)}", "JOB_COMPLETION_INDEX": str(len(instances))}
            try:
                check_daemon(programs, folder, one["spec"]["template"]["spec"], wrong)
            except SystemExit:
                continue
            check(False, f"{name}: an index without an instance is accepted")
    return objects


def main():
    programs = os.path.abspath(f"{sys.argv[1]}/bin")
    cpu, gpu = (check_overlay(overlay, programs) for overlay in ("cpu", "gpu"))
    limits = [one[("Job", "nn-worker")]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
              for one in (cpu, gpu)]
    check("nvidia.com/gpu" not in limits[0] and limits[1]["nvidia.com/gpu"] == 1, f"GPUs: {limits}")
    policy = cpu[("NetworkPolicy", "simurgh")]["spec"]
    ours = {"matchLabels": {"app.kubernetes.io/part-of": "simurgh"}}
    check(policy["podSelector"] == ours and policy["ingress"][0]["from"] == [{"podSelector": ours}],
          f"the policy concerns other pods: {policy}")
    broken = cpu[("StatefulSet", "embedding-ps")]
    broken["spec"]["replicas"] = "two"
    check(is_refused(broken), "the schemas refuse nothing")


main()
