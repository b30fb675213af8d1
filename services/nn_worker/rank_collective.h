#pragma once

#include <memory>

#include "services/nn_worker/rank_mesh.h"
#include "simurgh/collective/collective.h"

namespace simurgh {

// Sums and gathers over a mesh, which it ends when it is destroyed. Sums use a direct
// reduce-scatter and all-gather, which keep the rank order; two ranks in f32 use an all-gather.
// Lifetime: the mesh outlives it.
std::unique_ptr<Collective> NewRankCollective(RankMesh& mesh);

}  // namespace simurgh
