"""Updates as CUDA graphs: the operations of an update are recorded once and then repeated as one launch.

An update of small networks consists of about two hundred kernels of one to five microseconds each. Launching them one
after the other takes about ten times as long as the GPU needs for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from interreplay.learning.update import Update, list_columns, make_batch, replace_columns

WARM_UPS = 2
"""Number of calls of a function before it is captured; they allocate memory that later calls reuse."""
MOST_GRAPHS = 16
"""Maximum number of graphs of an update; batches of other forms run without a graph."""
ALIGNMENT = 16
"""Alignment of the columns of a batch, in bytes."""
CAPTURING = threading.Lock()
"""Lock that is held while a graph is recorded."""


class CapturedUpdate:
    """An update that runs as CUDA graphs, with the same results.

    Batches can be in main memory: their columns are copied to the GPU in one piece, and nothing waits for the copy.
    There is one graph for each form of batch and each `Update.phase`. Batches with a loss of their own, unrolls with
    the setting `critic_loss`, and updates of classes that override `Update.update` run without a graph.

    Args:
        update: The update; its networks are on a GPU.
        device: The GPU.
    """

    def __init__(self, update: Update, device: torch.device):
        self._update = update
        self._device = device
        self._graphs: dict[Hashable, CapturedFunction] = {}
        self._addresses: Hashable = None
        optimizer = next(iter(update.optimizers.values()))
        self._parameter: Tensor = optimizer.param_groups[0]["params"][0]

    def update(self, batch: Any, rng: Any) -> Any:
        """Learn from a batch; arguments and result as in `Update.update`."""
        update = self._update
        own_loss = getattr(batch, "critic_loss", None) or getattr(update, "value_loss", None)
        if type(update).update is not Update.update or own_loss is not None:
            return update.update(batch.to(self._device), rng)
        if hasattr(batch, "transitions"):
            batch = make_batch(batch)
        columns = list_columns(batch)
        optimizers: Any = update.optimizers.values()
        loads = tuple(optimizer.loads for optimizer in optimizers)
        addresses = (loads, self._parameter.data_ptr(), id(rng))
        if self._addresses != addresses:  # tensors or the generator were replaced
            self._addresses = addresses
            self._graphs.clear()
        missing = tuple(value is None for value in vars(batch).values())
        form = tuple((column.shape, column.dtype) for column in columns)
        key = (missing, form, update.phase(), update.scores_wanted)
        graph = self._graphs.get(key)
        if graph is None:
            if len(self._graphs) >= MOST_GRAPHS:
                return update.update(batch.map(lambda column: column.to(self._device)), rng)
            generators = [rng] if isinstance(rng, torch.Generator) else rng
            graph = CapturedFunction(
                lambda given: update.learn(replace_columns(batch, given), rng), columns, generators
            )
            self._graphs[key] = graph
        for optimizer in optimizers:
            optimizer.learning_rate()  # a graph reads it on the GPU
        result = copy_result(graph(columns))
        update.finish(rng)
        return result


class CapturedFunction:
    """A function of tensors as a CUDA graph.

    Args:
        function: Function of columns on the GPU, always the same tensors, that returns tensors in any structure. It
            must not read values on the processor.
        columns: Example columns with the shapes and types of later columns, in main memory or on a GPU.
        generators: Generators on the GPU from which the function draws, at least one.
    """

    def __init__(
        self,
        function: Callable[[list[Tensor]], Any],
        columns: Sequence[Tensor],
        generators: Sequence[torch.Generator],
    ):
        device = generators[0].device
        self._function = function
        self._generators = generators
        self._stage = Stage(columns, device)
        self._stream = torch.cuda.Stream(device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: Any = None
        self._calls = 0

    def __call__(self, columns: Sequence[Tensor]) -> Any:
        """Return the function's result for columns; the next call overwrites it."""
        self._stage.load(columns)
        self._calls += 1
        if self._calls <= WARM_UPS:
            current = torch.cuda.current_stream()
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                result = self._function(self._stage.columns)
            current.wait_stream(self._stream)
            return result
        if self._graph is None:
            self._capture()
        assert self._graph is not None
        self._graph.replay()
        return self._result

    def _capture(self) -> None:
        graph = torch.cuda.CUDAGraph()
        for generator in self._generators:
            graph.register_generator_state(generator)
        try:
            # Other threads, which train other runs, may use the GPU but not record graphs at the same time.
            with CAPTURING, torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                self._result = self._function(self._stage.columns)
        except RuntimeError as error:
            raise RuntimeError(
                "the update cannot run as a CUDA graph, for example because it reads a value of a tensor; expected "
                "cuda_graph to be false"
            ) from error
        # Recording sets the state of the generators on its own stream, and a replay sets it on the current stream. The
        # replay must come second: otherwise its random numbers would depend on which is faster.
        torch.cuda.current_stream().wait_stream(self._stream)
        self._graph = graph


class Stage:
    """GPU memory for the columns of successive batches, always at the same addresses.

    Batches in main memory are written to one of two blocks of page-locked memory, from which the GPU fetches them while
    the program continues. Columns that are in page-locked memory already are fetched from there; they must not change
    before the GPU has finished.

    Args:
        columns: Example columns with the shapes and types of later columns.
        device: A GPU.

    Attributes:
        columns: The columns on the GPU.
    """

    def __init__(self, columns: Sequence[Tensor], device: torch.device):
        starts = []
        total = 0
        for column in columns:
            starts.append(total)
            total += -(-column.nbytes // ALIGNMENT) * ALIGNMENT
        self._block = torch.zeros(total, dtype=torch.uint8, device=device)
        self.columns = pieces(self._block, columns, starts)
        self._hosts = []
        for _ in range(2):
            block = torch.zeros(total, dtype=torch.uint8, pin_memory=True)
            self._hosts.append((block, pieces(block, columns, starts), torch.cuda.Event()))

    def load(self, columns: Sequence[Tensor]) -> None:
        """Copy the columns of a batch, which are all in main memory or all on the GPU."""
        if columns[0].device.type != "cpu" or columns[0].is_pinned():
            torch._foreach_copy_(self.columns, list(columns), non_blocking=True)
            return
        self._hosts.reverse()
        block, parts, fetched = self._hosts[0]
        fetched.synchronize()  # the copy of the batch before the last one, which has usually finished
        for part, column in zip(parts, columns, strict=True):
            part.copy_(column)
        self._block.copy_(block, non_blocking=True)
        fetched.record()


def pieces(block: Tensor, columns: Sequence[Tensor], starts: Sequence[int]) -> list[Tensor]:
    """Return parts of a block of bytes with the shapes and types of `columns`, at their first bytes `starts`."""
    found = []
    for column, start in zip(columns, starts, strict=True):
        found.append(block[start : start + column.nbytes].view(column.dtype).view(column.shape))
    return found


def copy_result(result: Any) -> Any:
    """Return the result of an update with copies of its tensors."""
    changed: dict[str, Any] = {}
    for field in fields(result):
        value = getattr(result, field.name)
        if isinstance(value, Tensor):
            changed[field.name] = value.clone()
        elif isinstance(value, dict):
            changed[field.name] = {name: column.clone() for name, column in value.items()}
    return replace(result, **changed)
