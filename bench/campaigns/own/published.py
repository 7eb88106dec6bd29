"""Figures of Xia et al. 2023, printed for comparison: WMT14 English to German, batch 1."""

from __future__ import annotations

#: By k: tokens an iteration with relaxed verification (beta 3, tau 1), speed against a beam of 5.
PLACES = {
    10: (6.05, 3.99),
    15: (6.93, 4.54),
    20: (7.41, 4.72),
    25: (7.89, 5.04),
    30: (7.67, 4.82),
}
#: Speed of greedy decoding against a beam of 5.
GREEDY = 1.1
#: Tokens an iteration: strict, and relaxed by beta and tau.
STRICT = 6.41
RELAXED = {
    3: {1: 7.89, 2: 8.75, 3: 9.51, 4: 10.11, 5: 10.46},
    5: {1: 7.92, 2: 8.83, 3: 9.64, 4: 10.63, 5: 11.01},
}
#: Megabytes in float32 without and with the drafter: weights, and memory in use by batch size.
WEIGHTS = (232, 478)
IN_USE = {1: (243, 492), 4: (272, 520), 8: (301, 559), 16: (366, 634), 32: (495, 783)}
