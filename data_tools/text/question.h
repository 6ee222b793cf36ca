#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data_tools/text/example.h"

namespace fathom::data_tools {

/// What is asked once the questions before it are answered.
struct FollowUp {
  std::string text;
  std::vector<std::string> references;  ///< may be empty
};

/// One question of an evaluation set.
struct Question {
  std::string id;  ///< the record's; else the number of its line, or of the record in a .json file
  std::string text;  ///< what a person asks: the instruction, a blank line and the input if any
  Example example;   ///< the same for a template; its response means nothing
  std::optional<std::string> prompt;    ///< the record's own, already in a template
  std::vector<std::string> references;  ///< answers to be held against; may be empty
  std::vector<FollowUp> later;          ///< turns of the conversation behind this one
  std::string task;                     ///< field `task`: the set that it is of; may be empty
  std::string label;  ///< field `answer`, if that is a text: the one right answer; may be empty
};

/// "<n>", by which published evaluation sets write a line break, as a line break.
std::string with_line_breaks(std::string text);

/// The questions of one JSON object, told apart by its fields, the first row that fits:
///   messages: [{role, content}, ...]            a conversation; its last message is the reference
///   instruction, instances: [{input, output}]   Self-Instruct: one question an instance
///   Definition, Instances: [{input, output}]    Super-NaturalInstructions: the same
///   turns: [text]                               Vicuna, MT-bench: what is asked turn by turn, with
///                                               references for each in reference: [text], some
///                                               of which may be empty
///   instruction, input | context                Dolly, Alpaca; the input may be absent
///   question                                    an instruction without an input
///   prompt                                      a prompt as it stands
/// References are in the first of output, response, answer and completion that is not empty: a text
/// or a list of texts. A prompt beside an instruction is kept as well. Ids are in id or
/// question_id, those of several instances in the instance or with its number behind a slash;
/// without one the id is empty. with_line_breaks holds for all texts. Other fields are ignored.
/// Throws Error(data) saying what is wrong.
std::vector<Question> parse_questions(std::string_view json_object);

/// All questions of a file: JSON lines, or, if its name ends with .json, one object or a list of
/// them. Throws Error(io), and Error(data) naming the file and the line or record for what
/// parse_questions() refuses, an empty reference, an id that stands twice, and a file without a
/// question.
std::vector<Question> read_questions(const std::filesystem::path& file);

}  // namespace fathom::data_tools
