#include "kernels/embedding.h"
#include "kernels/rows.h"

// Rows of a table are gathered from many tokens, in their order and without atomics: tokens are
// sorted by id first, and then each id's tokens are added up by the block that has the first of
// them. The sort counts, for each token, those before it: n^2 comparisons, 70 million for 8192
// tokens, which a GPU does in less time than it takes to read their gradients.

namespace fathom::kernels {
namespace {

// Row of the table of token t, or `rows` where it belongs to another rank.
struct TableRows {
  __device__ std::int64_t operator()(std::int64_t t) const {
    const std::int64_t row = ids[t] - first_id;
    return row >= 0 && row < rows ? row : rows;
  }

  const std::int32_t* ids;
  std::int64_t first_id, rows;
};

// order: the tokens by their rows, then in order. counts: at the first token of a row, how many it
// has; 0 at all others, and for tokens of other ranks.
void sort_tokens(const TableRows& row_of, const Tensor& order, const Tensor& counts) {
  const std::int64_t tokens = order.elements();
  FATHOM_CHECK(tokens <= 1 << 24, tokens, " tokens: f32 counts up to 2^24");
  std::int32_t *sorted = order.ptr<std::int32_t>(), *count = counts.ptr<std::int32_t>();
  for_each_row(
      order.device(), tokens, tokens, FATHOM_BODY(const Row& row, std::int64_t r) {
        const std::int64_t mine = row_of(r);
        const Triple found = row.sums(tokens, [&](std::int64_t t) {
          const std::int64_t other = row_of(t);
          const bool same = other == mine;
          return Triple{other < mine ? 1.0f : 0.0f, same && t < r ? 1.0f : 0.0f,
                        same ? 1.0f : 0.0f};
        });
        row.each(1, [&](std::int64_t) {
          const auto place = static_cast<std::int64_t>(found.a + found.b);
          const bool first = found.b == 0.0f && mine < row_of.rows;
          sorted[place] = static_cast<std::int32_t>(r);
          count[place] = first ? static_cast<std::int32_t>(found.c) : 0;
        });
      });
}

}  // namespace

void embedding_backward(const Tensor& dout, std::int64_t first_id, const Tensor& ids,
                        const Tensor& dtable) {
  const std::int64_t n = dtable.columns(), tokens = ids.elements();
  FATHOM_CHECK(dout.contiguous() && dout.columns() == n && dout.rows() == tokens,
               "embedding gradient of ", to_string(dout.shape()));
  const TableRows row_of{ids.ptr<std::int32_t>(), first_id, dtable.rows()};
  const Tensor order = Tensor::empty(dout.device(), {tokens}, DType::i32);
  const Tensor counts = Tensor::empty(dout.device(), {tokens}, DType::i32);
  sort_tokens(row_of, order, counts);
  const std::int32_t *sorted = order.ptr<std::int32_t>(), *count = counts.ptr<std::int32_t>();
  const float* from = dout.ptr<float>();
  float* to = dtable.ptr<float>();
  const std::int64_t blocks = (n + kBlockThreads - 1) / kBlockThreads;
  for_each_row(
      dout.device(), tokens * blocks, kBlockThreads, FATHOM_BODY(const Row& row, std::int64_t b) {
        const std::int64_t place = b / blocks, first = b % blocks * kBlockThreads;
        const std::int32_t mine = count[place];
        if (mine == 0) return;
        const std::int32_t* token = sorted + place;
        float* target = to + row_of(token[0]) * n + first;
        const std::int64_t columns = n - first < kBlockThreads ? n - first : kBlockThreads;
        row.each(columns, [&](std::int64_t i) {
          float sum = target[i];
          for (std::int32_t k = 0; k < mine; ++k) sum += from[token[k] * n + first + i];
          target[i] = sum;
        });
      });
}

}  // namespace fathom::kernels
