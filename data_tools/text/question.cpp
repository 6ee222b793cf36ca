#include "data_tools/text/question.h"

#include <map>
#include <utility>

#include "core/error.h"
#include "core/files.h"
#include "data/fingerprint.h"
#include "data_tools/text/json_fields.h"
#include "data_tools/text/line_reader.h"

namespace fathom::data_tools {
namespace {

using nlohmann::json;

std::string id_of(const json& object) {
  const char* name = find_field(object, {"id", "question_id"});
  if (name == nullptr) return {};
  const json& value = object[name];
  return value.is_number_integer() ? value.dump() : text_of(value, name);
}

std::vector<std::string> references_of(const json& object) {
  std::vector<std::string> references;
  for (const char* name : {"output", "response", "answer", "completion"}) {
    if (find_field(object, {name}) == nullptr) continue;
    const json& value = object[name];
    references.clear();
    if (value.is_array()) {
      for (const json& item : value) references.push_back(with_line_breaks(text_of(item, name)));
      return references;
    }
    references.push_back(with_line_breaks(text_of(value, name)));
    if (!is_blank(references.front())) return references;
  }
  return references;
}

std::string text_or_empty(const json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Question make_question(std::string id, std::string instruction, std::string input,
                       const json& answered) {
  instruction = with_line_breaks(std::move(instruction));
  input = with_line_breaks(std::move(input));
  return {.id = std::move(id),
          .text = input.empty() ? instruction : instruction + "\n\n" + input,
          .example = InstructionExample{instruction, input, ""},
          .prompt = std::nullopt,
          .references = references_of(answered),
          .later = {},
          .task = {},
          .label = {}};
}

std::vector<Question> instances_of(const json& object, const char* field,
                                   const std::string& instruction) {
  const auto instances = objects_of(object, field, "instance", "{input, output}");
  std::vector<Question> questions;
  for (const json& instance : instances) {
    std::string id = id_of(instance);
    if (id.empty()) id = id_of(object);
    if (instances.size() > 1 && id == id_of(object)) id += str("/", questions.size());
    questions.push_back(
        make_question(std::move(id), instruction, optional_text(instance, {"input"}), instance));
  }
  return questions;
}

// Super-NaturalInstructions has a list of one text, its forerunner a text.
std::string definition_of(const json& object) {
  const json& value = object["Definition"];
  const bool list = value.is_array();
  require(!list || value.size() == 1, ErrorKind::data, "field 'Definition' is a list of ",
          value.size(), "; one text expected");
  return text_of(list ? value[0] : value, "Definition");
}

Question conversation(const json& object) {
  ChatExample chat = parse_chat(object);
  for (Message& message : chat.messages) message.content = with_line_breaks(message.content);
  const std::string reference = chat.messages.back().content;
  return {.id = id_of(object),
          .text = chat.messages[chat.messages.size() - 2].content,
          .example = std::move(chat),
          .prompt = std::nullopt,
          .references = {reference},
          .later = {},
          .task = {},
          .label = {}};
}

std::vector<std::string> texts_of(const json& object, const char* field) {
  const json& list = object[field];
  require(list.is_array() && !list.empty(), ErrorKind::data, "field '", field,
          "' is not a list of texts");
  std::vector<std::string> texts;
  for (const json& item : list) texts.push_back(with_line_breaks(text_of(item, field)));
  return texts;
}

Question turns_of(const std::string& id, const json& object) {
  const auto turns = texts_of(object, "turns");
  Question question = make_question(id, turns[0], "", object);
  for (std::size_t i = 1; i < turns.size(); ++i) question.later.push_back({turns[i], {}});
  if (find_field(object, {"reference"}) == nullptr) return question;
  const auto references = texts_of(object, "reference");
  require(references.size() == turns.size(), ErrorKind::data, "field 'reference' has ",
          references.size(), " texts for ", turns.size(), " turns");
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (is_blank(references[i])) continue;  // of a turn that has no one answer
    (i == 0 ? question.references : question.later[i - 1].references) = {references[i]};
  }
  return question;
}

Question single_question(const json& object) {
  const std::string id = id_of(object);
  if (object.contains("turns")) return turns_of(id, object);
  if (object.contains("instruction"))
    return make_question(id, required_text(object, "instruction"),
                         optional_text(object, {"input", "context"}), object);
  if (object.contains("question"))
    return make_question(id, required_text(object, "question"), "", object);
  require(object.contains("prompt"), ErrorKind::data,
          "no field 'messages', 'instruction', 'Definition', 'turns', 'question' or 'prompt' in "
          "this record");
  Question question = make_question(id, required_text(object, "prompt"), "", object);
  question.example = PromptExample{question.text, ""};
  return question;
}

// Calls take(record, what messages and ids call it, its number) for each object of a file.
template <typename Take>
void each_record(const std::filesystem::path& file, Take take) {
  if (file.extension() == ".json") {
    json whole;
    try {
      whole = json::parse(files::read_text(file));
    } catch (const json::exception& error) {
      fail(ErrorKind::data, file.string(), ": malformed JSON: ", error.what());
    }
    if (!whole.is_array()) whole = json::array({std::move(whole)});
    for (std::size_t i = 0; i < whole.size(); ++i)
      take(whole[i].dump(), str(file.string(), ": record ", i + 1), i + 1);
    return;
  }
  data::Fingerprint unused;
  LineReader lines(file, unused);
  for (std::string line; lines.next(line);)
    if (!is_blank(line))
      take(line, str(file.string(), ":", lines.line_number()),
           static_cast<std::size_t>(lines.line_number()));
}

}  // namespace

std::string with_line_breaks(std::string text) {
  constexpr std::string_view kMark = "<n>";
  for (std::size_t at = text.find(kMark); at != text.npos; at = text.find(kMark, at))
    text.replace(at, kMark.size(), "\n");
  return text;
}

std::vector<Question> parse_questions(std::string_view json_object) {
  const json object = parse_object(json_object);
  if (object.contains("messages")) return {conversation(object)};
  if (object.contains("Instances")) return instances_of(object, "Instances", definition_of(object));
  if (object.contains("instances"))
    return instances_of(object, "instances", required_text(object, "instruction"));
  Question question = single_question(object);
  if (object.contains("prompt"))
    question.prompt = with_line_breaks(required_text(object, "prompt"));
  question.task = text_or_empty(object, "task");
  question.label = text_or_empty(object, "answer");
  return {std::move(question)};
}

std::vector<Question> read_questions(const std::filesystem::path& file) {
  std::vector<Question> all;
  std::map<std::string, std::string> places;  // of each id
  each_record(file, [&](const std::string& record, const std::string& where, std::size_t number) {
    try {
      for (Question& question : parse_questions(record)) {
        if (question.id.empty() || question.id.starts_with('/'))
          question.id = std::to_string(number) + question.id;
        const auto [place, fresh] = places.try_emplace(question.id, where);
        require(fresh, ErrorKind::data, "the id '", question.id, "' is also that of ",
                place->second);
        for (const std::string& reference : question.references)
          require(!is_blank(reference), ErrorKind::data, "an empty reference");
        all.push_back(std::move(question));
      }
    } catch (const Error& error) {
      fail(error.kind(), where, ": ", error.what());
    }
  });
  require(!all.empty(), ErrorKind::data, file.string(), ": holds no question");
  return all;
}

}  // namespace fathom::data_tools
