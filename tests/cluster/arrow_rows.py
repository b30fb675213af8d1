"""Hands the rows of a CSV file without header on, as Parquet or as an Arrow IPC stream.

Usage: arrow_rows.py CSV.zst COLUMN,... FILE.parquet   writes Parquet, in small row groups
       arrow_rows.py CSV.zst COLUMN,... -              writes a stream to stdout
       arrow_rows.py CSV.zst COLUMN,... unix:PATH N    serves N connections, each with all rows
"""

import socket
import sys
import threading

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

source, names, target = sys.argv[1:4]
with pa.CompressedInputStream(pa.OSFile(source), "zstd") as text:
    rows = pa.csv.read_csv(text, pa.csv.ReadOptions(column_names=names.split(",")))
# Cells as dictionaries and of other types train the same model.
rows = rows.set_column(1, rows.column_names[1], rows.column(1).dictionary_encode())
rows = rows.set_column(0, rows.column_names[0], rows.column(0).cast(pa.int16()))


def send(out):
    with pa.ipc.new_stream(out, rows.schema) as stream:
        stream.write_table(rows, max_chunksize=5000)


def serve(connection):
    with connection, connection.makefile("wb") as out:
        send(out)


if target == "-":
    send(sys.stdout.buffer)
elif target.startswith("unix:"):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(target.removeprefix("unix:"))
        server.listen()
        # Feeders read at the same time.
        for _ in range(int(sys.argv[4])):
            threading.Thread(target=serve, args=server.accept()[:1]).start()
else:
    pa.parquet.write_table(rows.select(list(reversed(rows.column_names))), target, row_group_size=3000)
