"""Decoding with the CUDA session, its operators run as host code, and the choice of a device."""

import pickle
import re
import subprocess
import sys
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from molspec import Decoder, load
from molspec.engine import devices, ensemble
from molspec.engine.cuda.caches import Caches
from molspec.engine.cuda.engine import CudaEngine
from molspec.engine.cuda.executors import Executors
from molspec.engine.cuda.graphs import Staged
from molspec.engine.cuda.outbox import Outbox
from molspec.engine.cuda.session import CudaSession
from molspec.prediction.model import Model
from molspec.prediction.options import PredictOptions
from molspec.prediction.results import Results
from molspec.server.worker import warm_up
from tests import refused, tiny
from tests.cuda.emulator import Emulator
from tests.cuda.sessions import EmulatedEngine, Recorder, stand_in_cuda
from tests.engine.models import default_dtype


def emulated(
    cuda: Emulator, model: Model, dtype: torch.dtype = torch.float32
) -> tuple[Model, EmulatedEngine]:
    """The model on the emulated device, and its engine."""
    model.engine = engine = EmulatedEngine(cuda, dtype)
    return model, engine


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_drafts_and_batch_sizes_change_no_answer(cuda: Emulator, dtype: torch.dtype) -> None:
    def predict(model: Model, drafter: str, batch_size: int) -> Results:
        options: dict[str, Any] = {"drafter": drafter, "batch_size": batch_size, "max_length": 5}
        return model.predict(tiny.QUERIES[:2], **options)

    model, _ = emulated(cuda, tiny.model(), dtype)
    plain = predict(model, "none", 1)
    assert predict(model, "tree", 4) == predict(model, "windows", 1) == plain
    assert any(result.predictions[0].smiles for result in plain)
    native = predict(tiny.model(), "none", 1)
    for found, expected in zip(plain, native, strict=True):
        ours, theirs = found.predictions[0], expected.predictions[0]
        assert ours.smiles == theirs.smiles
        tolerance = 1e-4 if dtype == torch.float32 else 0.1
        assert ours.log_prob == pytest.approx(theirs.log_prob, abs=tolerance)


BEAMS: tuple[Any, ...] = ("standard", "exact", "standard")
#: Drafts of few nodes, which are emulated sooner.
SMALL: dict[str, Any] = {"drafter": "tree", "node_budget": 2}
ON_DEVICE: tuple[dict[str, Any], ...] = (
    {"drafter": "none"},
    {},
    SMALL,
    {"beam": "standard", "n_best": 3},
    {"drafter": "none", "n_best": 2, "finished": "separate", "length_penalty": 0.6},
)
#: Exact beams, whose lookahead only the host's rounds take.
AHEAD: tuple[dict[str, Any], ...] = (
    {"n_best": 3},
    {"drafter": "tree", "n_best": 2, "finished": "separate"},
)
ON_HOST: tuple[dict[str, Any], ...] = (
    {"drafter": "tree"},  # there is no n-gram model
    {"drafter": "windows"},
    {"beam": "sbs", "n_best": 2},
    {"drafter": "tree", "node_budget": 33},
    {"beam": "standard", "beam_size": 65},
    {"beam": "standard", "n_best": 2, "length_penalty": 400.0},
    {"drafter": "none", "token_log_probs": True},
    {"drafter": "none", "min_length": 3},
    {"drafter": "none", "target_prefix": "CC"},
    {"beam": "standard", "n_best": 2, "target_prefix": "CC"},
)


def model_with_ngram() -> Model:
    return tiny.drafting_model(rewrites=True)


@pytest.mark.parametrize("options", ON_DEVICE + AHEAD, ids=str)
def test_rounds_on_the_device_change_no_answer(cuda: Emulator, options: dict[str, Any]) -> None:
    outcomes = []
    for on_device in (True, False):
        model = model_with_ngram()
        engine = EmulatedEngine(cuda, torch.float32, on_device)
        model.engine = engine
        results = model.predict(tiny.QUERIES[:3], batch_size=2, max_length=5, **options)
        assert engine.graphs.sizes
        assert all(isinstance(size, tuple) == on_device for size in engine.graphs.sizes)
        statistics = results.statistics
        counts = statistics.nodes, statistics.accepted_tokens
        if options in AHEAD:
            assert (statistics.drafted_tokens > 0) == (not on_device)
        outcomes.append((list(results), () if options in AHEAD else counts))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("n_best", [5, 10, 25])
def test_a_lone_beam_looks_ahead_on_the_host(cuda: Emulator, n_best: int) -> None:
    model, engine = emulated(cuda, model_with_ngram())
    model.device, model.identity = "cuda", model.identity._replace(device="cuda")
    results, kinds = [], []
    for batch_size in (1, 32):
        engine.graphs.sizes.clear()
        found = model.predict(tiny.QUERIES[2:3], n_best, batch_size=batch_size, max_length=4)
        results.append(found)
        kinds.append({type(size) for size in engine.graphs.sizes})
    assert kinds == [{int}, {tuple}]  # steps of rounds on the host, and rounds on the device
    assert results[0] == results[1]
    assert results[0].statistics.drafted_tokens > 0


@pytest.mark.parametrize("options", [{"drafter": "none"}, {"beam": "standard", "n_best": 3}])
@pytest.mark.parametrize("on_device", [True, False])
def test_passes_of_many_rows_are_split(
    cuda: Emulator, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], on_device: bool
) -> None:
    results = []
    for most in (1 << 17, 8):
        for module in ("caches", "executor", "session"):
            monkeypatch.setattr(f"molspec.engine.cuda.{module}.MOST_ROWS", most)
        model = model_with_ngram()
        model.engine = EmulatedEngine(cuda, torch.float32, on_device)
        results.append(list(model.predict(tiny.QUERIES[:4], batch_size=4, max_length=4, **options)))
    assert results[0] == results[1]


def test_idle_rounds_go_if_others_need_their_memory(
    cuda: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for one cache at a time: each call runs on the device, and none beside idle buffers."""
    model, engine = emulated(cuda, model_with_ngram())
    engine.session(1)  # whose own cache is not counted
    make = Caches.cache
    caches: list[weakref.ref[torch.Tensor]] = []

    def cache(owner: Caches, blocks: int) -> torch.Tensor:
        made = make(owner, blocks)
        caches.append(weakref.ref(made))
        return made

    monkeypatch.setattr(Caches, "cache", cache)
    monkeypatch.setattr(Caches, "has_room", lambda *_: not any(e() is not None for e in caches))
    for n_best in (2, 2, 3, 2):
        engine.graphs.sizes.clear()
        model.predict(tiny.QUERIES[:1], beam="standard", n_best=n_best, max_length=2, batch_size=1)
        assert engine.graphs.sizes
        assert all(isinstance(size, tuple) for size in engine.graphs.sizes)


@pytest.mark.parametrize("options", [{}, {"n_best": 2}], ids=["greedy", "beam of 2"])
def test_heads_draft_from_states_on_the_device(cuda: Emulator, options: dict[str, Any]) -> None:
    results = []
    for on_device, drafter in ((False, "heads"), (True, "heads"), (True, "none")):
        model = Model(tiny.with_heads())
        if on_device:
            emulated(cuda, model)
        results.append(model.predict(tiny.QUERIES[:2], drafter=drafter, max_length=6, **options))
    on_host, drafted, plain = results
    assert drafted == plain
    assert drafted.statistics.drafted_tokens == on_host.statistics.drafted_tokens > 0


@pytest.mark.parametrize("options", [{}, {"n_best": 2}, {"drafter": "heads"}], ids=str)
def test_an_ensemble_decodes_on_the_device(cuda: Emulator, options: dict[str, Any]) -> None:
    results = []
    for on_device in (False, True):
        model = Model(tiny.with_heads(), others=[tiny.checkpoint(2)])
        if on_device:
            engines = [EmulatedEngine(cuda, torch.float32, seed=seed) for seed in (1, 2)]
            model.engine = ensemble.EnsembleEngine(engines)
        results.append(model.predict(tiny.QUERIES[:3], max_length=5, batch_size=2, **options))
    on_host, on_device = results
    host_answers, answers = ([r.predictions[0].smiles for r in each] for each in results)
    assert answers == host_answers
    assert on_device.statistics.decoder_calls == on_host.statistics.decoder_calls


def test_the_callers_stream_waits_for_hidden_states(
    cuda: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = EmulatedEngine(cuda, torch.float32).session(1)
    session.keep_hidden_states()
    session.encode([0], [[4, 5]])
    session.step(np.array([[1, 0, 0, 0]], dtype=np.int32), np.zeros(1, dtype=np.int32), 1)
    done: list[object] = []
    own, callers = SimpleNamespace(), SimpleNamespace(wait_stream=done.append)

    @contextmanager
    def on(stream: object) -> Iterator[None]:
        yield
        done.append(("queued on", stream))

    monkeypatch.setattr(session._caches, "stream", own)
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: callers)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda _, stream: done.append(stream))
    assert session.hidden_states([0]).isfinite().all()
    assert done == [("queued on", own), own, callers]  # own: it waits; callers: memory is kept


def test_has_room_compares_sizes_with_free_memory(
    cuda: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches = Caches(EmulatedEngine(cuda, torch.float32).packed, 1, cuda.ops, Recorder())
    assert caches.has_room(1 << 40)
    size = 4 * caches.cache(1).numel()
    monkeypatch.setattr(caches, "device", torch.device("cuda"))
    free, pooled = 4 * size, 2 * size
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, 1 << 60))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 5 * pooled)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 4 * pooled)
    assert caches.has_room(3)
    assert not caches.has_room(3, 1)


@pytest.mark.parametrize("options", ON_HOST, ids=str)
def test_rounds_with_other_options_run_on_the_host(cuda: Emulator, options: dict[str, Any]) -> None:
    model, engine = emulated(cuda, model_with_ngram() if "node_budget" in options else tiny.model())
    model.predict(tiny.QUERIES[:1], max_length=4, **options)
    assert engine.graphs.sizes
    assert {*engine.graphs.sizes} <= {8, 16, 32, 64, 128}


def test_an_admission_sends_its_own_rows_alone(
    cuda: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = EmulatedEngine(cuda, torch.float32).session(3000)
    caches, sizes, send = session._caches, [], Outbox.put

    def put(outbox: Outbox, values: np.ndarray, target: torch.Tensor) -> None:
        sizes.append(values.nbytes)
        send(outbox, values, target)

    monkeypatch.setattr(Outbox, "put", put)
    session.encode([2999, 5], [[4, 5], [6] * 20])
    assert sum(sizes) < 1000
    assert caches.memories[[2999, 5]].tolist() == caches.host_memories[[2999, 5]].tolist()
    assert caches.memories[:, 0].sum() == 22


@pytest.mark.parametrize("on_device", [True, False])
def test_session_is_reused(cuda: Emulator, on_device: bool) -> None:
    model, engine = emulated(cuda, model_with_ngram() if on_device else tiny.model())
    queries, options = tiny.QUERIES[:3], PredictOptions(max_length=4, batch_size=2, **SMALL)
    expected = list(model.predict_stream(queries, options))
    stream = model.predict_stream(tiny.QUERIES[1:4], options)
    next(stream)
    stream.close()  # with unfinished queries
    assert list(model.predict_stream(queries, options)) == expected
    assert engine.session_count == 1
    assert [len(executors._executors) for executors in engine._idle] == [on_device]
    streams = [model.predict_stream(queries, options) for _ in range(2)]
    assert [first for first, second in zip(*streams, strict=True) if first == second] == expected
    assert engine.session_count == 2
    beams = [
        model.predict(queries[:2], n_best=2, beam=beam, max_length=4, batch_size=2)
        for beam in BEAMS
    ]
    assert beams[0] == beams[1] == beams[2]
    assert engine.session_count == 2


def test_requests_with_different_options_share_a_device(cuda: Emulator) -> None:
    model, engine = emulated(cuda, model_with_ngram())
    option_sets = [
        PredictOptions(max_length=4, **options)
        for options in (
            SMALL,
            {"drafter": "none"},
            {"n_best": 2, "beam": "standard"},
            {"n_best": 3},
        )
    ]
    requests = [(query, options) for query in tiny.QUERIES[:2] for options in option_sets]
    expected = [next(model.predict_stream([query], options)) for query, options in requests]
    decoder = Decoder(model, 3)
    tickets = [decoder.submit(*request) for request in requests]
    cancelled = decoder.submit(tiny.QUERIES[4], option_sets[3])
    results = {}
    while decoder.live_count:
        results.update(decoder.step())
        if cancelled is not None and decoder.live_count < 3:  # it is being decoded by now
            decoder.cancel(cancelled)
            cancelled = None
    assert [results[ticket] for ticket in tickets] == expected
    assert len(results) == len(tickets)
    assert len({key[0] for key in engine.graphs.sizes if isinstance(key, tuple)}) >= 4


def test_decoder_forgets_rounds_without_queries(cuda: Emulator) -> None:
    model, _ = emulated(cuda, tiny.model())
    decoder = Decoder(model, 1)
    for max_length in (1, 3):  # with buffers of other sizes
        decoder.submit("CCO", PredictOptions(drafter="none", max_length=max_length))
        assert len(list(decoder.finish())) == 1
    assert decoder._executors == [decoder._host]


def test_warm_server_captures_no_graph_for_its_first_requests(
    cuda: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured: set[Hashable] = set()
    captures: list[Hashable] = []

    def run(key: Hashable, work: Callable[[], None]) -> None:
        del work  # the set of graphs does not depend on their work
        if key not in captured:
            captured.add(key)
            captures.append(key)

    model, engine = emulated(cuda, model_with_ngram())
    monkeypatch.setattr(engine.graphs, "run", run)
    monkeypatch.setattr(engine.graphs, "clear", captured.clear)
    decoder = Decoder(model, 3)
    warm_up(decoder, 66)
    before = len(captures)
    assert before > 0
    for count in (1, 2, 3):
        for options in (PredictOptions(), PredictOptions(n_best=5)):
            queries = ("CCO", "CC(=O)OC" * 3, "C" * 40)
            tickets = [decoder.submit(query, options) for query in queries[:count]]
            assert decoder.step() == []
            for ticket in tickets:
                decoder.cancel(ticket)
    assert captures[before:] == []


def test_session_is_reused_only_after_its_rounds_end(cuda: Emulator) -> None:
    model, engine = emulated(cuda, tiny.model())
    model.predict(tiny.QUERIES[:2], drafter="none", max_length=6, batch_size=2)
    assert engine.graphs.unwaited_count > 0  # nothing waits for the last round
    engine.session(2)
    assert engine.graphs.unwaited_count == 0


def test_default_type_of_torch_changes_no_answer(cuda: Emulator) -> None:
    model, _ = emulated(cuda, tiny.model())
    options: dict[str, Any] = {"drafter": "none", "max_length": 3}
    with default_dtype(torch.float64):
        found = model.predict(["CCO"], **options)
    assert model.predict(["CCO"], **options) == found


def test_source_is_encoded_by_the_graph_of_the_next_length(cuda: Emulator) -> None:
    recorder = Recorder()
    caches = Caches(EmulatedEngine(cuda, torch.float32).packed, 2, cuda.ops, recorder)
    session = CudaSession(Executors(caches))
    for length in (48, 16, 32):  # whole blocks: other positions are never written
        source = [4 + i % 9 for i in range(length)]
        session.encode([1], [source])
        expected = caches.memory_cache.clone()
        blocks = caches.host_memories[1, 1 : 1 + length // 16].tolist()
        session.release(1)
        session.encode([1, 0], [source, [5, 6]])  # without a graph
        second_blocks = caches.host_memories[1, 1 : 1 + length // 16].tolist()
        assert torch.equal(caches.memory_cache[second_blocks], expected[blocks])
        session.release(0)
        session.release(1)
    assert recorder.encoded == [64, 16, 32]


def test_driver_runs_its_major_version_and_older_ones() -> None:
    for driver, runtime in ((13000, 13000), (12060, 12090), (13010, 12040)):
        assert devices.version_fault(driver, runtime) is None
    fault = devices.version_fault(12060, 13000) or ""
    assert "its driver runs CUDA up to 12.6, expected 13.0 or later" in fault
    assert "with an nvcc of CUDA 12" in fault


def test_invalid_sources_are_refused(cuda: Emulator) -> None:
    session = EmulatedEngine(cuda, torch.float32).session(1)
    refused(RuntimeError, "source has 300 ids: expected 1 to 256", session.encode, [0], [[4] * 300])
    refused(RuntimeError, "source id 13: expected 0 to 12", session.encode, [0], [[4, 13]])


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_cuda_is_refused_without_a_device() -> None:
    refused("device is 'cuda': (molspec was|torch .* is|no CUDA)", load, "product", device="cuda")
    assert load("product", device="auto").device == "cpu"
    assert load("product", device="auto", dtype="int8").device == "cpu"
    expected = "expected float32, bfloat16, int8 on cpu"
    refused(f"dtype is 'float16': {expected}", load, "product", device="auto", dtype="float16")


@pytest.mark.parametrize(
    ("stands", "expected"),
    [
        ({"has_cuda": False}, "molspec was installed without its CUDA operators"),
        ({"version": None}, r"torch .* is a build for the CPU"),
        ({"is_available": False}, "no CUDA device is available"),
        ({"device_count": 0}, "expected a number below 0"),
        ({"get_device_capability": (7, 5)}, r"its compute capability is 7.5, expected 8.0"),
        ({"cuda_versions": (11040, 13000)}, "its driver runs CUDA up to 11.4"),
        ({}, None),
    ],
)
def test_auto_chooses_cuda_if_it_is_usable(
    stands: dict[str, Any], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_cuda(monkeypatch, **stands)
    fault = devices.cuda_fault()
    assert fault is None if expected is None else re.match(expected, fault or "")
    assert devices.choose_device("auto", "bfloat16") == ("cpu" if expected else "cuda")
    assert devices.choose_device("auto", "int8") == "cpu"
    if expected is None:
        for dtype in ("float16", "int8"):
            refused(f"dtype is '{dtype}': .* on cuda", devices.choose_device, "cuda", dtype)


def test_importing_molspec_does_not_touch_cuda() -> None:
    code = (
        "import torch\n"
        "def touched(*_): raise AssertionError('CUDA is touched')\n"
        "torch.cuda.is_available = torch.cuda.device_count = torch._C._cuda_init = touched\n"
        "import molspec.engine.ops, molspec.engine.devices, molspec.drop_in, molspec.planners\n"
        "molspec.load('product').predict(['CCO'])\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("device", ["gpu", "cpu:1", "cpu:", "cuda:x", "cuda:", ""])
def test_unknown_devices_are_refused(device: str) -> None:
    refused(f"device is '{device}': expected 'cpu'", load, "product", device=device)


def test_copied_engine_has_no_idle_sessions() -> None:
    checkpoint = tiny.checkpoint()
    engine = CudaEngine(checkpoint.spec, checkpoint.weights, torch.float32, torch.device("cpu"))
    caches: Any = Lock()  # like caches, cannot be pickled
    engine._give_back(Executors(caches))
    copied = pickle.loads(pickle.dumps(engine))
    assert copied._idle == []
    assert [executors.caches for executors in engine._idle] == [caches]
    assert torch.equal(copied.packed.weights, engine.packed.weights)


def test_a_buffer_that_gets_no_memory_keeps_its_size() -> None:
    staged = Staged((4,), torch.int32, torch.device("cpu"))
    assert staged.grow(8)
    outcomes = [torch.empty(16, 4), MemoryError]
    with patch.object(torch, "empty", side_effect=outcomes), pytest.raises(MemoryError):
        staged.grow(16)
    assert (len(staged.host), len(staged.device)) == (8, 8)
    assert staged.grow(16)


def test_heads_too_wide_for_the_kernels_are_refused_before_work() -> None:
    spec = replace(tiny.SPEC, attention_width=129 * tiny.SPEC.head_count)
    with pytest.raises(ValueError, match="head_dim is 129: expected at most 128 on CUDA"):
        CudaEngine(spec, {}, torch.float32, torch.device("cpu"))
