#include "methods/key_layers.h"

#include <algorithm>
#include <functional>
#include <string>

#include "core/error.h"

namespace fathom::methods {
namespace {

std::string text(const std::vector<int>& layers) {
  std::string list;
  for (const int layer : layers) list += (list.empty() ? "" : ",") + std::to_string(layer);
  return list;
}

// round(a / b) for non-negative a, halves up.
std::int64_t rounded(std::int64_t a, std::int64_t b) {
  return (2 * a + b) / (2 * b);
}

void check(const std::string& key, const std::vector<int>& layers, std::int64_t depth) {
  for (const int layer : layers)
    require(layer >= 0 && layer <= depth, ErrorKind::config, key, " = ", text(layers), ": layer ",
            layer, " of a model with ", depth, " blocks; 0 (the embedding) to ", depth,
            " (the last, after the final norm) exist");
  require(std::adjacent_find(layers.begin(), layers.end(), std::greater_equal<>()) == layers.end(),
          ErrorKind::config, key, " = ", text(layers), ": the layers must ascend, each named once");
}

}  // namespace

std::vector<int> default_key_layers(std::int64_t depth) {
  std::vector<int> layers;
  for (std::int64_t quarter = 2; quarter <= 4; ++quarter)
    layers.push_back(static_cast<int>(rounded(quarter * depth, 4)));
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

std::vector<KeyLayer> key_layers(const char* section, std::vector<int> student,
                                 std::vector<int> teacher, std::int64_t student_depth,
                                 std::int64_t teacher_depth) {
  const std::string student_key = std::string(section) + ".student_layers";
  const std::string teacher_key = std::string(section) + ".teacher_layers";
  if (student.empty()) student = default_key_layers(student_depth);
  check(student_key, student, student_depth);
  if (teacher.empty())
    for (const int layer : student)
      teacher.push_back(static_cast<int>(rounded(layer * teacher_depth, student_depth)));
  require(student.size() == teacher.size(), ErrorKind::config, student_key, " = ", text(student),
          " and ", teacher_key, " = ", text(teacher),
          ": each student layer needs one teacher layer, in the same order");
  check(teacher_key, teacher, teacher_depth);
  std::vector<KeyLayer> pairs;
  for (std::size_t k = 0; k < student.size(); ++k) pairs.push_back({student[k], teacher[k]});
  return pairs;
}

}  // namespace fathom::methods
