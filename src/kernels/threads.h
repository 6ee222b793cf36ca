#pragma once

namespace fathom::kernels {

/// Sets the number of threads that kernels and GEMM of this process use from now on.
void set_threads(int threads);
int threads();

}  // namespace fathom::kernels
