#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>

#include "core/error.h"
#include "kernels/gemm_backend.h"

namespace fathom::kernels {
namespace {

using dnnl::memory;

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

memory::desc matrix(std::int64_t rows, std::int64_t columns, memory::data_type type, Trans trans,
                    std::int64_t stride) {
  return {{rows, columns},
          type,
          trans == Trans::no ? memory::dims{stride, 1} : memory::dims{1, stride}};
}

// Runs a matmul primitive. Creating one compiles code (about 0.3 ms), so oneDNN's own cache, keyed
// by shape, keeps the last thousand.
void matmul(Trans trans_a, Trans trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
            memory::data_type type, const void* a, std::int64_t lda, const void* b,
            std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  const auto a_desc = matrix(m, k, type, trans_a, lda);
  const auto b_desc = matrix(k, n, type, trans_b, ldb);
  const auto c_desc = matrix(m, n, memory::data_type::f32, Trans::no, ldc);
  dnnl::primitive_attr attributes;
  if (beta != 0.0f) {
    dnnl::post_ops sum;
    sum.append_sum(beta);
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul::primitive_desc plan(dnnl::matmul::desc(a_desc, b_desc, c_desc), attributes,
                                          engine());
  dnnl::stream stream(engine());
  dnnl::matmul(plan).execute(stream,
                             {{DNNL_ARG_SRC, memory(a_desc, engine(), const_cast<void*>(a))},
                              {DNNL_ARG_WEIGHTS, memory(b_desc, engine(), const_cast<void*>(b))},
                              {DNNL_ARG_DST, memory(c_desc, engine(), c)}});
  stream.wait();
}

char letter(Trans trans) {
  return trans == Trans::no ? 'N' : 'T';
}

// dnnl_sgemm accumulates in place at full speed, but loses a fifth on x W^T with a long k, where
// the matmul primitive does not (measured by bench/gemm on Zen 4: 176 against 222 GFLOP/s).
bool prefers_primitive(Trans trans_a, Trans trans_b, std::int64_t m, std::int64_t k, float alpha,
                       float beta) {
  return trans_a == Trans::no && trans_b == Trans::yes && m >= 64 && k >= 2048 && alpha == 1.0f &&
         beta == 0.0f;
}

}  // namespace

void sgemm(Trans trans_a, Trans trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
           float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
           float beta, float* c, std::int64_t ldc) {
  if (prefers_primitive(trans_a, trans_b, m, k, alpha, beta)) {
    matmul(trans_a, trans_b, m, n, k, memory::data_type::f32, a, lda, b, ldb, beta, c, ldc);
    return;
  }
  const dnnl_status_t status =
      dnnl_sgemm(letter(trans_a), letter(trans_b), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  FATHOM_CHECK(status == dnnl_success, "dnnl_sgemm ", m, "x", n, "x", k, " returned ", status);
}

void gemm_bf16(Trans trans_a, Trans trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
               const bf16* a, std::int64_t lda, const bf16* b, std::int64_t ldb, float beta,
               float* c, std::int64_t ldc) {
  matmul(trans_a, trans_b, m, n, k, memory::data_type::bf16, a, lda, b, ldb, beta, c, ldc);
}

const char* gemm_library() {
  static const std::string name = [] {
    const dnnl_version_t* v = dnnl_version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
           std::to_string(v->patch);
  }();
  return name.c_str();
}

bool native_bf16() {
  static const bool native = [] {
    const auto isa = dnnl::get_effective_cpu_isa();
    return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
  }();
  return native;
}

}  // namespace fathom::kernels
