#include <cstring>
#include <cublasLt.h>
#include <cuda_runtime.h>

#include "core/error.h"
#include "gpu/sim/cublaslt_multiply.h"
#include "gpu/sim/memory.h"
#include "gpu/sim/recording.h"
#include "gpu/sim/stream_queue.h"
#include "gpu/sim/streams.h"

// A stand-in for the part of cuBLASLt that gpu/matrix_products.cpp calls, with its contract: what
// is outside it is refused by a status, and an algorithm serves only the problem and the alignments
// that it was chosen for.

namespace {

using namespace fathom::gpu::sim;

struct Layout : cublasLtMatrixLayoutOpaque_t {
  cudaDataType type;
  std::int64_t rows, columns, stride;
};

struct Description : cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cublasOperation_t operation_a = CUBLAS_OP_N, operation_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float* bias = nullptr;
};

struct Preference : cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C and D
};

/// What is kept in an algorithm.
struct Choice {
  std::uint64_t problem;
  std::uint64_t workspace;
  std::uint32_t alignment[4];
};
static_assert(sizeof(Choice) <= sizeof(cublasLtMatmulAlgo_t));

// As if an algorithm needed it for partial sums, so that a workspace which is not passed on shows.
constexpr std::uint64_t kWorkspace = 4096;

std::uint64_t mix(std::uint64_t hash, std::int64_t value) {
  return (hash ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15u + (hash >> 29);
}

std::uint64_t hash_of(const Description& operation, const Layout& a, const Layout& b,
                      const Layout& d) {
  std::uint64_t hash = mix(operation.compute, operation.operation_a * 8 + operation.operation_b);
  hash = mix(hash, operation.epilogue);
  for (const Layout* layout : {&a, &b, &d})
    for (const std::int64_t value :
         {static_cast<std::int64_t>(layout->type), layout->rows, layout->columns, layout->stride})
      hash = mix(hash, value);
  return hash;
}

bool same(const Layout& a, const Layout& b) {
  return a.type == b.type && a.rows == b.rows && a.columns == b.columns && a.stride == b.stride;
}

// Whether the shapes are those of one product, of types that this stand-in knows.
bool valid(const Description& operation, const Layout& a, const Layout& b, const Layout& c,
           const Layout& d) {
  const bool plain_a = operation.operation_a == CUBLAS_OP_N;
  const bool plain_b = operation.operation_b == CUBLAS_OP_N;
  const std::int64_t k = plain_a ? a.columns : a.rows;
  const bool fits = (plain_a ? a.rows : a.columns) == d.rows &&
                    (plain_b ? b.columns : b.rows) == d.columns &&
                    (plain_b ? b.rows : b.columns) == k && same(c, d);
  const bool known = operation.operation_a <= CUBLAS_OP_T && operation.operation_b <= CUBLAS_OP_T &&
                     (operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
                      operation.epilogue == CUBLASLT_EPILOGUE_BIAS);
  const bool typed = a.type == b.type && d.type == CUDA_R_32F &&
                     (a.type == CUDA_R_32F || operation.compute == CUBLAS_COMPUTE_32F);
  return fits && known && typed;
}

// Whether `bytes` from an address on are one allocation's, on a device.
bool on_device(const void* memory, std::size_t bytes) {
  const auto lock = lock_runtime();
  const auto range = find_range(memory);
  return range && range->home == Home::device &&
         static_cast<const std::byte*>(memory) + bytes <= range->begin + range->bytes;
}

std::size_t extent(const Layout& layout) {
  const std::int64_t elements = (layout.columns - 1) * layout.stride + layout.rows;
  return static_cast<std::size_t>(elements) * (layout.type == CUDA_R_16BF ? 2 : 4);
}

bool aligned(const void* memory, std::uint32_t bytes) {
  return reinterpret_cast<std::uintptr_t>(memory) % bytes == 0;
}

const char* name_of(ColumnProduct::Factors factors) {
  return factors == ColumnProduct::Factors::f32    ? "f32"
         : factors == ColumnProduct::Factors::tf32 ? "tf32"
                                                   : "bf16";
}

template <typename T>
cublasStatus_t set(T& field, const void* buffer, std::size_t bytes) {
  if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, buffer, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

struct cublasLtContext {};

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

std::size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an argument is invalid";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "not supported";
    default:
      return "another error";
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t stride) {
  if (type != CUDA_R_32F && type != CUDA_R_16BF) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (rows == 0 || columns == 0 || stride < static_cast<std::int64_t>(rows))
    return CUBLAS_STATUS_INVALID_VALUE;
  *made = new Layout{
      {}, type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), stride};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete static_cast<Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  const bool known = compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if (!known || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *made = new Description{{}, compute};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete static_cast<Description*>(description);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* buffer, std::size_t bytes) {
  auto& own = static_cast<Description&>(*description);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(own.operation_a, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(own.operation_b, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(own.epilogue, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(own.bias, buffer, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = new Preference{};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete static_cast<Preference*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* buffer, std::size_t bytes) {
  auto& own = static_cast<Preference&>(*preference);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(own.workspace, buffer, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(own.alignment[0], buffer, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(own.alignment[1], buffer, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(own.alignment[2], buffer, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(own.alignment[3], buffer, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  *found = 0;
  if (handle == nullptr || requested < 1) return CUBLAS_STATUS_INVALID_VALUE;
  const auto& description = static_cast<const Description&>(*operation);
  const auto& wishes = static_cast<const Preference&>(*preference);
  const auto& layout_a = static_cast<const Layout&>(*a);
  const auto& layout_b = static_cast<const Layout&>(*b);
  const auto& layout_d = static_cast<const Layout&>(*d);
  if (!valid(description, layout_a, layout_b, static_cast<const Layout&>(*c), layout_d))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  Choice choice{hash_of(description, layout_a, layout_b, layout_d), kWorkspace, {}};
  if (wishes.workspace < choice.workspace) choice.workspace = 0;
  std::memcpy(choice.alignment, wishes.alignment, sizeof choice.alignment);
  results[0] = {};
  std::memcpy(&results[0].algo, &choice, sizeof choice);
  results[0].workspaceSize = choice.workspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  const auto& description = static_cast<const Description&>(*operation);
  const auto& of_a = static_cast<const Layout&>(*a_layout);
  const auto& of_b = static_cast<const Layout&>(*b_layout);
  const auto& of_d = static_cast<const Layout&>(*d_layout);
  Choice choice;
  std::memcpy(&choice, algorithm, sizeof choice);
  const bool chosen_for_it =
      valid(description, of_a, of_b, static_cast<const Layout&>(*c_layout), of_d) &&
      choice.problem == hash_of(description, of_a, of_b, of_d) && aligned(a, choice.alignment[0]) &&
      aligned(b, choice.alignment[1]) && aligned(c, choice.alignment[2]) &&
      aligned(d, choice.alignment[3]);
  const bool adds = description.epilogue == CUBLASLT_EPILOGUE_BIAS;
  const bool has_bias =
      !adds || (aligned(description.bias, choice.alignment[3]) &&
                on_device(description.bias, static_cast<std::size_t>(of_d.rows) * sizeof(float)));
  const bool has_workspace = workspace_bytes >= choice.workspace && aligned(workspace, 16) &&
                             on_device(workspace, workspace_bytes);
  if (handle == nullptr || c != d || !chosen_for_it || !has_workspace || !has_bias ||
      !on_device(a, extent(of_a)) || !on_device(b, extent(of_b)) || !on_device(d, extent(of_d)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto factors = of_a.type == CUDA_R_16BF ? ColumnProduct::Factors::bf16
                       : description.compute == CUBLAS_COMPUTE_32F_FAST_TF32
                           ? ColumnProduct::Factors::tf32
                           : ColumnProduct::Factors::f32;
  const bool plain_a = description.operation_a == CUBLAS_OP_N;
  const ColumnProduct product{of_d.rows,
                              of_d.columns,
                              plain_a ? of_a.columns : of_a.rows,
                              !plain_a,
                              description.operation_b != CUBLAS_OP_N,
                              factors,
                              a,
                              of_a.stride,
                              b,
                              of_b.stride,
                              *static_cast<const float*>(alpha),
                              *static_cast<const float*>(beta),
                              static_cast<float*>(d),
                              of_d.stride,
                              adds ? description.bias : nullptr};
  if (recording())
    record(fathom::str("product ", of_d.columns, " ", of_d.rows, " ", product.k, " ",
                       name_of(factors)));
  enqueue(stream, [product] { multiply(product); });
  return CUBLAS_STATUS_SUCCESS;
}
