"""Trains and uses deep recommendation models with Simurgh: see the README of this package's folder."""

from ._library import Error, InvalidError, LostError, version
from .loader import Loader
from .worker import Batch, Feature, Inputs, Worker

__all__ = ["Batch", "Error", "Feature", "InvalidError", "Inputs", "Loader", "LostError", "Worker", "version"]
__version__ = version()
