#include "kernels/threads.h"

namespace fathom::kernels {

// Kernels run on the device: there are no threads of the host to choose.
void set_threads(int /*threads*/) {}

int threads() {
  return 1;
}

}  // namespace fathom::kernels
