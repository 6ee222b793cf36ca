#include "kernels/range.h"

#include <nvtx3/nvToolsExt.h>

namespace fathom::kernels {

Range::Range(const char* name) {
  nvtxRangePushA(name);
}
Range::~Range() {
  nvtxRangePop();
}

}  // namespace fathom::kernels
