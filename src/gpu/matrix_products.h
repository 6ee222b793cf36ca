#pragma once

#include <cstddef>
#include <cstdint>
#include <cublasLt.h>
#include <map>
#include <memory>

#include "core/dtype.h"
#include "gpu/resources.h"
#include "kernels/gemm_backend.h"

namespace fathom::gpu {

/// Of each device, in bytes: what NVIDIA recommends for Hopper; more has not been seen to help any
/// algorithm.
inline constexpr std::size_t kMatrixWorkspace = std::size_t{32} << 20;

/// cuBLASLt on one device: its handle, its workspace, and the plans that it has made so far, since
/// asking for one takes longer on the host than the device takes for a small product.
class MatrixProducts {
 public:
  /// On the current device.
  MatrixProducts();

  /// Enqueues a product. Throws Error(internal) with its shape when cuBLASLt refuses it.
  void enqueue(const kernels::MatrixProduct& product, cudaStream_t stream);

  /// Plans kept, for tests.
  std::size_t plans() const { return plans_.size(); }

 private:
  // All that the choice of an algorithm depends on.
  struct Key {
    std::int64_t m, n, k, lda, ldb, ldc;
    kernels::Trans trans_a, trans_b;
    kernels::Precision precision;
    std::uint32_t align_a, align_b, align_c;
    bool bias;
    auto operator<=>(const Key&) const = default;
  };
  struct Destroy {
    void operator()(cublasLtContext* handle) const noexcept;
    void operator()(cublasLtMatmulDescOpaque_t* description) const noexcept;
    void operator()(cublasLtMatrixLayoutOpaque_t* layout) const noexcept;
    void operator()(cublasLtMatmulPreferenceOpaque_t* preference) const noexcept;
  };
  template <typename T>
  using Owner = std::unique_ptr<T, Destroy>;
  using Layout = Owner<cublasLtMatrixLayoutOpaque_t>;
  struct Plan {
    Owner<cublasLtMatmulDescOpaque_t> description;
    Layout first, second, result;  // of B, A and C: see make_plan()
    cublasLtMatmulAlgo_t algorithm;
  };

  static Layout make_layout(DType dtype, std::int64_t rows, std::int64_t columns,
                            std::int64_t stride);
  Plan make_plan(const Key& key) const;
  cublasLtMatmulAlgo_t choose_algorithm(const Key& key, const Plan& plan) const;

  Owner<cublasLtContext> handle_;
  DeviceMemory workspace_;
  std::map<Key, Plan> plans_;
};

}  // namespace fathom::gpu
