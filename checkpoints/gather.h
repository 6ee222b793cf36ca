#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace fathom::checkpoints {

/// Every rank's text on rank 0, in rank order; empty elsewhere. Collective; blocks. Unlike
/// Communicator::all_gather_text it does not put all texts on all ranks: a tensor table is long.
std::vector<std::string> gather_texts(comm::Communicator& world, const std::string& mine);

}  // namespace fathom::checkpoints
