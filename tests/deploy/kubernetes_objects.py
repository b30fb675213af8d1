"""The objects that `simurgh kubernetes` prints, and the words of their pods. For kubernetes_test.py and
kubernetes_run_test.py."""

import os
import subprocess
import sys

PYTHON = os.path.abspath("build/python/bin/python")  # Has the packages of tests/requirements.txt.
if os.path.exists(PYTHON) and os.path.abspath(sys.executable) != PYTHON:
    os.execv(PYTHON, [PYTHON, *sys.argv])
try:
    import kubernetes_validate
    import yaml
except ImportError as missing:
    print(f"SKIPPED: {missing}; scripts/test.sh installs it in build/python")
    sys.exit(77)
PROGRAMS = os.path.abspath(f"{sys.argv[1]}/bin")
TOKEN = "0123456789" * 4


def check(holds, text):
    if not holds:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {text}")


def kubernetes(*words):
    done = subprocess.run([f"{PROGRAMS}/simurgh", "kubernetes", *words], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def objects_of(*words):
    """The printed objects by kind and name. All fit the schemas of Kubernetes."""
    code, text, error = kubernetes(*words)
    check(code == 0, f"{words}: exit code {code}: {error}")
    objects = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text)}
    for one in objects.values():
        kubernetes_validate.validate(one, "1.31", strict=True)
    return objects


def template_of(one):
    return one["spec"]["template"]["spec"]


def words_of(container, folder):
    """The command of a container whose volumes are mounted in `folder` in place of /."""
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}

    def placed(word):
        for path in ("/etc/simurgh", "/run/simurgh", "/secret", "/models", "/data", "/tls"):
            word = word.replace(path, folder + (path if path in mounts else "/missing"), 1)
        return word

    return [placed(word) for word in container["command"]]


def place(objects, name, folder, token=TOKEN):
    """Writes the volumes that pods see: the configuration, its folder as the data, and the secret."""
    for path in ("etc/simurgh", "run/simurgh", "secret", "models", "tls"):
        os.makedirs(f"{folder}/{path}", exist_ok=True)
    with open(f"{folder}/etc/simurgh/cluster.yaml", "w", encoding="utf-8") as file:
        file.write(objects[("ConfigMap", f"{name}-config")]["data"]["cluster.yaml"])
    with open(f"{folder}/secret/token", "w", encoding="ascii") as file:
        file.write(token)
    if not os.path.exists(f"{folder}/data"):
        os.symlink(os.path.abspath("config"), f"{folder}/data")


def prepare(pod, folder):
    """Runs the init container."""
    [container] = pod["initContainers"]
    done = subprocess.run(words_of(container, folder), capture_output=True, text=True)
    check(done.returncode == 0, f"{container['command']}: {done.stderr}")
