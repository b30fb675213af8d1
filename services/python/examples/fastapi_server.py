"""An HTTP server with FastAPI: predicts with a model of Simurgh, and follows its training.

    MODEL=clicks-model uvicorn --app-dir services/python/examples fastapi_server:app
    curl 127.0.0.1:8000/predict -H 'Content-Type: application/json' -d '{"instances": [{"site": "site1", "age": 39}]}'

`simurgh serve` and simurgh.torch.serve need no such program. This one is a start for servers that
add their own code, such as a look-up of a user's columns.
"""

import os
from typing import Dict, List, Union

import numpy as np
import polars
import simurgh
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

MOST_ROWS = 4096
model = simurgh.Model(os.environ["MODEL"], follow=True)
app = FastAPI()


class Rows(BaseModel):
    instances: List[Dict[str, Union[str, int, float, None]]]


def cell(value):
    """A value as a text of a file: the ids of texts and numbers are then those of training."""
    return value if value is None or isinstance(value, str) else repr(value)


@app.get("/version")
def version():
    return {"step": model.step}


# Not `async`: FastAPI calls it in a pool of threads, which a model supports.
@app.post("/predict")
def predict(rows: Rows):
    if not 0 < len(rows.instances) <= MOST_ROWS:
        raise HTTPException(413, f"{len(rows.instances)} rows; send 1 to {MOST_ROWS}")
    names = dict.fromkeys(name for row in rows.instances for name in row)
    columns = {name: [cell(row.get(name)) for row in rows.instances] for name in names}
    schema = {name: polars.String for name in names}
    try:
        predictions = model.predict(polars.DataFrame(columns, schema=schema))
    except simurgh.InvalidError as error:
        raise HTTPException(400, str(error))
    # A row that cannot be parsed has NaN, which JSON has not.
    return {"predictions": np.where(np.isnan(predictions), None, predictions.astype(object)).tolist()}
