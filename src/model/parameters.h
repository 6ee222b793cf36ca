#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autograd/tape.h"

namespace fathom::model {

/// A rectangle that a rank holds of a parameter. A vector counts as a matrix of one column.
struct Piece {
  std::int64_t row = 0, column = 0;              ///< in the whole parameter
  std::int64_t local_row = 0, local_column = 0;  ///< in this rank's tensor
  std::int64_t rows = 0, columns = 0;
};

/// Ranks besides data-parallel ones that hold the same values and must sum their gradients.
enum class Sharing {
  none,
  kv_replicas,  ///< tensor ranks with the same key/value head
  first_last,   ///< the tied embedding on the first and the last stage
  tensor,       ///< all tensor ranks, each with its part of the gradient
  stages,       ///< all stages, each with its part of the gradient
};

/// A parameter as everything outside the model sees it: a global name and shape, and this rank's
/// part.
struct Parameter {
  std::string name;
  Shape shape;                               ///< of the whole parameter
  std::vector<Piece> pieces;                 ///< this rank's part of it
  Tensor value;                              ///< the local values; f32, or bf16 when frozen
  std::shared_ptr<autograd::GradSlot> slot;  ///< undefined when frozen
  std::int64_t flat_offset = 0;              ///< of the gradient in ParameterSet::gradients()
  bool matrix = false;                       ///< has two dims: weight decay applies by default
  Sharing sharing = Sharing::none;
  bool owned = true;    ///< this rank counts it among tensor and pipeline ranks that hold the same
  double init_std = 0;  ///< of the normal distribution for random weights; 0 = not normal
  double init_bound = 0;  ///< of the uniform one in [-bound, bound); 0 = not uniform
  double init_value = 0;  ///< what either is around; alone, a constant
  double lr_scale = 1;    ///< times the run's learning rate
  bool decay = true;      ///< false: no weight decay, whatever the run's applies to

  bool trainable() const { return slot != nullptr; }
  const Tensor& grad() const { return slot->grad(); }
};

/// One part of a fused tensor: consecutive rows of it for [out, in] weights and vectors, or the
/// whole.
struct PartDeclaration {
  std::string name;
  Shape shape;
  std::vector<Piece> pieces;  ///< local coordinates within the part
  std::int64_t local_rows = 0;
  Sharing sharing = Sharing::none;
  bool owned = true;
  double init_std = 0, init_bound = 0, init_value = 0;
  bool frozen = false;  ///< never trained, whatever the run trains
  double lr_scale = 1;
  bool decay = true;
};

/// A parameter that a rank holds whole.
PartDeclaration whole_part(std::string name, Shape shape, bool owned);

/// All parameters of one rank's stage. They are declared first, in the order of the forward pass,
/// and then allocated together: gradients lie in one flat tensor in the order in which the backward
/// pass completes them, so that a range of it can be reduced as soon as it is final.
class ParameterSet {
 public:
  /// Declares a local tensor of this shape made of the parts, one below the other. `var` is filled
  /// in by allocate() and must live that long.
  void declare(autograd::Var* var, Shape local_shape, std::vector<PartDeclaration> parts);

  /// Marks a boundary: what is declared before it is final in the backward pass only after this
  /// point has been played back. Returns the index of the bucket that ends here.
  int mark_bucket();

  /// `trainable` by name; matrices of the model's frozen tensors are kept in frozen_dtype. Throws
  /// Error(config) when the parts of a fused tensor are not all trainable or all frozen.
  void allocate(Device& device, const std::function<bool(const std::string&)>& trainable,
                DType frozen_dtype);

  /// Leaves the first `rows` rows of a parameter that this rank holds whole out of the set until it
  /// is told otherwise, all rows being the parameter itself. What remains keeps its memory; whoever
  /// saves, clips or updates sees no more than that.
  void leave_out(const std::string& name, std::int64_t rows);

  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Parameter* find(const std::string& name) const;

  /// All gradients; undefined when nothing is trained.
  const Tensor& gradients() const { return gradients_; }
  /// The range of gradients() that bucket `index` makes final.
  struct Range {
    std::int64_t begin = 0, count = 0;
  };
  Range bucket(int index) const { return buckets_.at(static_cast<std::size_t>(index)).range; }
  int buckets() const { return static_cast<int>(buckets_.size()); }

 private:
  struct Declared {
    autograd::Var* var;
    Shape shape;
    std::vector<PartDeclaration> parts;
    bool trainable = false;
  };
  struct Bucket {
    std::size_t first = 0, end = 0;  // of declared_
    Range range;
  };
  void make_parameters(const Declared& declared, const Tensor& value, std::int64_t offset);

  std::vector<Declared> declared_;
  std::vector<Bucket> buckets_;
  std::vector<Parameter> parameters_;
  std::vector<Parameter> allocated_;  // of which the same, where something is left out
  std::map<std::string, std::int64_t> left_out_;
  Tensor gradients_;
};

}  // namespace fathom::model
