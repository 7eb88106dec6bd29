#include "cuda/expand_drafts.cuh"
#include "cuda/launch.h"

namespace molspec::cuda {

void expand_drafts(const ExpandDraftsProblem& problem, FirstBadIndex* first_bad,
                   cudaStream_t stream) {
  launch("expand_drafts", expand_drafts_kernel,
         static_cast<unsigned>(problem.hypothesis_count * problem.draft_count), 128, stream,
         problem, first_bad);
}

}  // namespace molspec::cuda
