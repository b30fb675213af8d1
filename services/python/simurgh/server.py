"""Serves a trained model with a network of this program."""

import ctypes
import os
import signal
import threading
import time
import traceback

from . import _library, state
from ._library import InvalidError
from .worker import Batch, Worker, arrays_of, inputs_of, outputs_of

_WAIT_MS = 100  # Python handles signals between two waits.
_POLL_S = 0.01


class Server:
    """The server of `simurgh serve`, for a model whose network is this program's:

        with Server("clicks-model", listen="127.0.0.1:8000") as server:
            server.track(forward=..., restore=...)
            server.run()

    The library answers HTTP requests, makes embeddings of their rows and gathers requests in batches. The program
    computes the outputs. A new checkpoint or delta is restored, and must predict the rows of its probe, before it is used:
    rows and weights of an answer are of one version. An exception of the program fails the request with 500 and its text.

    model: the folder; None: serving.model of `config`. listen: "host:port", port 0: any free one; None: that of `config`,
    or 127.0.0.1:8000. config: path of a YAML file with the section `serving`. overrides: texts "key=value", such as
    "serving.max_batch_rows=256". Errors: InvalidError for the configuration, an address in use, no model, or one whose
    network is that of its configuration.
    Threads: `ready`, `reload` and `stop` by any, others by one at a time.
    """

    def __init__(self, model=None, *, listen=None, config=None, overrides=(), log_level=None):
        self._handle = None
        self._forward = None
        self._restore = None
        self._thread = None
        self._failure = None  # The text of the last exception that was printed.
        self._stops = False
        self._process = os.getpid()
        texts = [text.encode() for text in overrides]
        model = getattr(model, "path", model)  # Also a simurgh.Model.
        options = _library.ServerOptions(
            size=ctypes.sizeof(_library.ServerOptions),
            model=None if model is None else os.fsencode(model),
            listen=None if listen is None else listen.encode(),
            config_path=None if config is None else os.fsencode(config),
            overrides=(ctypes.c_char_p * len(texts))(*texts),
            override_count=len(texts),
            log_level=None if log_level is None else log_level.encode(),
        )
        handle = ctypes.c_void_p()
        _library.check(_library.LIBRARY.simurgh_server_open(options, handle))
        self._handle = handle
        self.inputs = inputs_of(_library.LIBRARY.simurgh_server_inputs, handle)
        address, url = ctypes.c_char_p(), ctypes.c_char_p()
        _library.check(_library.LIBRARY.simurgh_server_address(handle, address, url))
        self.address = address.value.decode()
        self.url = url.value.decode()  # Of the model, in the protocol v2.

    @property
    def port(self):
        """The port at which the server listens."""
        return int(self.address.rsplit(":", 1)[1])

    @property
    def ready(self):
        """Whether a version answers requests. Errors: InvalidError if a version was refused and there is no other one."""
        answer = ctypes.c_int()
        _library.check(_library.LIBRARY.simurgh_server_ready(self._require(), answer))
        return answer.value != 0

    def track(self, *, forward, restore):
        """Registers the network.

        forward(batch): returns outputs (B) or (B, labels), as in training. restore(state): takes over the state of a
        version, as in Worker.track; called at once with that of the version that the folder has now.
        """
        self._forward = forward
        self._restore = restore
        start = _library.State()
        _library.check(_library.LIBRARY.simurgh_server_start(self._require(), start))
        self._take_over(start)

    def run(self):
        """Serves until SIGINT, SIGTERM or `stop`, then answers the requests that have arrived. SIGHUP reads the
        certificate, the tokens and the version again. A second SIGINT raises KeyboardInterrupt.
        """
        old = {}
        if threading.current_thread() is threading.main_thread():
            handlers = {signal.SIGINT: self._on_stop, signal.SIGTERM: self._on_stop, signal.SIGHUP: self._on_hangup}
            old = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            self._work()
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def start(self):
        """Serves in another thread, until `stop`. Waits until a version answers requests. Returns the server.
        Errors: InvalidError if the version is refused.
        """
        if self._thread is not None:
            raise InvalidError("the server has been started; stop it before it starts again")
        self._require_tracked()
        self._thread = threading.Thread(target=self._work, name="simurgh-server", daemon=True)
        self._thread.start()
        while not self.ready:
            time.sleep(_POLL_S)
        return self

    def stop(self):
        """Stops the server: requests that have arrived are answered, new ones get 503."""
        self._stops = True
        _library.check(_library.LIBRARY.simurgh_server_interrupt(self._require()))
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def reload(self):
        """Reads the certificate, the tokens and the version of the configuration again. After an error nothing has
        changed.
        """
        _library.check(_library.LIBRARY.simurgh_server_reload(self._require()))

    def close(self):
        """Stops the server and frees it."""
        if self._handle is None:
            return
        if self._thread is not None:
            self.stop()
        handle, self._handle = self._handle, None
        _library.check(_library.LIBRARY.simurgh_server_close(handle))

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None) is not None and os.getpid() == self._process:
            _library.LIBRARY.simurgh_server_close(self._handle)

    def _require(self):
        if self._handle is None:
            raise InvalidError("the server is closed; open another one")
        return self._handle

    def _require_tracked(self):
        if self._forward is None:
            raise InvalidError("no network is tracked; call server.track before the server runs")

    def _on_stop(self, _number, _frame):
        if self._stops:
            raise KeyboardInterrupt
        self.stop()

    def _on_hangup(self, _number, _frame):
        try:
            self.reload()
        except _library.Error:
            traceback.print_exc()

    def _work(self):
        """Answers tasks until the server has stopped."""
        self._require_tracked()
        while True:
            task = _library.Task(size=ctypes.sizeof(_library.Task))
            _library.check(_library.LIBRARY.simurgh_server_next(self._require(), _WAIT_MS, task))
            if task.kind == _library.END:
                return
            try:
                if task.kind == _library.PREDICT:
                    outputs = self._predict(task)
                elif task.kind == _library.RESTORE:
                    self._take_over(task.state)
            except Exception as error:  # Whatever the program raises.
                self._fail(error)
                continue
            if task.kind == _library.PREDICT:
                function = _library.LIBRARY.simurgh_server_predicted
                _library.check(function(self._require(), outputs.ctypes.data, outputs.size))
            elif task.kind == _library.RESTORE:
                _library.check(_library.LIBRARY.simurgh_server_restored(self._require()))

    def _fail(self, error):
        text = traceback.format_exception_only(type(error), error)[-1].strip()
        if text != self._failure:  # A fault of all requests is printed once.
            traceback.print_exc()
        self._failure = text
        _library.check(_library.LIBRARY.simurgh_server_failed(self._require(), text.encode("utf-8", "replace")))

    def _predict(self, task):
        batch = self._make_batch(task)
        return self._outputs(self._forward(batch), batch.rows)

    def _outputs(self, outputs, rows):
        return outputs_of(outputs, rows, len(self.inputs.labels))

    def _make_batch(self, task):
        return Batch(self.inputs, task)

    def _take_over(self, saved):
        self._restore(state.unpack(saved.text.decode(), arrays_of(saved), self._from_array))

    _from_array = staticmethod(Worker._from_array)
