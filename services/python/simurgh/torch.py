"""Training with a torch.nn.Module as the dense network. See `Worker`."""

import ctypes
import functools
import os
import pathlib
import types
import weakref

import numpy as np
import torch

from . import _library, server, state, worker
from ._library import InvalidError


class Batch:
    """A batch as tensors (float32).

    dense: (B, dense width). embeddings: by feature; (B, dim) of a pooled one, (B, rows, dim) of a raw one. masks: by
    raw feature with a mask, (B, rows), 1 where a row has an id. joined: (B, embedding width), all features side by
    side: the leaf that gets the gradient, which networks that concatenate read fastest. labels: (B) of one label,
    (B, labels) of several; NaN where unknown. weights: (B), or None.

    Tensors that are kept stay valid. The batch itself cannot be used after `worker.finish`.
    """

    def __init__(self, inputs, arrays, is_train, device=None, source=None):
        self._inputs = inputs
        self._embeddings = None
        self.step = arrays.step
        self.rows = arrays.rows
        # The batch whose memory is the library's; None: this one. Without a cycle, memory is freed at once.
        self._source = source
        if source is None:
            tensors = [torch.from_numpy(arrays.dense), torch.from_numpy(arrays.joined)]
            masks = {name: torch.from_numpy(mask) for name, mask in arrays.masks.items()}
            labels = torch.from_numpy(arrays.labels) if arrays.labels is not None else None
            if labels is not None and labels.shape[1] == 1:
                labels = labels[:, 0]
            weights = torch.from_numpy(arrays.weights) if arrays.weights is not None else None
        else:
            tensors = [source._dense, source._joined.detach()]
            masks, labels, weights = source._masks, source._labels, source._weights
        move = _Move(device)
        self._dense = move(tensors[0])
        self._joined = move(tensors[1])
        self._masks = {name: move(mask) for name, mask in masks.items()}
        self._labels = move(labels)
        self._weights = move(weights)
        move.wait()
        if is_train:
            self._joined.requires_grad_()
        self._is_train = is_train
        self._finished = False

    @property
    def _origin(self):
        return self if self._source is None else self._source

    def _check(self):
        if self._origin._finished:
            raise InvalidError(f"the batch of step {self.step} is finished; copy what later code needs")

    @property
    def dense(self):
        self._check()
        return self._dense

    @property
    def joined(self):
        self._check()
        return self._joined

    @property
    def embeddings(self):
        self._check()
        if self._embeddings is None:
            features = self._inputs.features
            parts = torch.split(self._joined, [feature.width for feature in features], dim=1)
            self._embeddings = {
                feature.name: part if feature.rows == 1 else part.unflatten(1, (feature.rows, feature.dim))
                for feature, part in zip(features, parts)
            }
        return self._embeddings

    @property
    def masks(self):
        self._check()
        return self._masks

    @property
    def labels(self):
        self._check()
        return self._labels

    @property
    def weights(self):
        self._check()
        return self._weights

    def to(self, device):
        """Returns the batch on a device. Copies go through pinned memory, on a separate stream."""
        self._check()
        device = torch.device(device)
        if device.type == self._joined.device.type and device.type == "cpu":
            return self
        return Batch(self._inputs, self, self._is_train, device, self._origin)


class _Move:
    """Copies tensors to a device: on CUDA through pinned memory, on a stream of its own."""

    _streams = {}

    def __init__(self, device):
        self._device = device
        self._stream = None
        if device is not None and device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            if index not in self._streams:
                self._streams[index] = torch.cuda.Stream(index)
            self._stream = self._streams[index]

    def __call__(self, tensor):
        if tensor is None or self._device is None:
            return tensor
        if self._stream is None:
            return tensor.to(self._device)
        pinned = tensor.pin_memory()
        with torch.cuda.stream(self._stream):
            moved = pinned.to(self._device, non_blocking=True)
        moved.record_stream(torch.cuda.current_stream(self._device))
        return moved

    def wait(self):
        if self._stream is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)


class Worker(worker.Worker):
    """A rank of a training with a torch.nn.Module:

        with simurgh.torch.Worker("clicks.yaml") as worker:
            net = Net(worker.inputs)
            optimizer = torch.optim.Adam(net.parameters())
            worker.track(net=net, optimizer=optimizer)
            for batch in worker:
                logits = net(batch.dense, batch.embeddings)
                loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, batch.labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                worker.finish(batch, logits)
        print(worker.result)

    See simurgh.Worker for arguments, signals and errors.
    """

    # Before `track`.
    _objects = {}
    _networks = ()
    _modes = None  # The modules' modes in training, while they are in eval mode.
    _skips = False  # A tracked optimizer has left the step out.

    def track(self, forward=None, **objects):
        """Registers networks, optimizers, schedulers and other objects that have state_dict and load_state_dict.

        Checkpoints save their state, and the random numbers of torch on rank 0. If training continues a model, they
        are restored at once, so call this after they have been made and moved to their device. A step of a tracked
        optimizer is left out on all ranks if a gradient of any rank is not finite.

        forward(batch): outputs of an evaluation's batch, (B) or (B, labels). None: the first tracked network is called
        with (batch.dense, batch.embeddings), on the device of its weights. Networks are in eval mode meanwhile.
        """
        if not objects:
            raise InvalidError("worker.track: name what is saved, as in worker.track(net=net, optimizer=optimizer)")
        self._objects = _tracked("worker.track", objects)
        self._networks = [one for one in self._objects.values() if isinstance(one, torch.nn.Module)]
        self._modes = None
        self._skips = False
        if forward is None and self._networks:
            forward = self._call_first
        for one in self._objects.values():
            if isinstance(one, torch.optim.Optimizer):
                self._guard(one)
        name = type(self._networks[0]).__name__ if self._networks else "program"
        super().track(forward=forward, save=self._state, restore=self._load, name=name)

    def finish(self, batch, outputs):
        """Ends a batch: pushes the embeddings' gradients, counts the predictions, and lets a checkpoint or an evaluation
        follow.

        outputs: (B) or (B, labels), before the step: logits for the losses bce and focal, the value for squared_error,
        its logarithm for poisson. The embeddings' gradients are those that backward() has left in batch.joined.grad.
        They are of this rank's loss; ranks minimise the mean of their losses.
        Errors: InvalidError for other shapes, without gradients, or for another batch than the last one.
        """
        self._check_open(batch._origin if isinstance(batch, Batch) else batch)
        gradients = batch._joined.grad
        if gradients is None:
            if batch.rows > 0:
                raise InvalidError(
                    f"the embeddings of step {batch.step} have no gradients; call loss.backward() before worker.finish, "
                    "with a loss that depends on batch.embeddings"
                )
            gradients = torch.zeros(batch._joined.shape)
        gradients = gradients.to("cpu", torch.float32).contiguous()  # Kept until the call has read it.
        outputs = self._outputs(outputs, batch.rows)
        step = _library.Step(
            size=ctypes.sizeof(_library.Step),
            gradients=gradients.data_ptr(),
            outputs=outputs.ctypes.data,
            skipped=int(self._skips),
        )
        _library.check(_library.LIBRARY.simurgh_worker_finish(self._require(), step))
        self._skips = False
        batch._origin._finished = True
        self._batch = None

    def sum(self, network):
        """Replaces the gradients and the floating-point buffers of a network by their means over the ranks.

        An alternative to DistributedDataParallel. Call it between the forward pass and the optimizer's step, on all
        ranks; a rank without gradients, such as one with an empty batch, has zeros. The networks of all ranks must begin
        with equal weights, as from one seed. Buffers are statistics of batch norm, for example.
        """
        if self.inputs.ranks == 1:
            return
        network = _unwrapped(network)
        weights = [weight for weight in network.parameters() if weight.requires_grad]
        buffers = [one for one in network.buffers() if one.is_floating_point()]
        has_gradient = torch.tensor([weight.grad is not None for weight in weights], dtype=torch.float32)
        parts = [torch.zeros_like(one) if one.grad is None else one.grad for one in weights] + buffers
        flat = torch.cat([has_gradient, *(one.detach().reshape(-1).to("cpu", torch.float32) for one in parts)])
        super().sum(flat.numpy())
        flat /= self.inputs.ranks
        means = flat[len(weights) :].split([one.numel() for one in parts])
        with torch.no_grad():
            for weight, has_some, mean in zip(weights, flat, means):
                if has_some == 0:
                    continue  # No rank has one.
                if weight.grad is None:
                    weight.grad = torch.zeros_like(weight)
                weight.grad.copy_(mean.view_as(weight))
            for one, mean in zip(buffers, means[len(weights) :]):
                one.copy_(mean.view_as(one))

    def _leave_evaluation(self):
        for module, mode in self._modes or ():
            module.training = mode
        self._modes = None

    def _make_batch(self, task):
        is_train = task.kind == _library.TRAIN
        if is_train:
            self._leave_evaluation()
        return Batch(self.inputs, worker.Batch(self.inputs, task), is_train)

    def _outputs(self, outputs, rows):
        return super()._outputs(_as_numbers(outputs), rows)

    def _predict(self, batch):
        if self._modes is None:
            self._modes = [(module, module.training) for network in self._networks for module in network.modules()]
            for network in self._networks:
                network.eval()
        with torch.no_grad():
            super()._predict(batch)

    def _call_first(self, batch):
        return _call(self._networks[0], batch)

    def _guard(self, optimizer):
        """Makes steps with gradients that are not finite leave all weights as they are, on all ranks."""

        def check(*_arguments):
            weights = [weight for group in optimizer.param_groups for weight in group["params"]]
            gradients = [weight.grad for weight in weights if weight.grad is not None]
            if self.agree(_all_finite(gradients)):
                return
            self._skips = True
            for weight in weights:
                weight.grad = None  # Optimizers pass over these.

        if hasattr(optimizer, "register_step_pre_hook"):
            optimizer.register_step_pre_hook(check)
            return
        # PyTorch 1: a method with the attributes that schedulers look at.
        step = optimizer.step

        @functools.wraps(step)
        def checked(_optimizer, *arguments, **named):
            check()
            return step(*arguments, **named)

        optimizer.step = types.MethodType(checked, optimizer)

    def _state(self):
        states = {name: one.state_dict() for name, one in self._objects.items()}
        random = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            random["cuda"] = torch.cuda.get_rng_state()
        return {"objects": states, "random": random}

    def _load(self, saved):
        states = saved["objects"]
        if states.keys() != self._objects.keys():
            raise InvalidError(
                f"the model has the state of {', '.join(states)}, and the program tracks {', '.join(self._objects)}; "
                "track the same names, or name another checkpoint.directory"
            )
        for name, one in self._objects.items():
            one.load_state_dict(states[name])
        if self.inputs.rank == 0:
            torch.set_rng_state(saved["random"]["cpu"])
            if "cuda" in saved["random"] and torch.cuda.is_available():
                torch.cuda.set_rng_state(saved["random"]["cuda"])

    @staticmethod
    def _as_array(value):
        if not isinstance(value, torch.Tensor):
            return worker.Worker._as_array(value)
        tensor = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
        kind = str(tensor.dtype).removeprefix("torch.")
        try:
            return tensor.numpy(), kind
        except TypeError:  # numpy has no such type.
            return tensor.view({1: torch.uint8, 2: torch.int16}[tensor.element_size()]).numpy(), kind

    @staticmethod
    def _from_array(array, kind):
        if kind == "numpy":
            return array
        tensor = torch.from_numpy(array)
        dtype = getattr(torch, kind)
        return tensor if tensor.dtype == dtype else tensor.view(dtype)


class Server(server.Server):
    """The server of `simurgh serve`, for a model whose network is a torch.nn.Module:

        with simurgh.torch.Server("clicks-model", listen="127.0.0.1:8000") as server:
            net = Net(server.inputs)
            server.track(net=net)
            server.run()

    See simurgh.Server for arguments, threads and errors, and `serve` for all in one call.
    """

    _objects = {}  # Before `track`.
    _networks = ()

    def track(self, forward=None, **objects):
        """Registers the networks, by the names that training tracked. The weights of each version are loaded to them.

        forward(batch): outputs of a batch, (B) or (B, labels), as in training. None: the first network is called with
        (batch.dense, batch.embeddings), on the device of its weights. Networks are in eval mode while the server runs.
        Errors: InvalidError for a name that the model does not have; RuntimeError of PyTorch for other shapes.
        """
        self._objects = _tracked("server.track", objects)
        self._networks = [one for one in self._objects.values() if isinstance(one, torch.nn.Module)]
        if not self._networks:
            raise InvalidError("server.track: name the network as training did, as in server.track(net=net)")
        super().track(forward=forward or self._call_first, restore=self._load)

    def _call_first(self, batch):
        return _call(self._networks[0], batch)

    def _work(self):
        modes = [(module, module.training) for network in self._networks for module in network.modules()]
        for network in self._networks:
            network.eval()
        try:
            with torch.no_grad():
                super()._work()
        finally:
            for module, mode in modes:
                module.training = mode

    def _make_batch(self, task):
        return Batch(self.inputs, super()._make_batch(task), is_train=False)

    def _outputs(self, outputs, rows):
        return super()._outputs(_as_numbers(outputs), rows)

    def _load(self, saved):
        _load(saved["objects"], self._objects, "the model")

    _from_array = staticmethod(Worker._from_array)


def serve(model=None, forward=None, *, listen=None, config=None, overrides=(), log_level=None, **objects):
    """Serves a model with networks of one's own until SIGINT or SIGTERM, as in simurgh.torch.serve("clicks-model", net=net).

    forward, objects: see Server.track. Other arguments and errors: see simurgh.Server.
    """
    with Server(model, listen=listen, config=config, overrides=overrides, log_level=log_level) as one:
        one.track(forward, **objects)
        one.run()


_loaded = weakref.WeakKeyDictionary()  # By network: the path and the step of the model that `load` has read.


def load(model, **objects):
    """Restores networks and others from a checkpoint of a training that tracked them by these names.

    model: a simurgh.Model; its version is read. objects: see Worker.track; those that are left out are not needed. Call it
    again when a model that follows its training has another step.
    Errors: InvalidError for a model of another network, or names that it does not have.
    """
    step = model.step
    if "://" in os.fspath(model.path):
        raise InvalidError(
            f"{model.path}: networks are not read from a bucket; copy it by `simurgh model merge {model.path} FOLDER`, and "
            "open FOLDER"
        )
    text, arrays = state.read(pathlib.Path(model.path) / f"step-{step}")
    saved = state.unpack(text, arrays, Worker._from_array)["objects"]
    _load(saved, objects, model.path)
    for one in objects.values():
        if isinstance(one, torch.nn.Module):
            _loaded[_unwrapped(one)] = (model.path, step)


def predict(model, network, table, forward=None):
    """Predicts rows with a network of one's own. Returns outputs (rows) or (rows, labels): logits, as in training.

    model: a simurgh.Model, which gives the features of the rows in `table`. network: in eval mode meanwhile, and without
    gradients. forward(features): called instead of network(features.dense, features.embeddings), with tensors in place of
    the arrays of simurgh.Features. A row that cannot be parsed has NaN.
    Errors: InvalidError if `load` has read the network's weights from another version than that of the features.
    """
    features = model.features(table)
    path, step = _loaded.get(_unwrapped(network), (None, None))
    if path == model.path and step != features.step:
        raise InvalidError(
            f"the network has the weights of step {step}, and the rows are of step {features.step}; call simurgh.torch.load again"
        )
    features.dense = torch.from_numpy(features.dense)
    features.embeddings = {name: torch.from_numpy(one) for name, one in features.embeddings.items()}
    features.joined = torch.from_numpy(features.joined)  # The arrays of embeddings are made of it.
    features.masks = {name: torch.from_numpy(one) for name, one in features.masks.items()}
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        with torch.no_grad():
            outputs = forward(features) if forward else network(features.dense, features.embeddings)
    finally:
        for module, mode in modes:
            module.training = mode
    return _as_numbers(outputs)


def evaluate(model, network, table, forward=None):
    """Predicts rows as `predict` does, and compares with their labels. Returns numbers by name: see Model.evaluate.

    table: is read twice, so that a reader of a stream cannot be used.
    """
    return model.evaluate(table, predict(model, network, table, forward))


def _tracked(place, objects):
    """Checks objects with a state. Returns them without wrappers: a network and the same one in DistributedDataParallel
    or torch.compile have one state.
    """
    for name, one in objects.items():
        if not hasattr(one, "state_dict") or not hasattr(one, "load_state_dict"):
            raise InvalidError(f"{place}: {name} has no state_dict and load_state_dict")
    return {name: _unwrapped(one) for name, one in objects.items()}


def _load(saved, objects, place):
    """Gives objects their states, by name."""
    for name, one in objects.items():
        if name not in saved:
            raise InvalidError(f"{place} has the state of {', '.join(saved)}, and not of {name}")
        _unwrapped(one).load_state_dict(saved[name])


def _call(network, batch):
    """Calls a network with a batch, on the device of its weights."""
    weight = next(network.parameters(), None)
    if weight is not None:
        batch = batch.to(weight.device)
    return network(batch.dense, batch.embeddings)


def _as_numbers(outputs):
    """Returns a tensor as an array, in which floating-point numbers are float32; others as they are."""
    if not isinstance(outputs, torch.Tensor):
        return outputs
    outputs = outputs.detach().cpu()
    return (outputs.float() if outputs.is_floating_point() else outputs).numpy()


def _unwrapped(one):
    if isinstance(one, torch.nn.parallel.DistributedDataParallel):
        one = one.module
    return getattr(one, "_orig_mod", one)


def _all_finite(gradients):
    """Whether all numbers are finite, and far from the greatest one: their squares have a finite sum."""
    dense = [one.detach()._values() if one.is_sparse else one.detach() for one in gradients]
    if not dense:
        return True
    return bool(torch.isfinite(torch.stack(torch._foreach_norm(dense))).all())
