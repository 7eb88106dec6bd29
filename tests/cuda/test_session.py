"""The CUDA session, its operators run as host code: decoding, and the law, end to end."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Hashable
from dataclasses import replace
from threading import Lock
from typing import Any

import pytest
import torch

from molspec import Decoder, drafting, predictor
from molspec.engine import devices
from molspec.engine.cuda.engine import CudaEngine
from molspec.engine.cuda.graphs import Graphs
from molspec.engine.cuda.session import CudaSession
from molspec.engine.packing import pack
from molspec.options import PredictOptions
from molspec.predictor import Model
from molspec.results import Results
from molspec.server.worker import warm_up
from tests import tiny
from tests.cuda.emulator import Emulator
from tests.cuda.streams import Streams


class Recorder(Graphs):
    """Does the work at once; knows the sizes of graphs of steps or rounds, the lengths of those
    that encode, and what was marked but not waited for.
    """

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"))
        self.sizes: list[Hashable] = []
        self.encoded: list[int] = []
        self.under_way = 0

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        if isinstance(key, tuple) and key[0] == "encode":
            self.encoded.append(key[1])
        else:
            self.sizes.append(key)
        work()

    def mark(self) -> Callable[[], None]:
        self.under_way += 1
        return self._wait

    def _wait(self) -> None:
        self.under_way -= 1


class EmulatedEngine(CudaEngine):
    """CudaEngine on the emulated machine."""

    def __init__(self, cuda: Emulator, dtype: torch.dtype, rounds_on_device: bool = True) -> None:
        checkpoint = tiny.checkpoint()
        self.packed = pack(checkpoint.spec, checkpoint.weights, dtype)
        self._cuda = cuda
        self.rounds_on_device = rounds_on_device
        self.graphs = Recorder()
        self._idle = []
        self.made_count = 0

    def _make(self, query_count: int) -> CudaSession:
        self.made_count += 1
        return CudaSession(self.packed, query_count, self._cuda.ops, self.graphs)


def predict(cuda: Emulator, dtype: torch.dtype, drafter: str, batch_size: int) -> Results:
    model = tiny.model()
    model.engine = EmulatedEngine(cuda, dtype)
    return model.predict(tiny.QUERIES[:3], drafter=drafter, batch_size=batch_size, max_length=6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_drafts_and_batches_change_nothing(cuda: Emulator, dtype: torch.dtype) -> None:
    plain = predict(cuda, dtype, "none", batch_size=1)
    assert any(result.predictions[0].smiles for result in plain)
    assert predict(cuda, dtype, "tree", batch_size=4) == plain
    assert predict(cuda, dtype, "windows", batch_size=1) == plain


def test_a_given_target_has_the_log_prob_of_a_prediction(cuda: Emulator) -> None:
    model = tiny.model()
    model.engine = EmulatedEngine(cuda, torch.float32)
    expected = tiny.finished_answers(model.predict(tiny.QUERIES, n_best=2, max_length=6))
    assert expected
    for batch_size in (1, 4):
        queries = [query for query, _ in expected]
        targets = [prediction.smiles for _, prediction in expected]
        given = model.log_probs(queries, targets, batch_size=batch_size)
        assert [result.predictions[0] for result in given] == [item for _, item in expected]


BEAMS: tuple[Any, ...] = ("standard", "exact", "standard")
ON_DEVICE: tuple[dict[str, Any], ...] = (
    {"drafter": "none"},
    {"drafter": "windows"},
    {},
    {"drafter": "tree", "node_budget": 2},
    {"beam": "standard", "n_best": 3},
    {"drafter": "none", "n_best": 2, "finished": "separate", "length_penalty": 0.6},
    {"n_best": 3},
    {"drafter": "tree", "n_best": 2, "finished": "separate"},
    {"beam": "sbs", "n_best": 2},
)
ON_HOST: tuple[dict[str, Any], ...] = (
    {"drafter": "tree"},  # there is no n-gram model
    {"n_best": 2},  # nor here
    {"beam": "sbs", "n_best": 2, "draft_length": 16},
    {"drafter": "tree", "node_budget": 33},
    {"beam": "standard", "beam_size": 65},
    {"beam": "standard", "n_best": 2, "length_penalty": 400.0},
)


def model_that_drafts() -> Model:
    """With an n-gram model of the queries."""
    sources = [tiny.VOCABULARY.encode(query) for query in tiny.QUERIES]
    ngram = drafting.build_ngram(
        tiny.VOCABULARY, list(zip(sources, sources, strict=True)), min_gain=0.0, rewrites=True
    )
    return Model(replace(tiny.checkpoint(), ngram=ngram), "float32")


@pytest.mark.parametrize("options", ON_DEVICE, ids=str)
def test_rounds_on_the_device_change_nothing(cuda: Emulator, options: dict[str, Any]) -> None:
    found = []
    for on_device in (True, False):
        model = model_that_drafts()
        engine = EmulatedEngine(cuda, torch.float32, on_device)
        model.engine = engine
        results = model.predict(tiny.QUERIES[:3], batch_size=2, max_length=7, **options)
        assert all(isinstance(size, tuple) == on_device for size in engine.graphs.sizes)
        statistics = results.statistics
        found.append((list(results), statistics.nodes, statistics.accepted_tokens))
    assert found[0] == found[1]


@pytest.mark.parametrize("options", [{}, {"n_best": 2}], ids=["greedy", "beam of 2"])
def test_heads_draft_from_states_on_the_device(cuda: Emulator, options: dict[str, Any]) -> None:
    found = []
    for emulated, drafter in ((False, "heads"), (True, "heads"), (True, "none")):
        model = Model(tiny.with_heads())
        if emulated:
            model.engine = EmulatedEngine(cuda, torch.float32)
        found.append(model.predict(tiny.QUERIES[:3], drafter=drafter, max_length=7, **options))
    on_host, drafted, plain = found
    assert drafted == plain
    assert drafted.statistics.drafted_tokens == on_host.statistics.drafted_tokens > 0


def test_a_drafter_s_stream_waits_for_hidden_states(
    cuda: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = Streams(monkeypatch)
    engine = EmulatedEngine(cuda, torch.float32)
    make = engine._make

    def joined(query_count: int) -> CudaSession:
        session = make(query_count)
        streams.join(session)
        return session

    monkeypatch.setattr(engine, "_make", joined)
    model = Model(tiny.with_heads())
    model.engine = engine
    with streams:
        model.predict(tiny.QUERIES[:2], drafter="heads", max_length=5)
    assert streams.reads > 0
    assert streams.faults == []


def test_free_memory_decides_what_stays_on_a_device(
    cuda: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = CudaSession(EmulatedEngine(cuda, torch.float32).packed, 1, cuda.ops, Recorder())
    assert session.has_room(1 << 40)
    size = 4 * session.cache(1).numel()
    monkeypatch.setattr(session, "device", torch.device("cuda"))
    free, pooled = 4 * size, 2 * size
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, 1 << 60))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 5 * pooled)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 4 * pooled)
    assert session.has_room(3)
    assert not session.has_room(3, 1)


@pytest.mark.parametrize("options", ON_HOST, ids=str)
def test_other_rounds_are_the_host_s(cuda: Emulator, options: dict[str, Any]) -> None:
    model = tiny.model()
    engine = EmulatedEngine(cuda, torch.float32)
    model.engine = engine
    model.predict(tiny.QUERIES[:1], max_length=6, **options)
    assert all(isinstance(size, int) for size in engine.graphs.sizes)


@pytest.mark.parametrize(("drafter", "on_device"), [("windows", 1), ("tree", 1), ("tree", 0)])
def test_a_session_is_used_again(cuda: Emulator, drafter: str, on_device: int) -> None:
    model = model_that_drafts() if on_device else tiny.model()
    engine = EmulatedEngine(cuda, torch.float32)
    model.engine = engine
    options = {"max_length": 6, "batch_size": 2}
    expected = model.predict(tiny.QUERIES[:3], drafter=drafter, **options)
    stream = model.predict_stream(tiny.QUERIES[1:5], PredictOptions(drafter=drafter, **options))
    next(stream)
    stream.close()  # with queries under way
    assert model.predict(tiny.QUERIES[:3], drafter=drafter, **options) == expected
    assert engine.made_count == 1
    both = [
        model.predict_stream(tiny.QUERIES[:3], PredictOptions(drafter=drafter, **options))
        for _ in range(2)
    ]
    assert [first for first, second in zip(*both, strict=True) if first == second] == expected
    assert engine.made_count == 2
    windows = model.predict(tiny.QUERIES[:3], drafter="windows", draft_length=2, **options)
    assert windows == expected
    beams = [model.predict(tiny.QUERIES[:3], n_best=2, beam=beam, **options) for beam in BEAMS]
    assert beams[0] == beams[1] == beams[2]
    assert engine.made_count == 2


def test_requests_of_several_options_share_a_device(cuda: Emulator) -> None:
    model = model_that_drafts()
    engine = EmulatedEngine(cuda, torch.float32)
    model.engine = engine
    kinds = [
        PredictOptions(max_length=6, **options)
        for options in ({}, {"drafter": "none"}, {"n_best": 2, "beam": "standard"}, {"n_best": 3})
    ]
    asked = [(query, options) for query in tiny.QUERIES[:2] for options in kinds]
    alone = [next(model.predict_stream([query], options)) for query, options in asked]
    decoder = Decoder(model, 3)
    tickets = [decoder.submit(*each) for each in asked]
    dropped = decoder.submit(tiny.QUERIES[4], kinds[3])
    found = {}
    while decoder.live_count:
        found.update(decoder.step())
        if dropped is not None and decoder.live_count < 3:  # under way by now
            decoder.cancel(dropped)
            dropped = None
    assert [found[ticket] for ticket in tickets] == alone
    assert len(found) == len(tickets)
    assert len({key[0] for key in engine.graphs.sizes if isinstance(key, tuple)}) >= 4


def test_a_server_captures_no_graph_at_its_first_requests(
    cuda: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured: set[Hashable] = set()
    captures: list[Hashable] = []

    def run(key: Hashable, work: Callable[[], None]) -> None:
        del work  # which graphs there are does not depend on what they do
        if key not in captured:
            captured.add(key)
            captures.append(key)

    model = model_that_drafts()
    engine = EmulatedEngine(cuda, torch.float32)
    monkeypatch.setattr(engine.graphs, "run", run)
    monkeypatch.setattr(engine.graphs, "clear", captured.clear)
    model.engine = engine
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


def test_a_session_is_not_used_again_before_its_rounds_are_done(cuda: Emulator) -> None:
    model = tiny.model()
    engine = EmulatedEngine(cuda, torch.float32)
    model.engine = engine
    model.predict(tiny.QUERIES[:2], drafter="windows", max_length=6, batch_size=2)
    assert engine.graphs.under_way > 0  # nobody looks at the last round
    engine.session(2)
    assert engine.graphs.under_way == 0


def test_answers_are_the_cpu_s(cuda: Emulator) -> None:
    emulated = predict(cuda, torch.float32, "tree", batch_size=3)
    native = tiny.model().predict(tiny.QUERIES[:3], batch_size=3, max_length=6)
    for ours, theirs in zip(emulated, native, strict=True):
        assert ours.predictions[0].smiles == theirs.predictions[0].smiles
        assert ours.predictions[0].log_prob == pytest.approx(
            theirs.predictions[0].log_prob, abs=1e-4
        )


def test_steps_come_in_few_sizes(cuda: Emulator) -> None:
    model = tiny.model()
    engine = EmulatedEngine(cuda, torch.float32)
    model.engine = engine
    model.predict(tiny.QUERIES[:3], max_length=6)
    assert set(engine.graphs.sizes) <= {8, 16, 32, 64}


def test_no_single_source_makes_the_workspace_move(cuda: Emulator) -> None:
    session = CudaSession(EmulatedEngine(cuda, torch.float32).packed, 2, cuda.ops, Recorder())
    assert not session.reserve(session.spec.max_positions)


def test_a_source_is_encoded_by_the_graph_of_the_next_length(cuda: Emulator) -> None:
    recorder = Recorder()
    session = CudaSession(EmulatedEngine(cuda, torch.float32).packed, 2, cuda.ops, recorder)
    for length in (48, 16, 32):  # whole blocks: nobody has written the others
        source = [4 + i % 9 for i in range(length)]
        session.encode([1], [source])
        alone = session._memory_cache.clone()
        blocks = session._host_memories[1, 1 : 1 + length // 16].tolist()
        session.release(1)
        session.encode([1, 0], [source, [5, 6]])  # without a graph
        again = session._host_memories[1, 1 : 1 + length // 16].tolist()
        assert torch.equal(session._memory_cache[again], alone[blocks])
        session.release(0)
        session.release(1)
    assert recorder.encoded == [64, 16, 32]


@pytest.mark.parametrize(("driver", "runtime"), [(13000, 13000), (12060, 12090), (13010, 12040)])
def test_a_driver_runs_what_is_not_newer(driver: int, runtime: int) -> None:
    assert devices.version_fault(driver, runtime) is None


def test_an_old_driver_is_named() -> None:
    fault = devices.version_fault(12060, 13000)
    assert fault is not None
    assert "its driver runs CUDA up to 12.6, expected 13.0 or later" in fault
    assert "with an nvcc of CUDA 12" in fault


def test_bad_sources_are_refused(cuda: Emulator) -> None:
    session = EmulatedEngine(cuda, torch.float32).session(1)
    with pytest.raises(RuntimeError, match="source has 300 ids: expected 1 to 256"):
        session.encode([0], [[4] * 300])
    with pytest.raises(RuntimeError, match="source id 13: expected 0 to 12"):
        session.encode([0], [[4, 13]])


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_without_a_device_cuda_is_refused() -> None:
    with pytest.raises(ValueError, match=r"device is 'cuda': (molspec was|torch .* is|no CUDA)"):
        predictor.load("product", device="cuda")
    assert predictor.load("product", device="auto").device == "cpu"
    assert predictor.load("product", device="auto", dtype="int8").device == "cpu"
    with pytest.raises(ValueError, match=r"dtype is 'float16': expected .* on cpu"):
        predictor.load("product", device="auto", dtype="float16")


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
def test_auto_is_cuda_where_nothing_speaks_against_it(
    stands: dict[str, Any], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stand_in(where: str, name: str, value: object) -> None:
        monkeypatch.setattr(f"{where}.{name}", lambda *_: stands.get(name, value))

    stand_in("molspec.ops", "has_cuda", True)
    stand_in("molspec.ops", "cuda_versions", (13000, 13000))
    for name, value in (("is_available", True), ("device_count", 1)):
        stand_in("torch.cuda", name, value)
    stand_in("torch.cuda", "get_device_capability", (9, 0))
    monkeypatch.setattr(torch.version, "cuda", stands.get("version", "13.0"))
    fault = devices.cuda_fault()
    assert fault is None if expected is None else re.match(expected, fault or "")
    assert devices.choose_device("auto", "bfloat16") == ("cpu" if expected else "cuda")
    assert devices.choose_device("auto", "int8") == "cpu"


def test_importing_molspec_does_not_touch_cuda() -> None:
    code = (
        "import torch\n"
        "def touched(*_): raise AssertionError('CUDA is touched')\n"
        "torch.cuda.is_available = torch.cuda.device_count = torch._C._cuda_init = touched\n"
        "import molspec.ops, molspec.engine.devices, molspec.drop_in, molspec.planners\n"
        "molspec.load('product').predict(['CCO'])\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("device", ["gpu", "cpu:1", "cuda:x", ""])
def test_unknown_devices_are_refused(device: str) -> None:
    with pytest.raises(ValueError, match=f"device is '{device}': expected 'cpu'"):
        predictor.load("product", device=device)


def test_float16_is_for_cuda() -> None:
    with pytest.raises(
        ValueError, match="dtype is 'float16': expected float32, bfloat16, int8 on cpu"
    ):
        predictor.load("product", dtype="float16")


def test_a_copied_engine_makes_sessions_of_its_own() -> None:
    checkpoint = tiny.checkpoint()
    engine = CudaEngine(checkpoint.spec, checkpoint.weights, torch.float32, torch.device("cpu"))
    session: Any = Lock()  # cannot be copied either
    engine._give_back(session, [])
    copied = pickle.loads(pickle.dumps(engine))
    assert copied._idle == []
    assert engine._idle == [(session, [])]
    assert torch.equal(copied.packed.weights, engine.packed.weights)
