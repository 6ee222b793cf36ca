#include "data/spans/english/model_file.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/h5.h"

namespace fathom::data::spans::english {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "fathom-span-model";
constexpr std::int64_t kVersion = 1;

void check_format(const h5::File& file) {
  const std::string path = file.path().string();
  require(file.has_attribute("/", "format") && file.text_attribute("/", "format") == kFormat,
          ErrorKind::data, path, " is no span model; data_tools/fetch_span_model.sh makes one");
  const std::int64_t version = file.int_attribute("/", "version");
  require(version == kVersion, ErrorKind::data, path, " is a span model of version ", version,
          ", this program reads version ", kVersion,
          "; data_tools/fetch_span_model.sh makes it again");
}

Weights weights(const h5::File& file, const std::string& name) {
  return {file.info(name).shape, file.read<float>(name)};
}

LinearWeights linear(const h5::File& file, const std::string& name) {
  return {weights(file, name + "/weight"), weights(file, name + "/bias")};
}

void read_weights(const h5::File& file, ModelFile& model) {
  for (std::size_t i = 0; i < ModelFile::kFeatures; ++i)
    model.embed[i] = weights(file, str("embed/", i));
  for (std::size_t i = 0; i < file.list("maxout").size(); ++i) {
    const std::string name = str("maxout/", i);
    model.maxout.push_back(
        {linear(file, name), weights(file, name + "/gain"), weights(file, name + "/shift")});
  }
  model.tagger = linear(file, "tagger");
  model.parser_lower = linear(file, "parser/lower");
  model.parser_hidden = linear(file, "parser/hidden");
  model.parser_upper = linear(file, "parser/upper");
  model.parser_pad = weights(file, "parser/hidden/pad");
}

NameSet name_set(const json& condition) {
  const bool negated = condition.contains("not_in");
  return {condition.at(negated ? "not_in" : "in").get<std::vector<std::string>>(), negated};
}

RuleToken rule_token(const json& node) {
  RuleToken token;
  for (const auto& [attribute, condition] : node.items()) {
    if (attribute == "tag") {
      token.tag = name_set(condition);
    } else if (attribute == "dep") {
      token.dep = name_set(condition);
    } else if (attribute == "lower") {
      token.lower = name_set(condition);
    } else if (attribute == "is_space") {
      token.is_space = condition.at("in").at(0).get<bool>();
    } else {
      fail(ErrorKind::data, "a rule asks for the unknown attribute '", attribute, "'");
    }
  }
  return token;
}

Rule rule(const json& node) {
  Rule out;
  for (const json& token : node.at("tokens")) out.tokens.push_back(rule_token(token));
  node.at("index").get_to(out.index);
  const auto change = [&](const char* key) -> std::optional<std::string> {
    const auto found = node.at("set").find(key);
    if (found == node.at("set").end()) return std::nullopt;
    return found->get<std::string>();
  };
  out.tag = change("tag");
  out.pos = change("pos");
  out.dep = change("dep");
  return out;
}

void read_tokenizer(const json& tables, ModelFile& model) {
  const json& patterns = tables.at("patterns");
  patterns.at("prefix").get_to(model.prefix_pattern);
  patterns.at("suffix").get_to(model.suffix_pattern);
  patterns.at("infix").get_to(model.infix_pattern);
  patterns.at("url").get_to(model.url_pattern);
  for (const auto& [text, nodes] : tables.at("special_cases").items()) {
    std::vector<SpecialToken> tokens;
    for (const json& node : nodes) {
      SpecialToken token{node.at(0).get<std::string>(), std::nullopt};
      if (!node.at(1).is_null()) token.norm = node.at(1).get<std::string>();
      tokens.push_back(std::move(token));
    }
    model.special_cases.emplace_back(text, std::move(tokens));
  }
}

void read_tables(const json& tables, ModelFile& model) {
  read_tokenizer(tables, model);
  tables.at("seeds").get_to(model.seeds);
  tables.at("lexeme_norm").get_to(model.lexeme_norms);
  for (const auto& [text, norm] : tables.at("base_norms").items())
    model.base_norms.emplace_back(text, norm.get<std::string>());
  for (const auto& [text, id] : tables.at("symbols").items())
    model.symbols.emplace(text, id.get<std::uint64_t>());
  tables.at("tags").get_to(model.tags);
  tables.at("moves").get_to(model.moves);
  for (const json& node : tables.at("rules")) model.rules.push_back(rule(node));
}

void check_shape(const std::filesystem::path& path, const char* what, const Weights& weights,
                 const h5::Shape& expected) {
  require(weights.shape == expected, ErrorKind::data, path.string(), ": ", what, " is ",
          h5::to_string(weights.shape), " instead of ", h5::to_string(expected));
}

/// The shapes that the code counts on, and the numbers of names beside them.
void check_shapes(const std::filesystem::path& path, const ModelFile& m) {
  constexpr std::uint64_t width = 96, pieces = 3, layers = 5;
  constexpr std::uint64_t hidden = 64, hidden_pieces = 2, state_features = 8;
  for (const Weights& table : m.embed)
    check_shape(path, "an embedding", table, {table.shape.empty() ? 0 : table.shape[0], width});
  require(m.maxout.size() == layers, ErrorKind::data, path.string(), ": ", m.maxout.size(),
          " maxout layers instead of ", layers);
  for (std::size_t i = 0; i < layers; ++i) {
    const MaxoutWeights& layer = m.maxout[i];
    const std::uint64_t inputs = i == 0 ? ModelFile::kFeatures * width : 3 * width;
    check_shape(path, "a maxout weight", layer.linear.weight, {width, pieces, inputs});
    check_shape(path, "a maxout bias", layer.linear.bias, {width, pieces});
    check_shape(path, "a norm's gain", layer.gain, {width});
    check_shape(path, "a norm's shift", layer.shift, {width});
  }
  check_shape(path, "the tagger's weight", m.tagger.weight, {m.tags.size(), width});
  check_shape(path, "the tagger's bias", m.tagger.bias, {m.tags.size()});
  check_shape(path, "the parser's lower weight", m.parser_lower.weight, {hidden, width});
  check_shape(path, "the parser's lower bias", m.parser_lower.bias, {hidden});
  check_shape(path, "the parser's hidden weight", m.parser_hidden.weight,
              {state_features, hidden, hidden_pieces, hidden});
  check_shape(path, "the parser's hidden bias", m.parser_hidden.bias, {hidden, hidden_pieces});
  check_shape(path, "the parser's pad", m.parser_pad, {state_features, hidden, hidden_pieces});
  check_shape(path, "the parser's upper weight", m.parser_upper.weight, {m.moves.size(), hidden});
  check_shape(path, "the parser's upper bias", m.parser_upper.bias, {m.moves.size()});
}

}  // namespace

ModelFile ModelFile::read(const std::filesystem::path& path) {
  require(std::filesystem::exists(path), ErrorKind::io, "no span model at ", path.string(),
          "; data_tools/fetch_span_model.sh makes one");
  const h5::File file = h5::File::open(path);
  check_format(file);
  ModelFile model;
  model.info = {file.text_attribute("/", "package"), file.text_attribute("/", "package_version"),
                file.text_attribute("/", "sha256")};
  read_weights(file, model);
  const auto text = file.read<std::uint8_t>("tables");
  try {
    read_tables(json::parse(text), model);
  } catch (const json::exception& error) {
    fail(ErrorKind::data, path.string(), ": the tables are damaged: ", error.what());
  }
  check_shapes(path, model);
  return model;
}

}  // namespace fathom::data::spans::english
