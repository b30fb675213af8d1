"""Writes Arrow records: record N has ROWS rows, those with the numbers N * ROWS and on.

Usage: arrow_records.py FOLDER RECORDS ROWS   writes FOLDER/0, FOLDER/1, ...
"""

import sys

import pyarrow as pa

folder, records, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for record in range(records):
    numbers = list(range(record * rows, (record + 1) * rows))
    table = pa.table({"record": numbers, "label": pa.array([n % 2 for n in numbers], pa.int8())})
    new = pa.ipc.new_stream if record % 2 else pa.ipc.new_file
    with new(f"{folder}/{record}", table.schema) as out:
        out.write_table(table, max_chunksize=3)
