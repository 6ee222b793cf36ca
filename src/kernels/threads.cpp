#include "kernels/threads.h"

#include <omp.h>

namespace fathom::kernels {

void set_threads(int threads) {
  omp_set_num_threads(threads);
}

int threads() {
  return omp_get_max_threads();
}

}  // namespace fathom::kernels
