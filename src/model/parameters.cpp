#include "model/parameters.h"

#include "core/parameter_names.h"
#include "kernels/elementwise.h"

namespace fathom::model {
namespace {

// Parts of the flat gradient start on a cache line.
constexpr std::int64_t kAlignment = 64;

std::int64_t aligned(std::int64_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

PartDeclaration whole_part(std::string name, Shape shape, bool owned) {
  PartDeclaration part;
  part.name = std::move(name);
  part.shape = shape;
  part.local_rows = shape[0];
  part.pieces = {{.rows = shape[0], .columns = shape.dims() == 2 ? shape[1] : 1}};
  part.owned = owned;
  return part;
}

void ParameterSet::declare(autograd::Var* var, Shape local_shape,
                           std::vector<PartDeclaration> parts) {
  declared_.push_back({var, local_shape, std::move(parts)});
}

int ParameterSet::mark_bucket() {
  const std::size_t first = buckets_.empty() ? 0 : buckets_.back().end;
  buckets_.push_back({first, declared_.size(), {}});
  return static_cast<int>(buckets_.size()) - 1;
}

void ParameterSet::allocate(Device& device,
                            const std::function<bool(const std::string&)>& trainable,
                            DType frozen_dtype) {
  FATHOM_CHECK(!buckets_.empty() && buckets_.back().end == declared_.size(),
               "parameters outside every bucket");
  for (Declared& declared : declared_) {
    const auto trains = [&](const PartDeclaration& part) {
      return !part.frozen && trainable(part.name);
    };
    declared.trainable = trains(declared.parts.front());
    for (const PartDeclaration& part : declared.parts)
      require(trains(part) == declared.trainable, ErrorKind::config,
              "model.freeze: ", declared.parts.front().name, " and ", part.name,
              " are one fused matrix; freeze both or none");
  }
  std::vector<std::int64_t> offsets(declared_.size(), 0);
  std::int64_t total = 0;
  for (std::size_t b = buckets_.size(); b-- > 0;) {
    Bucket& bucket = buckets_[b];
    bucket.range.begin = total;
    for (std::size_t i = bucket.end; i-- > bucket.first;) {
      offsets[i] = total;
      if (declared_[i].trainable) total += aligned(declared_[i].shape.elements());
    }
    bucket.range.count = total - bucket.range.begin;
  }
  if (total > 0) {
    gradients_ = Tensor::empty(device, {total});
    kernels::fill(gradients_, 0.0f);
  }
  for (std::size_t i = 0; i < declared_.size(); ++i) {
    const Declared& declared = declared_[i];
    const bool narrow = !declared.trainable && declared.shape.dims() == 2 &&
                        !is_method_parameter(declared.parts.front().name);
    const DType dtype = narrow ? frozen_dtype : DType::f32;
    make_parameters(declared, Tensor::empty(device, declared.shape, dtype), offsets[i]);
  }
}

void ParameterSet::make_parameters(const Declared& declared, const Tensor& value,
                                   std::int64_t offset) {
  std::shared_ptr<autograd::GradSlot> whole;
  if (declared.trainable)
    whole = std::make_shared<autograd::GradSlot>(
        gradients_.slice_rows(offset, declared.shape.elements()).view(declared.shape));
  *declared.var = autograd::Var(value, whole);
  std::int64_t row = 0;
  for (const PartDeclaration& part : declared.parts) {
    Parameter parameter;
    parameter.name = part.name;
    parameter.shape = part.shape;
    parameter.pieces = part.pieces;
    parameter.value = value.slice_rows(row, part.local_rows);
    if (whole)
      parameter.slot =
          std::make_shared<autograd::GradSlot>(whole->grad().slice_rows(row, part.local_rows));
    parameter.flat_offset = offset + row * (declared.shape.dims() == 2 ? declared.shape[1] : 1);
    parameter.matrix = part.shape.dims() == 2;
    parameter.sharing = part.sharing;
    parameter.owned = part.owned;
    parameter.init_std = part.init_std;
    parameter.init_bound = part.init_bound;
    parameter.init_value = part.init_value;
    parameter.lr_scale = part.lr_scale;
    parameter.decay = part.decay;
    parameters_.push_back(std::move(parameter));
    row += part.local_rows;
  }
  FATHOM_CHECK(row == declared.shape[0], "parts of ", declared.parts.front().name, " cover ", row,
               " of ", declared.shape[0], " rows");
}

namespace {

Parameter without(const Parameter& whole, std::int64_t rows) {
  FATHOM_CHECK(whole.pieces.size() == 1 && whole.pieces[0].rows == whole.shape[0], whole.name,
               " is not whole on this rank");
  const std::int64_t kept = whole.shape[0] - rows;
  Parameter part = whole;
  part.shape = whole.matrix ? Shape{kept, whole.shape[1]} : Shape{kept};
  part.pieces[0].rows = kept;
  part.value = whole.value.slice_rows(rows, kept);
  if (whole.slot)
    part.slot = std::make_shared<autograd::GradSlot>(whole.slot->grad().slice_rows(rows, kept));
  part.flat_offset += rows * whole.pieces[0].columns;
  return part;
}

}  // namespace

void ParameterSet::leave_out(const std::string& name, std::int64_t rows) {
  if (allocated_.empty()) allocated_ = parameters_;
  left_out_[name] = rows;
  parameters_.clear();
  for (const Parameter& parameter : allocated_) {
    const auto found = left_out_.find(parameter.name);
    const std::int64_t gone = found == left_out_.end() ? 0 : found->second;
    FATHOM_CHECK(gone >= 0 && gone <= parameter.shape[0], gone, " rows of ", parameter.name);
    if (gone < parameter.shape[0])
      parameters_.push_back(gone > 0 ? without(parameter, gone) : parameter);
  }
}

const Parameter* ParameterSet::find(const std::string& name) const {
  for (const Parameter& parameter : parameters_)
    if (parameter.name == name) return &parameter;
  return nullptr;
}

}  // namespace fathom::model
