#include "methods/mta/level_spans.h"

#include <string>

namespace fathom::methods::mta {
namespace {

Tensor upload(Device& device, const std::vector<std::int32_t>& values) {
  return Tensor::from_host(device, {static_cast<std::int64_t>(values.size())}, values);
}

std::string range(std::int64_t begin, std::int64_t end) {
  return str("[", begin, ", ", end, ")");
}

}  // namespace

void SpanList::add_sample(const std::vector<RowSpan>& of_sample) {
  spans.insert(spans.end(), of_sample.begin(), of_sample.end());
  offsets.push_back(static_cast<std::int32_t>(spans.size()));
}

std::int64_t SpanList::samples_with(std::int32_t least) const {
  std::int64_t samples = 0;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
    samples += offsets[s + 1] - offsets[s] >= least ? 1 : 0;
  return samples;
}

LevelSpans::LevelSpans(Device& device, const data::MicroBatch& batch, SpanList list)
    : list_(std::move(list)), starts_host_(batch.cu_seqlens) {
  validate(batch);
  std::vector<std::vector<std::int32_t>> holders(static_cast<std::size_t>(rows()));
  std::vector<std::int32_t> bounds, counts, covering_begin{0}, covering;
  for (std::size_t i = 0; i < list_.spans.size(); ++i) {
    const RowSpan span = list_.spans[i];
    bounds.insert(bounds.end(), {span.begin, span.end});
    for (std::int32_t row = span.begin; row < span.end; ++row)
      holders[static_cast<std::size_t>(row)].push_back(static_cast<std::int32_t>(i));
  }
  for (std::size_t s = 0; s + 1 < starts_host_.size(); ++s) {
    Sample sample{.row = starts_host_[s],
                  .rows = starts_host_[s + 1] - starts_host_[s],
                  .span = list_.offsets[s],
                  .spans = list_.offsets[s + 1] - list_.offsets[s],
                  .covered = covered_rows()};
    for (std::int32_t row = starts_host_[s]; row < starts_host_[s + 1]; ++row) {
      const auto& spans_here = holders[static_cast<std::size_t>(row)];
      counts.push_back(static_cast<std::int32_t>(spans_here.size()));
      if (spans_here.empty()) continue;
      covered_host_.push_back(row);
      covering.insert(covering.end(), spans_here.begin(), spans_here.end());
      covering_begin.push_back(static_cast<std::int32_t>(covering.size()));
    }
    sample.covered_rows = covered_rows() - sample.covered;
    samples_.push_back(sample);
  }
  starts_ = upload(device, starts_host_);
  offsets_ = upload(device, list_.offsets);
  bounds_ = Tensor::from_host(device, {spans(), 2}, bounds);
  counts_ = upload(device, counts);
  covered_ = upload(device, covered_host_);
  covering_begin_ = upload(device, covering_begin);
  covering_ = upload(device, covering);
}

void LevelSpans::validate(const data::MicroBatch& batch) const {
  const std::size_t samples = starts_host_.size() - 1;
  FATHOM_CHECK(list_.offsets.size() == samples + 1 && list_.offsets.front() == 0 &&
                   list_.offsets.back() == static_cast<std::int32_t>(list_.spans.size()),
               "spans of ", list_.offsets.size() - 1, " samples for a micro-batch of ", samples);
  for (std::size_t s = 0; s < samples; ++s) {
    const std::int32_t first = starts_host_[s], end = starts_host_[s + 1];
    std::int32_t previous = first;
    FATHOM_CHECK(list_.offsets[s] <= list_.offsets[s + 1], "span offsets descend at sample ", s);
    for (std::int32_t i = list_.offsets[s]; i < list_.offsets[s + 1]; ++i) {
      const RowSpan span = list_.spans[static_cast<std::size_t>(i)];
      const bool inside = first <= span.begin && span.begin < span.end && span.end <= end;
      require(inside && previous <= span.begin, ErrorKind::data, "span ",
              range(span.begin - first, span.end - first), " of sample ", batch.sample_index.at(s),
              ": spans must not be empty, lie within the sample's ", range(0, end - first),
              " tokens and be sorted by where they begin");
      previous = span.begin;
    }
  }
}

}  // namespace fathom::methods::mta
