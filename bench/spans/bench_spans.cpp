// Times span extraction over a file of texts, and writes what it found of each for comparison.
//
//   bench_spans MODEL TEXTS.jsonl [--threads N] [--rounds N] [--analyses FILE]
//
// TEXTS.jsonl holds one JSON string a line. Prints one line of JSON.
#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "data/spans/extractor.h"

namespace {

namespace options = boost::program_options;
namespace spans = fathom::data::spans;
using nlohmann::json;

options::variables_map parse(int argc, char** argv) {
  options::options_description known;
  known.add_options()("model", options::value<std::string>()->required())(
      "texts", options::value<std::string>()->required())("threads",
                                                          options::value<int>()->default_value(1))(
      "rounds", options::value<int>()->default_value(3))("analyses", options::value<std::string>());
  options::positional_options_description order;
  order.add("model", 1).add("texts", 1);
  options::variables_map values;
  options::store(options::command_line_parser(argc, argv).options(known).positional(order).run(),
                 values);
  options::notify(values);
  return values;
}

std::vector<std::string> read_texts(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> texts;
  for (std::string line; std::getline(file, line);)
    texts.push_back(json::parse(line).get<std::string>());
  return texts;
}

json phrases(const spans::TextSpans& found) {
  json out = json::array();
  for (const spans::Phrase& phrase : found.phrases)
    out.push_back({phrase.range.begin, phrase.range.end, static_cast<int>(phrase.kind)});
  return out;
}

json analysis(const spans::Extractor& extractor, const std::string& text) {
  json tokens = json::array();
  for (const spans::Token& token : extractor.analyse(text).tokens)
    tokens.push_back({token.range.begin, token.range.end, token.space_after, token.tag, token.head,
                      token.dep, token.pos, token.sentence_start});
  return {{"tokens", tokens},
          {"pattern", phrases(extractor.extract(text, {spans::VerbPhrases::pattern, {}}))},
          {"group", phrases(extractor.extract(text, {spans::VerbPhrases::group, {}}))}};
}

}  // namespace

int main(int argc, char** argv) {
  const auto values = parse(argc, argv);
  const spans::Extractor extractor(values["model"].as<std::string>());
  const std::vector<std::string> texts = read_texts(values["texts"].as<std::string>());
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  std::vector<double> seconds;
  for (int round = 0; round < values["rounds"].as<int>(); ++round) {
    const auto begin = std::chrono::steady_clock::now();
    extractor.extract(views, {}, values["threads"].as<int>());
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  if (values.count("analyses") != 0) {
    std::ofstream out(values["analyses"].as<std::string>());
    for (const std::string& text : texts) out << analysis(extractor, text).dump() << '\n';
  }
  const double best = *std::min_element(seconds.begin(), seconds.end());
  std::cout << json{{"min", best}, {"seconds", seconds}}.dump() << std::endl;
}
