"""N-gram models of drafters: they learn from pairs, and damaged files are refused."""

import pytest

from molspec import _native
from molspec.drafting import TreeDraft, build_ngram, guess_model, simulate
from tests import refused
from tests.tiny import QUERIES, VOCABULARY

IDS = [VOCABULARY.encode(query) for query in QUERIES]
PAIRS = list(zip(IDS, IDS[1:] + IDS[:1], strict=True))
NGRAM = build_ngram(VOCABULARY, PAIRS, min_gain=0.0)


def decoder_calls(ngram: bytes | None, source: str, target: str, node_budget: int = 16) -> int:
    guess = guess_model(VOCABULARY, ngram)
    pair = VOCABULARY.encode(source), VOCABULARY.encode(target)
    return simulate(TreeDraft(node_budget), guess, [pair], VOCABULARY.eos_id).decoder_calls


def test_ngram_learns_tokens_that_sources_lack() -> None:
    pairs = [(VOCABULARY.encode("O"), VOCABULARY.encode("NC(=O)N(C)C"))] * 50
    ngram = build_ngram(VOCABULARY, pairs, min_gain=0.0)
    assert decoder_calls(ngram, "O", "NC(=O)N(C)C") == 1
    assert decoder_calls(None, "O", "NC(=O)N(C)C") > 1


def test_a_refused_observation_changes_nothing() -> None:
    built = []
    for wrong in (None, ([1], 99), ([99], 1)):
        builder = _native.NgramBuilder(order=3, alphabet_size=10)
        if wrong is not None:
            refused("^symbol is 99: expected 0 to 9$", builder.add, *wrong)
        builder.add([1, 2], 3)
        built.append(builder.build(discount=0.5, min_gain=0.0))
    assert built[1:] == built[:1] * 2


def test_ngram_learns_to_copy_unseen_sources() -> None:
    pairs = [(ids, ids) for ids in IDS] * 20
    ngram = build_ngram(VOCABULARY, pairs, min_gain=0.0)
    assert decoder_calls(ngram, "CCNCCNCCN", "CCNCCNCCN") == 1


CHAINS = [
    f"{'C' * a}O{'C' * b}N{'C' * c}O" for a in (1, 2, 3) for b in (2, 3, 5) for c in (1, 4, 6)
]


def chain_pairs(turned: bool) -> list[tuple[list[int], list[int]]]:
    """Pairs of chains: a target is its source, or, if `turned`, its source reversed."""
    targets = [chain[::-1] if turned else chain for chain in CHAINS]
    return [
        (VOCABULARY.encode(source), VOCABULARY.encode(target))
        for source, target in zip(CHAINS, targets, strict=True)
    ] * 4


def test_rewriting_saves_calls_for_reversed_molecule() -> None:
    source = "CCCCN(C)CCOCCCNO"
    target = "ONCCCOCCN(C)CCCC"
    with_rewriting, without = (
        build_ngram(VOCABULARY, chain_pairs(turned=True), rewrites=rewrites)
        for rewrites in (True, False)
    )
    assert decoder_calls(with_rewriting, source, target) < decoder_calls(without, source, target)


@pytest.mark.parametrize("turned", [False, True])
def test_trial_decides_whether_to_rewrite(turned: bool) -> None:
    pairs = chain_pairs(turned)
    assert build_ngram(VOCABULARY, pairs) == build_ngram(VOCABULARY, pairs, rewrites=turned)


def test_ngram_does_not_depend_on_order_of_pairs() -> None:
    again = build_ngram(VOCABULARY, PAIRS[::-1], min_gain=0.0, rewrites=False)
    assert again == build_ngram(VOCABULARY, PAIRS, min_gain=0.0, rewrites=False)


def test_larger_min_gain_makes_smaller_model() -> None:
    sizes = [len(build_ngram(VOCABULARY, PAIRS, min_gain=gain)) for gain in (0.0, 8.0, 1e9)]
    assert sizes[0] > sizes[1] > sizes[2]


@pytest.mark.parametrize("cut", [0, 7, 20, -1])
def test_truncated_and_damaged_models_are_refused(cut: int) -> None:
    for damaged in (NGRAM[:cut], NGRAM[:cut] + bytes([NGRAM[cut] ^ 255]) + NGRAM[cut:][1:]):
        refused("n-gram model", guess_model, VOCABULARY, damaged)


def _sealed(body: bytes) -> bytes:
    """Appends the right hash to a file's body."""
    value = 0xCBF29CE484222325
    for byte in body:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return body + value.to_bytes(8, "little")


HEAD = b"MSNGRAM2\x02\x00\x05\x00"  # order 2, no rewriting, 5 symbols
ROOT = b"\x00\x20\x01\x00\x10"  # no children, back-off 1, symbol 0 with probability 1/2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"NOTGRAMS" + HEAD[8:] + b"\x01\0\0\0" + ROOT, "begin with MSNGRAM2"),
        (HEAD[:8] + b"\x63" + HEAD[9:] + b"\x01\0\0\0" + ROOT, "order is 99: expected 1 to"),
        (HEAD[:9] + b"\x02" + HEAD[10:] + b"\x01\0\0\0" + ROOT, "rewrites is 2"),
        (HEAD + b"\x00\0\0\0", "contexts are 0"),
        (HEAD + b"\x02\0\0\0" + ROOT, "context 1 has no parent"),
        (HEAD + b"\x01\0\0\0" + ROOT[:3], "ends early"),
        (HEAD + b"\x01\0\0\0" + ROOT + b"!", "left over"),
        (HEAD + b"\x01\0\0\0\x00\x20\x01\x07\x10", "symbol 7 .*less than 5"),
        (HEAD + b"\x01\0\0\0\x00\x20\x02\x01\x20\x01\x20", "do not rise"),
        (HEAD + b"\x01\0\0\0\x00\x20\x02\x00\x00\x01\x00", "sum to 2"),
        (HEAD + b"\x01\0\0\0\x03\x20\x00", "contexts are 1, but by the child counts 4"),
        (HEAD + b"\x01\0\0\0\xff\xff\xff\xff\xff", "number too long"),
        (HEAD + b"\x01\0\0\0" + ROOT, "alphabet has 5 symbols"),
        (NGRAM[:8] + b"\x0e" + NGRAM[9:-8], "its order is 14: expected 13; delete the file"),
    ],
)
def test_error_names_fault_in_file(body: bytes, message: str) -> None:
    refused(message, guess_model, VOCABULARY, _sealed(body))


@pytest.mark.parametrize(
    ("pairs", "options", "message"),
    [
        ([], {}, "pairs is empty"),
        ([([999], [4])], {"rewrites": False}, "999"),
        ([([4], [999])], {"rewrites": False}, "999"),
        (PAIRS, {"min_gain": -1.0}, "min_gain is -1.0: expected"),
        (PAIRS, {"min_gain": float("nan")}, "min_gain is nan: expected"),
    ],
)
def test_wrong_arguments_are_refused(
    pairs: list[tuple[list[int], list[int]]], options: dict[str, float], message: str
) -> None:
    refused(message, build_ngram, VOCABULARY, pairs, **options)
