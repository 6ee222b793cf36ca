#include "gpu/matrix_products.h"

#include <algorithm>

#include "core/error.h"

namespace fathom::gpu {
namespace {

using kernels::Precision;
using kernels::Trans;

// Shapes that change from step to step must not fill the host's memory: a plan is about 2 KiB.
constexpr std::size_t kMostPlans = 8192;

void check(cublasStatus_t status, const char* call) {
  FATHOM_CHECK(status == CUBLAS_STATUS_SUCCESS, call, " returned ",
               cublasLtGetStatusString(status));
}
#define FATHOM_CUBLAS(call) check((call), #call)

cublasLtContext* create_handle() {
  cublasLtHandle_t handle = nullptr;
  FATHOM_CUBLAS(cublasLtCreate(&handle));
  return handle;
}

const char* name_of(Precision precision) {
  return precision == Precision::f32 ? "f32" : precision == Precision::tf32 ? "tf32" : "bf16";
}

cublasOperation_t operation(Trans trans) {
  return trans == Trans::no ? CUBLAS_OP_N : CUBLAS_OP_T;
}

// The power of two, up to 256, that an address is a multiple of.
std::uint32_t alignment(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory) | 256u;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

}  // namespace

void MatrixProducts::Destroy::operator()(cublasLtContext* handle) const noexcept {
  static_cast<void>(cublasLtDestroy(handle));
}
void MatrixProducts::Destroy::operator()(cublasLtMatmulDescOpaque_t* description) const noexcept {
  static_cast<void>(cublasLtMatmulDescDestroy(description));
}
void MatrixProducts::Destroy::operator()(cublasLtMatrixLayoutOpaque_t* layout) const noexcept {
  static_cast<void>(cublasLtMatrixLayoutDestroy(layout));
}
void MatrixProducts::Destroy::operator()(
    cublasLtMatmulPreferenceOpaque_t* preference) const noexcept {
  static_cast<void>(cublasLtMatmulPreferenceDestroy(preference));
}

MatrixProducts::MatrixProducts()
    : handle_(create_handle()), workspace_(make_device_memory(kMatrixWorkspace)) {}

MatrixProducts::Layout MatrixProducts::make_layout(DType dtype, std::int64_t rows,
                                                   std::int64_t columns, std::int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  FATHOM_CUBLAS(cublasLtMatrixLayoutCreate(&layout, dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F,
                                           static_cast<std::uint64_t>(rows),
                                           static_cast<std::uint64_t>(columns), stride));
  return Layout(layout);
}

// cuBLASLt counts in columns: what it takes for an n x m matrix with columns of stride ldc is our C
// by rows, and C^T = op(B)^T op(A)^T. So B is its first factor and A its second, each under the
// transposition that it has here.
MatrixProducts::Plan MatrixProducts::make_plan(const Key& key) const {
  Plan plan;
  cublasLtMatmulDesc_t description = nullptr;
  FATHOM_CUBLAS(cublasLtMatmulDescCreate(
      &description,
      key.precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
      CUDA_R_32F));
  plan.description.reset(description);
  const cublasOperation_t first = operation(key.trans_b), second = operation(key.trans_a);
  FATHOM_CUBLAS(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &first,
                                               sizeof first));
  FATHOM_CUBLAS(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                               sizeof second));
  const cublasLtEpilogue_t epilogue = key.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  FATHOM_CUBLAS(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                               &epilogue, sizeof epilogue));
  const DType type = key.precision == Precision::bf16 ? DType::bf16 : DType::f32;
  const auto layout = [&](Trans trans, std::int64_t rows, std::int64_t columns, std::int64_t ld) {
    return trans == Trans::no ? make_layout(type, rows, columns, ld)
                              : make_layout(type, columns, rows, ld);
  };
  plan.first = layout(key.trans_b, key.n, key.k, key.ldb);
  plan.second = layout(key.trans_a, key.k, key.m, key.lda);
  plan.result = make_layout(DType::f32, key.n, key.m, key.ldc);
  plan.algorithm = choose_algorithm(key, plan);
  return plan;
}

cublasLtMatmulAlgo_t MatrixProducts::choose_algorithm(const Key& key, const Plan& plan) const {
  cublasLtMatmulPreference_t made = nullptr;
  FATHOM_CUBLAS(cublasLtMatmulPreferenceCreate(&made));
  const Owner<cublasLtMatmulPreferenceOpaque_t> preference(made);
  const std::uint64_t workspace = kMatrixWorkspace;
  FATHOM_CUBLAS(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                     &workspace, sizeof workspace));
  // Without these it assumes what cudaMalloc gives, which a slice of a matrix is not.
  const std::pair<cublasLtMatmulPreferenceAttributes_t, std::uint32_t> alignments[] = {
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.align_b},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.align_a},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.align_c},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.align_c}};
  for (const auto& [attribute, bytes] : alignments)
    FATHOM_CUBLAS(cublasLtMatmulPreferenceSetAttribute(made, attribute, &bytes, sizeof bytes));
  cublasLtMatmulHeuristicResult_t best = {};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_.get(), plan.description.get(), plan.first.get(), plan.second.get(), plan.result.get(),
      plan.result.get(), made, 1, &best, &found);
  FATHOM_CHECK(status == CUBLAS_STATUS_SUCCESS && found > 0 && best.state == CUBLAS_STATUS_SUCCESS,
               "cuBLASLt has no algorithm for a product of ", key.m, "x", key.k, " and ", key.k,
               "x", key.n, " in ", name_of(key.precision), " with strides ", key.lda, ", ", key.ldb,
               " and ", key.ldc, ": ", cublasLtGetStatusString(status));
  return best.algo;
}

void MatrixProducts::enqueue(const kernels::MatrixProduct& p, cudaStream_t stream) {
  Key key{p.m,       p.n,       p.k,         p.lda,          p.ldb,          p.ldc,
          p.trans_a, p.trans_b, p.precision, alignment(p.a), alignment(p.b), alignment(p.c),
          false};
  if (p.bias != nullptr) {
    key.bias = true;
    key.align_c = std::min(key.align_c, alignment(p.bias));  // it has no attribute of its own
  }
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    if (plans_.size() >= kMostPlans) plans_.clear();
    found = plans_.emplace(key, make_plan(key)).first;
  }
  const Plan& plan = found->second;
  if (p.bias != nullptr)
    FATHOM_CUBLAS(cublasLtMatmulDescSetAttribute(
        plan.description.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p.bias, sizeof p.bias));
  const cublasStatus_t status =
      cublasLtMatmul(handle_.get(), plan.description.get(), &p.alpha, p.b, plan.first.get(), p.a,
                     plan.second.get(), &p.beta, p.c, plan.result.get(), p.c, plan.result.get(),
                     &plan.algorithm, workspace_.get(), kMatrixWorkspace, stream);
  FATHOM_CHECK(status == CUBLAS_STATUS_SUCCESS, "cublasLtMatmul of ", p.m, "x", p.k, " and ", p.k,
               "x", p.n, " in ", name_of(p.precision), " returned ",
               cublasLtGetStatusString(status));
}

}  // namespace fathom::gpu
