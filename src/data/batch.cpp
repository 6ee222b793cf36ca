#include "data/batch.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace fathom::data {
namespace {

// Closes the sequence whose ids and labels were just appended.
void close_sequence(MicroBatch& batch, std::int64_t sample, std::int64_t record_number,
                    std::int32_t prompt) {
  FATHOM_CHECK(batch.tokens() <= std::numeric_limits<std::int32_t>::max(), "a micro-batch of ",
               batch.tokens(), " tokens");
  const std::int32_t begin = batch.cu_seqlens.back();
  const auto end = static_cast<std::int32_t>(batch.tokens());
  for (std::int32_t p = 0; p < end - begin; ++p) batch.positions.push_back(p);
  batch.label_tokens += std::count_if(batch.labels.begin() + begin, batch.labels.end(),
                                      [](std::int32_t label) { return label != kNoLabel; });
  batch.cu_seqlens.push_back(end);
  batch.sample_index.push_back(sample);
  batch.record_index.push_back(record_number);
  batch.prompts.push_back(std::min(prompt, end - begin));
}

// Number of tokens of a right-padded row.
std::size_t row_length(std::span<const std::int32_t> mask, std::int64_t row) {
  std::size_t count = 0;
  for (std::size_t t = 0; t < mask.size(); ++t) {
    require(mask[t] == 0 || mask[t] == 1, ErrorKind::data, "attention mask: row ", row, " column ",
            t, " is ", mask[t], "; 0 or 1 expected");
    if (mask[t] == 0) continue;
    require(t == count, ErrorKind::data, "attention mask: row ", row, " column ", t,
            " is 1 after a 0; padding on the right only is expected");
    ++count;
  }
  require(count > 0, ErrorKind::data, "attention mask: row ", row, " attends to no token");
  return count;
}

void check_row(std::span<const std::int32_t> ids, std::span<const std::int32_t> labels,
               std::size_t tokens, std::int64_t row, std::int32_t vocab_size) {
  for (std::size_t t = 0; t < labels.size(); ++t) {
    require(t >= tokens || (ids[t] >= 0 && ids[t] < vocab_size), ErrorKind::data, "ids: row ", row,
            " column ", t, " is ", ids[t], "; 0 to ", vocab_size - 1, " expected");
    const bool labelled = labels[t] != kNoLabel;
    require(!labelled || t < tokens, ErrorKind::data, "labels: row ", row, " column ", t, " is ",
            labels[t], " in the padding; ", kNoLabel, " expected");
    require(!labelled || (labels[t] >= 0 && labels[t] < vocab_size), ErrorKind::data,
            "labels: row ", row, " column ", t, " is ", labels[t], "; ", kNoLabel, " or 0 to ",
            vocab_size - 1, " expected");
  }
}

}  // namespace

BatchCounts& BatchCounts::operator+=(const BatchCounts& other) {
  label_tokens += other.label_tokens;
  tokens += other.tokens;
  sequences += other.sequences;
  squares += other.squares;
  return *this;
}

std::vector<std::int64_t> supervised_rows(const MicroBatch& batch) {
  std::vector<std::int64_t> rows;
  for (std::size_t s = 1; s < batch.cu_seqlens.size(); ++s)
    rows.push_back(std::count_if(batch.labels.begin() + batch.cu_seqlens[s - 1],
                                 batch.labels.begin() + batch.cu_seqlens[s],
                                 [](std::int32_t label) { return label != kNoLabel; }));
  return rows;
}

BatchCounts count(const MicroBatch& batch) {
  BatchCounts counts{.label_tokens = batch.label_tokens, .tokens = batch.tokens()};
  for (const std::int64_t rows : supervised_rows(batch)) counts.sequences += rows > 0;
  for (std::size_t s = 1; s < batch.cu_seqlens.size(); ++s) {
    const std::int64_t length = batch.cu_seqlens[s] - batch.cu_seqlens[s - 1];
    counts.squares += length * length;
  }
  return counts;
}

BatchCounts RoleCounts::total() const {
  BatchCounts sum;
  for (const BatchCounts& counts : counts_) sum += counts;
  return sum;
}

void append(MicroBatch& batch, const TokenRecord& record, std::int64_t sample,
            std::int64_t record_number) {
  FATHOM_CHECK(record.ids.size() >= 2, "a record of ", record.ids.size(), " ids");
  const std::size_t inputs = record.ids.size() - 1;
  const std::int32_t prompt = std::max(record.prompt_length, 1);
  const auto first = record.learn_prompt ? 0 : static_cast<std::size_t>(prompt - 1);
  for (std::size_t p = 0; p < inputs; ++p) {
    batch.ids.push_back(record.ids[p]);
    batch.labels.push_back(p < first ? kNoLabel : record.ids[p + 1]);
  }
  close_sequence(batch, sample, record_number, prompt);
}

MicroBatch from_padded(std::span<const std::int32_t> ids, std::span<const std::int32_t> mask,
                       std::span<const std::int32_t> labels, std::int64_t rows, std::int64_t length,
                       std::int32_t vocab_size) {
  const auto width = static_cast<std::size_t>(length);
  const std::size_t expected = static_cast<std::size_t>(rows) * width;
  require(rows > 0 && length > 0 && ids.size() == expected && mask.size() == expected &&
              labels.size() == expected,
          ErrorKind::data, "a padded batch of ", rows, " x ", length, " with ", ids.size(),
          " ids, ", mask.size(), " mask values and ", labels.size(), " labels; ", expected,
          " of each expected");
  MicroBatch batch;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::size_t start = static_cast<std::size_t>(row) * width;
    const auto row_ids = ids.subspan(start, width);
    const auto row_labels = labels.subspan(start, width);
    const std::size_t tokens = row_length(mask.subspan(start, width), row);
    check_row(row_ids, row_labels, tokens, row, vocab_size);
    for (std::size_t t = 0; t < tokens; ++t) {
      batch.ids.push_back(row_ids[t]);
      batch.labels.push_back(t + 1 < tokens ? row_labels[t + 1] : kNoLabel);
    }
    const auto row_start = batch.labels.begin() + batch.cu_seqlens.back();
    const auto first = std::find_if(row_start, batch.labels.end(),
                                    [](std::int32_t label) { return label != kNoLabel; });
    close_sequence(batch, row, row, static_cast<std::int32_t>(first - row_start) + 1);
  }
  return batch;
}

MicroBatch slice(const MicroBatch& batch, std::int64_t begin, std::int64_t end) {
  FATHOM_CHECK(0 <= begin && begin <= end && end <= batch.sequences(), "rows ", begin, " to ", end,
               " of ", batch.sequences());
  MicroBatch part;
  part.role = batch.role;
  for (auto s = static_cast<std::size_t>(begin); s < static_cast<std::size_t>(end); ++s) {
    const std::int32_t from = batch.cu_seqlens[s];
    const std::int32_t to = batch.cu_seqlens[s + 1];
    part.ids.insert(part.ids.end(), batch.ids.begin() + from, batch.ids.begin() + to);
    part.labels.insert(part.labels.end(), batch.labels.begin() + from, batch.labels.begin() + to);
    close_sequence(part, batch.sample_index[s], batch.record_index[s], batch.prompts[s]);
  }
  return part;
}

}  // namespace fathom::data
