#include "kernels/range.h"

namespace fathom::kernels {

Range::Range(const char* /*name*/) {}
Range::~Range() {}

}  // namespace fathom::kernels
