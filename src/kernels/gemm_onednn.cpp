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
void run_primitive(const MatrixProduct& p) {
  const auto type =
      p.precision == Precision::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
  const auto a_desc = matrix(p.m, p.k, type, p.trans_a, p.lda);
  const auto b_desc = matrix(p.k, p.n, type, p.trans_b, p.ldb);
  const auto c_desc = matrix(p.m, p.n, memory::data_type::f32, Trans::no, p.ldc);
  dnnl::primitive_attr attributes;
  if (p.beta != 0.0f) {
    dnnl::post_ops sum;
    sum.append_sum(p.beta);
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul::primitive_desc plan(dnnl::matmul::desc(a_desc, b_desc, c_desc), attributes,
                                          engine());
  dnnl::stream stream(engine());
  dnnl::matmul(plan).execute(stream,
                             {{DNNL_ARG_SRC, memory(a_desc, engine(), const_cast<void*>(p.a))},
                              {DNNL_ARG_WEIGHTS, memory(b_desc, engine(), const_cast<void*>(p.b))},
                              {DNNL_ARG_DST, memory(c_desc, engine(), p.c)}});
  stream.wait();
}

char letter(Trans trans) {
  return trans == Trans::no ? 'N' : 'T';
}

// dnnl_sgemm accumulates in place at full speed, but loses a fifth on x W^T with a long k, where
// the matmul primitive does not (measured by bench/gemm on Zen 4: 176 against 222 GFLOP/s).
bool prefers_primitive(const MatrixProduct& p) {
  return p.trans_a == Trans::no && p.trans_b == Trans::yes && p.m >= 64 && p.k >= 2048 &&
         p.alpha == 1.0f && p.beta == 0.0f;
}

}  // namespace

void multiply(Device& /*device*/, const MatrixProduct& p) {
  if (p.precision == Precision::bf16 || prefers_primitive(p)) {
    run_primitive(p);
    return;
  }
  const dnnl_status_t status = dnnl_sgemm(
      letter(p.trans_a), letter(p.trans_b), p.m, p.n, p.k, p.alpha, static_cast<const float*>(p.a),
      p.lda, static_cast<const float*>(p.b), p.ldb, p.beta, p.c, p.ldc);
  FATHOM_CHECK(status == dnnl_success, "dnnl_sgemm ", p.m, "x", p.n, "x", p.k, " returned ",
               status);
}

bool adds_bias(std::int64_t /*n*/, std::int64_t /*k*/) {
  return false;
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
