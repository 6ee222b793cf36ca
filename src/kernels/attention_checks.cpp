#include "kernels/attention_checks.h"

namespace fathom::kernels {

void check_attention(const AttentionShape& shape, const std::vector<std::int32_t>& starts,
                     const AttentionDropout& dropout, const Tensor& q, const Tensor& k,
                     const Tensor& v, const Tensor& out, const Tensor& lse) {
  FATHOM_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0 && shape.head_dim > 0 &&
                   shape.window >= 0,
               shape.heads, " heads, ", shape.kv_heads, " key heads of ", shape.head_dim,
               ", window ", shape.window);
  FATHOM_CHECK(starts.size() >= 2 && starts.front() == 0 && starts.back() == q.rows(),
               "sequence starts do not cover ", q.rows(), " rows");
  for (std::size_t i = 1; i < starts.size(); ++i)
    FATHOM_CHECK(starts[i - 1] <= starts[i], "sequence ", i - 1, " ends before it starts");
  const auto check = [&](const Tensor& tensor, std::int64_t columns, const char* name) {
    FATHOM_CHECK(
        tensor.dtype() == DType::f32 && tensor.rows() == q.rows() && tensor.columns() == columns,
        name, " is ", to_string(tensor.dtype()), to_string(tensor.shape()), ", not [", q.rows(),
        ", ", columns, "]");
  };
  check(q, shape.heads * shape.head_dim, "q");
  check(k, shape.kv_heads * shape.head_dim, "k");
  check(v, shape.kv_heads * shape.head_dim, "v");
  check(out, shape.heads * shape.head_dim, "out");
  check(lse, shape.heads, "lse");
  FATHOM_CHECK(dropout.probability >= 0.0f && dropout.probability < 1.0f, "dropout ",
               dropout.probability);
  FATHOM_CHECK(dropout.probability == 0.0f ||
                   (dropout.samples.size() + 1 == starts.size() && dropout.site < 65536u),
               dropout.samples.size(), " samples at site ", dropout.site, " for ",
               starts.size() - 1, " sequences");
}

void check_decode(const AttentionShape& shape, const std::vector<std::int32_t>& slots,
                  const std::vector<std::int32_t>& lengths, const Tensor& q, const Tensor& keys,
                  const Tensor& values, const Tensor& out) {
  const std::int64_t width = shape.heads * shape.head_dim;
  FATHOM_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, shape.heads, " heads, ",
               shape.kv_heads, " key heads");
  FATHOM_CHECK(q.columns() == width && out.columns() == width && out.rows() == q.rows(), "q ",
               to_string(q.shape()), ", out ", to_string(out.shape()), " for ", width, " columns");
  FATHOM_CHECK(keys.shape().dims() == 3 && keys.shape() == values.shape() && keys.contiguous() &&
                   values.contiguous() && keys.size(2) == shape.kv_heads * shape.head_dim,
               "caches ", to_string(keys.shape()), " and ", to_string(values.shape()));
  FATHOM_CHECK(
      static_cast<std::int64_t>(slots.size()) == q.rows() && slots.size() == lengths.size(),
      slots.size(), " slots and ", lengths.size(), " lengths for ", q.rows(), " queries");
  for (std::size_t i = 0; i < slots.size(); ++i)
    FATHOM_CHECK(
        slots[i] >= 0 && slots[i] < keys.size(0) && lengths[i] >= 1 && lengths[i] <= keys.size(1),
        "length ", lengths[i], " in slot ", slots[i], " of ", to_string(keys.shape()));
}

}  // namespace fathom::kernels
