"""Writes rows of every kind of column as Parquet and Arrow, and as CSV for reference.

Usage: arrow_files.py FOLDER
"""

import decimal
import pathlib
import random
import sys

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

ROWS = 1000
random.seed(7)


def some(make, missing=0.2):
    return [None if random.random() < missing else make() for _ in range(ROWS)]


def text():
    return random.choice(["", "Oslo", "New York", "a,b", 'say "hi"', "7", "åäö", "x" * 40]) + str(random.randrange(5))


def ids(make):
    return [[make() for _ in range(random.randrange(4))] for _ in range(ROWS)]


integer = lambda: random.choice([0, 7, -7, 2**62, -(2**63), random.randrange(1000)])
columns = {
    "y": (pa.int8(), [random.randrange(2) for _ in range(ROWS)]),
    "x": (pa.float64(), some(lambda: random.gauss(0, 1))),
    "count": (pa.int32(), some(lambda: random.randrange(-100, 100))),
    "i64": (pa.int64(), some(integer)),
    "u8": (pa.uint8(), some(lambda: random.randrange(256))),
    "flag": (pa.bool_(), some(lambda: random.random() < 0.5)),
    "price": (pa.float64(), some(lambda: random.choice([7.0, 0.5, -2.25]))),
    "city": (pa.string(), some(text)),
    "large": (pa.large_string(), some(text)),
    "bytes": (pa.binary(), some(lambda: text().encode())),
    "fixed": (pa.binary(3), some(lambda: random.choice([b"abc", b"xyz"]))),
    "category": (pa.dictionary(pa.int16(), pa.string()), some(text)),
    "day": (pa.date32(), some(lambda: random.randrange(20000))),
    "tags": (pa.list_(pa.string()), ids(lambda: random.choice(["a", "b", "cc"]))),
    "items": (pa.large_list(pa.int64()), ids(integer)),
    "weighted": (
        pa.list_(pa.struct([("id", pa.int64()), ("weight", pa.float32())])),
        ids(lambda: {"id": random.randrange(9), "weight": random.choice([0.5, 2.0])}),
    ),
    "map": (
        pa.map_(pa.string(), pa.float64()),
        ids(lambda: (random.choice("abc"), random.choice([0.25, 4.0]))),
    ),
    "unused": (pa.string(), some(text)),
}
table = pa.table({name: pa.array(values, type) for name, (type, values) in columns.items()})


def cell(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float):
        return repr(int(value)) if value == int(value) else repr(value)
    if isinstance(value, dict):
        return f"{value['id']}:{value['weight']}"
    if isinstance(value, tuple):
        return f"{value[0]}:{value[1]}"
    if isinstance(value, list):
        return "|".join(cell(one) for one in value)
    return str(value)


def quoted(value):
    return '"' + cell(value).replace('"', '""') + '"'


folder = sys.argv[1]
with open(f"{folder}/rows.csv", "w") as out:
    names = [name for name in columns if name != "unused"]
    out.write(",".join(names) + "\n")
    for row in range(ROWS):
        out.write(",".join(quoted(columns[name][1][row]) for name in names) + "\n")

pq.write_table(table, f"{folder}/plain.parquet", use_dictionary=False, compression="none", row_group_size=100)
pq.write_table(table, f"{folder}/default.parquet")
pq.write_table(table, f"{folder}/zstd.parquet", compression="zstd", row_group_size=301, data_page_size=500,
               dictionary_pagesize_limit=64, data_page_version="2.0")
with pa.ipc.new_file(f"{folder}/rows.arrow", table.schema) as out:
    out.write_table(table, max_chunksize=123)
with pa.ipc.new_stream(f"{folder}/stream.arrow", table.schema,
                       options=pa.ipc.IpcWriteOptions(compression="lz4")) as out:
    out.write_table(table, max_chunksize=250)
# Records, of one or more batches; the second has none, and the last one has its columns reversed.
starts = [0, 100, 100, 101, 350, 600, 1000]
for i, (begin, end) in enumerate(zip(starts, starts[1:])):
    part = table.slice(begin, end - begin)
    if end == ROWS:
        part = part.select(list(reversed(part.column_names)))
    new = pa.ipc.new_file if i % 2 == 0 else pa.ipc.new_stream
    with new(f"{folder}/record{i}", part.schema) as out:
        out.write_table(part, max_chunksize=90)
views = table.set_column(table.schema.get_field_index("city"), "city",
                         table["city"].cast(pa.string_view()))
with pa.ipc.new_stream(f"{folder}/views.arrow", views.schema) as out:
    out.write_table(views, max_chunksize=99)

# Two halves; of a third file, the pages of two columns' first row group are overwritten.
pq.write_table(table.slice(0, 470), f"{folder}/half0.parquet", row_group_size=60)
pq.write_table(table.slice(470), f"{folder}/half1.parquet", row_group_size=60)
pq.write_table(table, f"{folder}/damaged.parquet", row_group_size=500, compression="none", use_dictionary=False)
metadata = pq.ParquetFile(f"{folder}/damaged.parquet").metadata
with open(f"{folder}/damaged.parquet", "r+b") as out:
    for i in range(metadata.num_columns):
        chunk = metadata.row_group(0).column(i)
        if chunk.path_in_schema in ("unused", "city"):
            out.seek(chunk.data_page_offset)
            out.write(b"\xff" * chunk.total_compressed_size)
whole = open(f"{folder}/default.parquet", "rb").read()
open(f"{folder}/short.parquet", "wb").write(whole[: len(whole) // 2])
open(f"{folder}/text.parquet", "w").write("y,city\n1,Oslo\n")
open(f"{folder}/empty.parquet", "w").write("")
stream = open(f"{folder}/stream.arrow", "rb").read()
open(f"{folder}/short.arrow", "wb").write(stream[: len(stream) // 2])
no_rows = table.slice(0, 0)
pq.write_table(no_rows, f"{folder}/none.parquet")
types = pa.table({"y": pa.array([1, 0]),
                  "d": pa.array([decimal.Decimal("1.50"), decimal.Decimal("-2.25")], pa.decimal128(12, 2)),
                  "half": pa.array([0.25, 3.0]).cast(pa.float16()),
                  "vector": pa.array([[1, -0.5], [4, 5]], pa.list_(pa.float32())),
                  "wide": pa.array([decimal.Decimal("1.00")] * 2, pa.decimal256(60, 2))})
pq.write_table(types, f"{folder}/types.parquet")
for i, place in enumerate(["fold=3/day=2024-01-01/a", "fold=4/day=a%3Db%20c/b",
                           "fold=5/day=__HIVE_DEFAULT_PARTITION__/c"]):
    path = pathlib.Path(f"{folder}/hive/{place}.parquet")
    path.parent.mkdir(parents=True)
    pq.write_table(types, path)
