#pragma once

#include <cstdint>
#include <vector>

namespace fathom::methods {

/// Hidden states of student and teacher that are compared, counted as Hugging Face's hidden_states:
/// 0 is the embedding, i the output of block i (from 1), the last one after the final norm.
struct KeyLayer {
  std::int64_t student = 0;
  std::int64_t teacher = 0;
  bool operator==(const KeyLayer&) const = default;
};

/// The student's key layers where none are given: the ends of its second, third and last quarter
/// (6, 9 and 12 of 12), each once.
std::vector<int> default_key_layers(std::int64_t depth);

/// Pairs student layer l with teacher layer phi(l). An empty `student` takes default_key_layers; an
/// empty `teacher` takes phi(l) = round(l L_T / L_S), which pairs the last layers with each other.
/// Depths count blocks. Throws Error(config) that names `section`.student_layers or teacher_layers
/// for a layer beyond the model, lists of unequal length, or layers that do not ascend.
std::vector<KeyLayer> key_layers(const char* section, std::vector<int> student,
                                 std::vector<int> teacher, std::int64_t student_depth,
                                 std::int64_t teacher_depth);

}  // namespace fathom::methods
