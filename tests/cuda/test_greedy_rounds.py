"""Greedy rounds on the device, run as host code, equal those on the host to the bit."""

import random

import pytest
import torch
from torch import Tensor

from molspec._native import LIMITS, GuessModel, NativeDrafter, SequenceSpec, TreeOptions
from molspec.decoding import Source, Strategy
from molspec.drafting import Drafting, NoDraft, TreeDraft, native_options
from molspec.engine.cuda.greedy import GreedyExecutor
from tests import refused, tiny
from tests.cuda.emulator import Emulator
from tests.cuda.sessions import DeviceSession, HostSession, check_rounds, field, run, train_guess

DRAFTERS: tuple[Drafting, ...] = (
    NoDraft(),
    TreeDraft(),
    TreeDraft(node_budget=1),
    TreeDraft(node_budget=32, max_depth=3, min_probability=0.0),
    TreeDraft(node_budget=12, min_probability=0.1),
)


#: Guess states of a query, beyond one for each node.
STATES = LIMITS["tree_states"]


def spec_of(drafter: Drafting, max_length: int) -> SequenceSpec:
    return SequenceSpec(max_length=max_length, drafter=native_options(drafter))


@pytest.mark.parametrize("max_length", [1, 2, 24])
@pytest.mark.parametrize("drafter", DRAFTERS, ids=str)
def test_device_rounds_equal_host_rounds(
    cuda: Emulator, monkeypatch: pytest.MonkeyPatch, drafter: Drafting, max_length: int
) -> None:
    monkeypatch.setattr(GreedyExecutor, "MAX_TURNS", LIMITS["tree_nodes"])
    host = check_rounds(cuda, GreedyExecutor, spec_of(drafter, max_length))
    if drafter == DRAFTERS[1] and max_length > 2:
        assert host.accepted_tokens > 0


@pytest.mark.parametrize("turns", [1, 2])
def test_trees_of_few_turns_change_no_answer(
    cuda: Emulator, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    spec = spec_of(TreeDraft(node_budget=32, min_probability=0.0), 24)
    expected, host = run(HostSession(4), spec, 4)
    monkeypatch.setattr(GreedyExecutor, "MAX_TURNS", turns)
    outcomes, device = run(DeviceSession(cuda, 4, GreedyExecutor, 1), spec, 4)
    answers = {i: (hypotheses, error) for i, (hypotheses, _, error) in outcomes.items()}
    assert answers == {i: (hypotheses, error) for i, (hypotheses, _, error) in expected.items()}
    assert device.accepted_tokens > 0
    assert device.nodes < host.nodes


SOURCE = "CC(C)(C)OC(=O)N1CCC(CC1)C(=O)Oc1ccc2c(c1)CCN2"


class DeviceTrees:
    """Drafts trees for one query on the emulated device."""

    def __init__(self, cuda: Emulator, guess: GuessModel, source: list[int], limit: int) -> None:
        self._ops, self._limit = cuda.ops, limit
        text = guess.text_row(source)
        longest, state_size = guess.row_limits(len(source))
        assert len(text) <= longest
        self._rows = [
            torch.tensor([*guess.tables_row()], dtype=torch.uint8),
            torch.tensor([[*text]], dtype=torch.uint8),
            torch.zeros(1, limit + STATES, state_size, dtype=torch.uint8),
        ]
        self._answers, _, self._drafts = state(1, 64, limit)

    def propose(
        self, emitted: list[int], options: TreeOptions, turns: int = LIMITS["tree_nodes"]
    ) -> tuple[list[int], list[int]]:
        """Token ids and parents of a tree after the emitted tokens."""
        begin(self._answers, 0, len(emitted), 64)
        token_ids = torch.tensor(emitted).int()
        self._answers[0, 48 : 48 + 4 * len(emitted)].view(torch.int32)[:] = token_ids
        limits = options.max_depth, turns, options.min_log_prob
        self._ops.propose_tree(self._answers, self._drafts, *self._rows, *limits)
        count, *drafts = self._drafts[0].tolist()
        return drafts[:count], drafts[self._limit : self._limit + count]


@pytest.mark.parametrize(
    ("seed", "rewrites", "molecules", "length"),
    [
        *((seed, rewrites, 1, 60) for seed in (1, 2, 3) for rewrites in (False, True)),
        (4, True, 8, 12),  # states too large for shared memory
    ],
)
def test_device_trees_equal_host_trees(
    cuda: Emulator, seed: int, rewrites: bool, molecules: int, length: int
) -> None:
    cuda.set(seed)
    options, guess = native_options(TreeDraft(node_budget=16)), train_guess(rewrites)
    assert isinstance(options, TreeOptions)
    draw = random.Random(seed)
    source = tiny.VOCABULARY.encode(SOURCE * molecules)
    trees = DeviceTrees(cuda, guess, source, 16)
    drafter = NativeDrafter(options, guess)
    drafter.start(source)
    emitted: list[int] = []
    while len(emitted) < length:
        tree = drafter.propose(emitted)
        assert trees.propose(emitted, options) == (tree.token_ids, tree.parents)
        # Emit a path of the tree, mostly, then one or two random tokens, valid SMILES or not.
        node = -1
        while draw.random() < 0.8:
            children = [i for i, parent in enumerate(tree.parents) if parent == node]
            if not children:
                break
            node = draw.choice(children)
            emitted.append(tree.token_ids[node])
        emitted += [draw.randrange(4, 13) for _ in range(draw.randrange(1, 3))]


@pytest.mark.parametrize("barrier", [1, 3])  # before the jobs of the first and of the second turn
def test_a_tree_needs_its_barriers(cuda: Emulator, barrier: int) -> None:
    options = native_options(TreeDraft(node_budget=16, min_probability=0.0))
    assert isinstance(options, TreeOptions)

    def grow() -> list[Tensor]:
        source = tiny.VOCABULARY.encode(SOURCE)
        tree = DeviceTrees(cuda, train_guess(False), source, 16).propose([], options)
        return [torch.tensor(tree)]

    assert cuda.needs_barrier(barrier, grow)


def test_a_text_that_does_not_fit_its_row_gets_no_drafts(cuda: Emulator) -> None:
    guess = train_guess(False)
    answers, _, drafts = state(1, 6, 2)
    begin(answers, 0, token_count=0, max_length=6)
    text = torch.tensor([*guess.text_row([4, 5, 6])], dtype=torch.uint8)
    tables = torch.tensor([*guess.tables_row()], dtype=torch.uint8)
    for texts, state_bytes in ((text[None], 72), (text[None, :-8], 128)):
        drafts[0, 0] = 1
        states = torch.zeros(1, 2 + STATES, state_bytes, dtype=torch.uint8)
        cuda.ops.propose_tree(answers, drafts, tables, texts.contiguous(), states, 9, 9, -9.0)
        assert drafts[0, 0] == 0


def test_guess_of_another_vocabulary_is_refused(cuda: Emulator) -> None:
    session = DeviceSession(cuda, 1, GreedyExecutor, 1)
    session.spec = tiny.ModelSpec(20, 20, d_model=32, head_count=2)
    with pytest.raises(ValueError, match="the guess knows 13 tokens: expected the model's 20"):
        session.executor(Strategy(spec_of(NoDraft(), 5)), Source([], []), train_guess(False))


def state(rows: int, capacity: int, limit: int) -> tuple[Tensor, Tensor, Tensor]:
    """Answers of free rows, slots and drafts."""
    answers = torch.zeros(rows, 48 + 4 * capacity, dtype=torch.uint8)
    slots = torch.arange(rows * 64, dtype=torch.int32).view(rows, 64)
    return answers, slots, torch.zeros(rows, 1 + 2 * limit, dtype=torch.int32)


def begin(answers: Tensor, row: int, token_count: int, max_length: int) -> None:
    head = answers[row, :48].view(torch.int32)
    head[2], head[4], head[11] = 1, token_count, max_length
    answers[row, 48 : 48 + 4 * token_count].view(torch.int32)[:] = 7


@pytest.mark.parametrize("seed", [1, 2])
def test_queries_without_room_for_nodes_wait(cuda: Emulator, seed: int) -> None:
    cuda.set(seed=seed)
    answers, slots, drafts = state(4, 6, 2)
    for row in (0, 2, 3):
        begin(answers, row, token_count=row, max_length=6)
        drafts[row] = torch.tensor([2, 5, 6, -1, 0])  # a chain of two
    nodes = torch.full((7, 4), 99, dtype=torch.int32)
    path_slots = torch.full((42,), -9, dtype=torch.int32)
    cuda.ops.stage_nodes(answers, slots, drafts, nodes, path_slots, 1)
    gap = [0, 0, 0, -1]
    assert nodes.tolist() == [
        *([1, 0, 0, 0], [5, 1, 6, 0], [6, 2, 12, 0]),
        *([7, 2, 18, 2], [5, 3, 24, 2], [6, 4, 30, 2]),
        gap,
    ]
    assert path_slots[30:35].tolist() == slots[2, :5].tolist()
    assert field(answers, 10) == [0, -1, 3, -1]  # first_node
    cuda.ops.verify_nodes(answers, slots, drafts, torch.zeros(7, 9), 8)
    assert field(answers, 5) == [1, 0, 1, 0]  # steps


def test_draft_token_that_reaches_max_length_is_a_gap(cuda: Emulator) -> None:
    answers, slots, drafts = state(1, 6, 2)
    begin(answers, 0, token_count=4, max_length=6)
    drafts[0] = torch.tensor([2, 5, 6, -1, 0])
    nodes = torch.empty(3, 4, dtype=torch.int32)
    cuda.ops.stage_nodes(answers, slots, drafts, nodes, torch.zeros(18, dtype=torch.int32), 1)
    assert nodes[:, 3].tolist() == [0, 0, -1]


@pytest.mark.parametrize("barrier", [0, 1])
def test_staging_needs_each_of_its_barriers(cuda: Emulator, barrier: int) -> None:
    def stage() -> list[Tensor]:
        answers, slots, drafts = state(40, 2, 0)
        for row in range(40):
            begin(answers, row, token_count=0, max_length=2)
        nodes = torch.zeros(40, 4, dtype=torch.int32)
        path_slots = torch.zeros(80, dtype=torch.int32)
        cuda.ops.stage_nodes(answers, slots, drafts, nodes, path_slots, 1)
        return [nodes]

    assert stage()[0][:, 3].tolist() == list(range(40))
    assert cuda.needs_barrier(barrier, stage)


def test_wrong_shapes_are_refused(cuda: Emulator) -> None:
    answers, slots, drafts = state(2, 6, 2)
    nodes, paths = torch.zeros(4, 4, dtype=torch.int32), torch.zeros(24, dtype=torch.int32)
    many, none = (torch.zeros(2, size, dtype=torch.int32) for size in (67, 1))
    tables, texts = torch.zeros(64, dtype=torch.uint8), torch.zeros(2, 64, dtype=torch.uint8)
    states = torch.zeros(2, 2 + STATES, 72, dtype=torch.uint8)
    few = states[:, :2].contiguous()
    stage, verify, tree = cuda.ops.stage_nodes, cuda.ops.verify_nodes, cuda.ops.propose_tree
    for argument, value, call, *arguments in (
        ("answers", 51, stage, answers[:, :51].contiguous(), slots, drafts, nodes, paths, 1),
        ("slots", r"\[2, 8\]", stage, answers, slots[:, :8].contiguous(), drafts, nodes, paths, 1),
        ("path_slots", 23, stage, answers, slots, drafts, nodes, paths[:23], 1),
        ("drafts", r"\[1, 5\]", verify, answers, slots, drafts[:1], torch.zeros(4, 9), 2),
        ("tables", 8, tree, answers, drafts, tables[:8], texts, states, 9, 9, -1.0),
        ("texts", r"\[1, 64\]", tree, answers, drafts, tables, texts[:1], states, 9, 9, -1.0),
        ("states", r"\[2, 2, 72\]", tree, answers, drafts, tables, texts, few, 9, 9, -1.0),
        ("max_depth", 0, tree, answers, drafts, tables, texts, states, 0, 9, -1.0),
        ("max_turns", 0, tree, answers, drafts, tables, texts, states, 9, 0, -1.0),
        ("drafts", 67, tree, answers, many, tables, texts, states, 9, 9, -1.0),
        ("drafts", "no room", tree, answers, none, tables, texts, states, 9, 9, -1.0),
    ):
        refused(RuntimeError, f"^{argument} .*{value}", call, *arguments)
