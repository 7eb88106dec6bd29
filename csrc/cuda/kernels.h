// What the GPU computes, as the launchers see it: problems of raw device pointers and a stream.
// Free of torch; each function is in the .cu file of its operator, or of the operators of its
// kind, and returns once its kernels are
// queued. Throws std::runtime_error where CUDA refuses a launch.

#pragma once

#include <cuda_runtime.h>

#include "ops/acceptance_length.h"
#include "ops/decoder_step.h"
#include "ops/encode.h"
#include "ops/expand_drafts.h"
#include "ops/left_pad.h"
#include "ops/look_ahead.h"
#include "ops/plan_windows.h"
#include "ops/propose_tree.h"
#include "ops/propose_windows.h"
#include "ops/rank_tokens.h"
#include "ops/replay_beams.h"
#include "ops/select_hypotheses.h"
#include "ops/select_leaves.h"
#include "ops/stage_beams.h"
#include "ops/stage_nodes.h"
#include "ops/verify_nodes.h"

namespace molspec::cuda {

// The engine. Values that are out of range leave their rows out and are kept in the workspace:
// read_fault waits for the device and tells the first.
int64_t workspace_size(const Model& model, int64_t rows);
void encode(const EncodeProblem& problem, cudaStream_t stream);
void decoder_step(const DecoderStepProblem& problem, cudaStream_t stream);
Fault read_fault(const uint8_t* workspace, cudaStream_t stream);

// The rest of a round of greedy decoding that stays on the device, see ops/greedy_rows.h.
void propose_windows(const ProposeWindowsProblem& problem, cudaStream_t stream);
void propose_tree(const ProposeTreeProblem& problem, cudaStream_t stream);
void stage_nodes(const StageNodesProblem& problem, cudaStream_t stream);
void verify_nodes(const VerifyNodesProblem& problem, cudaStream_t stream);

// The same of beam search, see ops/beam_rows.h.
void look_ahead(const LookAheadProblem& problem, cudaStream_t stream);
void stage_beams(const StageBeamsProblem& problem, cudaStream_t stream);
void rank_tokens(const RankTokensProblem& problem, cudaStream_t stream);
void replay_beams(const ReplayBeamsProblem& problem, cudaStream_t stream);
void plan_windows(const PlanWindowsProblem& problem, cudaStream_t stream);
void select_leaves(const SelectLeavesProblem& problem, cudaStream_t stream);

// What the lengths of left_pad add up to.
struct RowMeasure {
  int64_t width, total;
  int64_t bad_row, bad_length;  // the first row of no such length; bad_row is row_count if none
};
// Writes where each row begins in token_ids [row] and the measure.
void left_pad_measure(const LeftPadProblem& problem, int64_t* begins, RowMeasure* measure,
                      cudaStream_t stream);
void left_pad(const LeftPadProblem& problem, const int64_t* begins, cudaStream_t stream);

// The least index of an entry that is out of range goes to first_bad; its rows are left out.
using FirstBadIndex = unsigned long long;
constexpr FirstBadIndex kNoneBad = ~0ULL;
void expand_drafts(const ExpandDraftsProblem& problem, FirstBadIndex* first_bad,
                   cudaStream_t stream);
void acceptance_length(const AcceptanceLengthProblem& problem, FirstBadIndex* first_bad,
                       cudaStream_t stream);
// bad_count: as first_bad, of candidate_counts; bad_score: of scores, flat, one that is NaN.
void select_hypotheses(const SelectHypothesesProblem& problem, FirstBadIndex* bad_count,
                       FirstBadIndex* bad_score, cudaStream_t stream);

}  // namespace molspec::cuda
