"""Checks the objects that `simurgh kubernetes` prints against Kubernetes' schemas, and the commands of their pods with the
real daemons. usage: kubernetes_test.py BUILD"""

import os
import subprocess
import tempfile

import kubernetes_objects
from kubernetes_objects import PROGRAMS, TOKEN, check, kubernetes, objects_of, place, prepare, template_of, words_of


def check_refused(text, *words):
    code, _, error = kubernetes(*words)
    check(code == 2 and text in error, f"{words}: exit code {code}: {error}")


def checked(pod, folder, environment):
    """Runs the command of a pod, whose mounted folders are in `folder`, with --check-config."""
    [container] = pod["containers"]
    command = words_of(container, folder)
    command[2] += " --check-config"  # The text of the shell.
    environment = dict(os.environ, PATH=f"{PROGRAMS}:{os.environ['PATH']}", **environment)
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def check_pods(objects, name, counts, folder):
    """The pods of each kind have the names and indexes of their instances."""
    for program, count in counts.items():
        full = f"{name}-{program}"
        one = objects.get(("StatefulSet", full)) or objects[("Job", full)]
        spec = one["spec"]
        check((spec.get("replicas") or spec["completions"]) == count, f"{full}: {spec}")
        service = objects[("Service", full)]["spec"]
        check(service["clusterIP"] == "None" and service["publishNotReadyAddresses"], f"{full}: not headless")
        pod = template_of(one)
        prepare(pod, folder)
        check((spec.get("serviceName") or pod["subdomain"]) == full, f"{full}: its pods have no names")
        settings = " ".join(pod["containers"][0]["command"])
        for index in range(count + 1):
            environment = {"HOSTNAME": f"{full}-{index}", "JOB_COMPLETION_INDEX": str(index)}
            done = checked(pod, folder, environment)
            check((done.returncode == 0) == (index < count), f"{full} {index}: {done.stdout}{done.stderr}")
            if index < count:
                check(f"address: '{full}-{index}.{full}:7401'" in settings, f"{full}: {settings}")
        ports = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
        check(ports == {"rpc": 7401, "metrics": 7501}, f"{full}: ports are {ports}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        words = ["config/adult.yaml", "--data", "files", "--ids", "1M", "--servers", "3", "--ranks", "2"]
        objects = objects_of(*words, "--image", "registry/simurgh:2")
        place(objects, "adult", folder)
        with open("config/adult.yaml", encoding="utf-8") as file:
            check(objects[("ConfigMap", "adult-config")]["data"]["cluster.yaml"] == file.read(), "the file has changed")
        check_pods(objects, "adult", {"embedding-ps": 3, "embedding-worker": 1, "nn-worker": 2}, folder)
        rank = template_of(objects[("Job", "adult-nn-worker")])
        check(rank["containers"][0]["image"] == "registry/simurgh:2", "another image")
        check("nvidia.com/gpu" not in rank["containers"][0]["resources"]["limits"], "a GPU")
        check({"name": "data", "persistentVolumeClaim": {"claimName": "files", "readOnly": True}} in rank["volumes"],
              f"the data: {rank['volumes']}")
        policy = objects[("NetworkPolicy", "adult")]["spec"]
        ours = {"matchLabels": {"app.kubernetes.io/part-of": "adult"}}
        check(policy["podSelector"] == ours and policy["ingress"][0]["from"] == [{"podSelector": ours}],
              f"the policy concerns other pods: {policy}")
        check(len(objects[("Secret", "adult-token")]["stringData"]["token"]) == 64, "no new token")

        # Memory grows with the ids, and falls with the servers.
        def memory(*more):
            one = objects_of("config/adult.yaml", "--data", "files", "--set", "tables.0.dim=64",
                             *more)[("StatefulSet", "adult-embedding-ps")]
            text = template_of(one)["containers"][0]["resources"]["limits"]["memory"]
            return int(text[:-2]) * {"Mi": 1, "Gi": 1024}[text[-2:]]

        sizes = [memory("--ids", *more) for more in (("10M",), ("4M",), ("4M", "--servers", "4"))]
        check(sizes[0] > 1.2 * sizes[1] and sizes[1] > 1.3 * sizes[2], f"memory is not that of a plan: {sizes}")

        # GPUs, a server of predictions, a kept token, certificates.
        more = objects_of(*words, "--gpu", "--serve", "--name", "other", "--keep-token", "--tls", "certificates")
        place(more, "other", folder)
        rank = template_of(more[("Job", "other-nn-worker")])
        check(rank["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1, "no GPU")
        check("nn_worker.device=cuda" in rank["containers"][0]["command"], "the rank computes on the CPU")
        check(not any(kind == "Secret" for kind, _ in more), "a token is printed")
        check(more[("HorizontalPodAutoscaler", "other-serve")]["spec"]["scaleTargetRef"]["name"] == "other-serve",
              "the server is not scaled")
        serve = template_of(more[("Deployment", "other-serve")])
        check({volume["name"] for volume in serve["volumes"]} == {"tmp", "models"}, f"serve: {serve['volumes']}")

        # A model in a bucket needs no claim. Its credentials are optional: an account can give them.
        uri = "s3://store/adult?endpoint_override=minio:9000&scheme=http"
        inside = "s3://store?endpoint_override=minio:9000&scheme=http/adult"
        for bucket in (["--with-bucket", uri], ["--set", f"checkpoint.directory={uri}"]):
            stored = objects_of(*words, "--serve", *bucket, "--service-account", "trainer")
            check(not any(kind == "PersistentVolumeClaim" for kind, _ in stored), f"{bucket}: a claim")
            pods = [one for one in stored.values() if one["kind"] in ("StatefulSet", "Job", "Deployment")]
            check(len(pods) == 4, f"{bucket}: {len(pods)} kinds of pods")
            for pod in map(template_of, pods):
                [container] = pod["containers"]
                check(not any(volume["name"] == "models" for volume in pod["volumes"]), f"{bucket}: {pod['volumes']}")
                check(container["envFrom"] == [{"secretRef": {"name": "adult-s3", "optional": True}}],
                      f"{bucket}: {container}")
                check(pod["serviceAccountName"] == "trainer", f"{bucket}: another account")
                command = container["command"]
                check(inside in command or f"checkpoint.directory={inside}" in command, f"{bucket}: {command}")
            # Pods may call the object store.
            check(stored[("NetworkPolicy", "adult")]["spec"]["policyTypes"] == ["Ingress"], "calls are limited")
            place(stored, "adult", folder)
            check_pods(stored, "adult", {"embedding-ps": 3, "embedding-worker": 1, "nn-worker": 2}, folder)
        check("envFrom" not in rank["containers"][0] and "serviceAccountName" not in rank, f"without a bucket: {rank}")

        # Training without an end is no job.
        endless = objects_of(*words, "--set", "training.epochs=0")
        check(("Job", "adult-nn-worker") not in endless, "a job that cannot end")
        place(endless, "adult", folder)
        check_pods(endless, "adult", {"embedding-ps": 3, "embedding-worker": 1, "nn-worker": 2}, folder)

        token = f"{folder}/token"
        with open(token, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(TOKEN + "\n")
        kept = objects_of(*words, "--set", f"cluster.token_file={token}")
        check(kept[("Secret", "adult-token")]["stringData"]["token"] == TOKEN, "another token than the file's")

    # Data that the project's image cannot read.
    for setting in ("data.train=['s3://store/day.csv']", "data.format=parquet"):
        code, _, error = kubernetes("config/adult.yaml", "--data", "files", "--set", setting)
        check(code == 0 and "note: data.train: '" in error and "needs libsimurgh_arrow.so" in error,
              f"{setting}: exit code {code}: {error}")
    check("libsimurgh_arrow.so" not in kubernetes(*words)[2], "a note on CSV files")

    check_refused("by --data CLAIM", "config/adult.yaml")
    check_refused("gs:// is not read; use s3://", *words, "--with-bucket", "gs://models/adult")
    check_refused("has credentials in its URI", *words, "--with-bucket", "s3://KEY:SECRET@models/adult")
    check_refused("cannot be the name of objects", *words, "--name", "My_Cluster")
    check_refused("by --tls SECRET", *words, "--set",
                  "rpc={security: tls, tls: {certificate: adult.yaml, key: adult.yaml, authority: adult.yaml}}")
    check_refused("cannot read '/nowhere/token'", *words, "--set", "cluster.token_file=/nowhere/token")
    broken = objects[("StatefulSet", "adult-embedding-ps")]
    broken["spec"]["replicas"] = "two"
    try:
        kubernetes_objects.kubernetes_validate.validate(broken, "1.31", strict=True)
    except kubernetes_objects.kubernetes_validate.ValidationError:
        return
    check(False, "the schemas refuse nothing")


main()
