"""Trains and uses deep recommendation models with Simurgh: see the README of this package's folder."""

from ._library import Error, InvalidError, LostError, version
from .loader import Loader
from .model import Features, Model, Version
from .programs import checkpoints, history, importance, predict, program, train
from .server import Server
from .tune import Tuned, tune
from .worker import Batch, Feature, Inputs, Worker

__all__ = [
    "Batch",
    "Error",
    "Feature",
    "Features",
    "Inputs",
    "InvalidError",
    "Loader",
    "LostError",
    "Model",
    "Server",
    "Tuned",
    "Version",
    "Worker",
    "checkpoints",
    "history",
    "importance",
    "predict",
    "program",
    "train",
    "tune",
    "version",
]
__version__ = version()
