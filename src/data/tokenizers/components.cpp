#include "data/tokenizers/components.h"

#include "core/error.h"

namespace fathom::data {
namespace {

void refuse_type(const JsonNode& node, const std::string& known) {
  node.at("type").refuse("is not supported here; known are " + known);
}

/// The literal of a Replace or Split pattern; none if it is a regular expression.
std::optional<std::string> literal(const JsonNode& pattern) {
  const auto text = pattern.find("String");
  if (!text) return std::nullopt;
  if (text->string().empty()) text->refuse("must not be empty");
  return text->string();
}

std::string replace_pattern(const JsonNode& node) {
  const JsonNode pattern = node.at("pattern");
  const auto text = literal(pattern);
  if (!text) pattern.refuse("must be a literal {\"String\": ...}");
  return *text;
}

bool is_metacharacter(char c) {
  return std::string_view("\\^$.[]|()?*+{}").find(c) != std::string_view::npos;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (is_metacharacter(c)) out += '\\';
    out += c;
  }
  return out;
}

void read_split(const JsonNode& node, TokenizerSpec& spec) {
  const JsonNode behavior = node.at("behavior");
  if (behavior.string() != "Isolated") behavior.refuse("must be \"Isolated\"");
  if (node.flag("invert", false)) node.at("invert").refuse("must be false");
  const JsonNode pattern = node.at("pattern");
  const auto text = literal(pattern);
  const std::string regex = text ? escaped(*text) : pattern.at("Regex").string();
  spec.pre_tokenizers.push_back(make_split(Regex(regex, pattern.path())));
}

PrependScheme prepend_scheme(const JsonNode& node) {
  // Files before the key existed have add_prefix_space.
  const auto scheme = node.find("prepend_scheme");
  if (!scheme) {
    return node.flag("add_prefix_space", true) ? PrependScheme::always : PrependScheme::never;
  }
  const std::string name = scheme->string();
  if (name == "always") return PrependScheme::always;
  if (name == "first") return PrependScheme::first;
  if (name != "never") scheme->refuse("must be \"always\", \"first\" or \"never\"");
  return PrependScheme::never;
}

void check_metaspace(const JsonNode& node) {
  const auto replacement = node.find("replacement");
  if (replacement && replacement->string() != "▁") replacement->refuse("must be \"▁\"");
}

void read_byte_level(const JsonNode& node, TokenizerSpec& spec) {
  if (node.flag("add_prefix_space", true)) spec.pre_tokenizers.push_back(make_prefix_space());
  if (node.flag("use_regex", true)) {
    spec.pre_tokenizers.push_back(make_split(Regex(kGpt2Pattern, node.path())));
  }
  spec.model.byte_level = true;
}

/// The special tokens of a template around its sequence A.
void read_template(const JsonNode& node, TokenizerSpec& spec) {
  const JsonNode single = node.at("single");
  bool after = false;
  for (const JsonNode& item : single.items()) {
    if (const auto sequence = item.find("Sequence")) {
      if (after || sequence->at("id").string() != "A") single.refuse("must have one sequence, A");
      after = true;
      continue;
    }
    const std::string name = item.at("SpecialToken").at("id").string();
    for (const JsonNode& id : node.at("special_tokens").at(name).at("ids").items()) {
      auto& ids = after ? spec.suffix : spec.prefix;
      ids.push_back(static_cast<std::int32_t>(id.integer()));
    }
  }
  if (!after) single.refuse("has no sequence A");
}

std::int32_t named_id(const JsonNode& pair) {
  const auto items = pair.items();
  if (items.size() != 2) pair.refuse("must be [token, id]");
  return static_cast<std::int32_t>(items[1].integer());
}

}  // namespace

void read_normalizer(const JsonNode& node, TokenizerSpec& spec) {
  const std::string type = node.at("type").string();
  if (type == "Sequence") {
    for (const JsonNode& item : node.at("normalizers").items()) read_normalizer(item, spec);
  } else if (type == "NFC") {
    spec.normalizers.push_back(make_nfc());
  } else if (type == "Prepend") {
    spec.normalizers.push_back(make_prepend(node.at("prepend").string()));
  } else if (type == "Replace") {
    spec.normalizers.push_back(make_replace(replace_pattern(node), node.at("content").string()));
  } else {
    refuse_type(node, "Sequence, NFC, Prepend and Replace");
  }
}

void read_pre_tokenizer(const JsonNode& node, TokenizerSpec& spec) {
  // After the byte level the text is in another alphabet, so no step can follow.
  if (spec.model.byte_level) node.refuse("follows ByteLevel, which must be the last");
  const std::string type = node.at("type").string();
  if (type == "Sequence") {
    for (const JsonNode& item : node.at("pretokenizers").items()) read_pre_tokenizer(item, spec);
  } else if (type == "Digits") {
    const char* pattern = node.flag("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)";
    spec.pre_tokenizers.push_back(make_split(Regex(pattern, node.path())));
  } else if (type == "ByteLevel") {
    read_byte_level(node, spec);
  } else if (type == "Split") {
    read_split(node, spec);
  } else if (type == "Metaspace") {
    check_metaspace(node);
    spec.pre_tokenizers.push_back(make_metaspace(prepend_scheme(node), node.flag("split", true)));
  } else {
    refuse_type(node, "Sequence, Digits, ByteLevel, Split and Metaspace");
  }
}

void read_decoder(const JsonNode& node, TokenizerSpec& spec) {
  const auto add = [&](std::unique_ptr<const Decoder> step) {
    spec.decoders.push_back(std::move(step));
  };
  const auto count = [&](const char* key) {
    const JsonNode member = node.at(key);
    if (member.integer() < 0) member.refuse("must not be negative");
    return static_cast<std::size_t>(member.integer());
  };
  const std::string type = node.at("type").string();
  if (type == "Sequence") {
    for (const JsonNode& item : node.at("decoders").items()) read_decoder(item, spec);
  } else if (type == "ByteLevel") {
    add(make_byte_level_decoder());
  } else if (type == "Replace") {
    add(make_replace_decoder(replace_pattern(node), node.at("content").string()));
  } else if (type == "ByteFallback") {
    add(make_byte_fallback_decoder());
  } else if (type == "Fuse") {
    add(make_fuse_decoder());
  } else if (type == "Strip") {
    if (node.at("content").string().empty()) node.at("content").refuse("must not be empty");
    add(make_strip_decoder(node.at("content").string(), count("start"), count("stop")));
  } else if (type == "Metaspace") {
    check_metaspace(node);
    add(make_metaspace_decoder(prepend_scheme(node) != PrependScheme::never));
  } else {
    refuse_type(node, "Sequence, ByteLevel, Replace, ByteFallback, Fuse, Strip and Metaspace");
  }
}

void read_post_processor(const JsonNode& node, TokenizerSpec& spec) {
  const auto trim = [&] {
    if (!node.flag("trim_offsets", true)) return;
    spec.trim = {true, node.flag("add_prefix_space", true)};
  };
  const std::string type = node.at("type").string();
  if (type == "Sequence") {
    for (const JsonNode& item : node.at("processors").items()) read_post_processor(item, spec);
  } else if (type == "ByteLevel") {
    trim();
  } else if (type == "RobertaProcessing") {
    trim();
    spec.prefix = {named_id(node.at("cls"))};
    spec.suffix = {named_id(node.at("sep"))};
  } else if (type == "TemplateProcessing") {
    read_template(node, spec);
  } else {
    refuse_type(node, "Sequence, ByteLevel, RobertaProcessing and TemplateProcessing");
  }
}

void add_sentencepiece_components(TokenizerSpec& spec, bool dummy_prefix, bool legacy) {
  if (legacy) {
    if (dummy_prefix) spec.normalizers.push_back(make_prepend("▁"));
    spec.normalizers.push_back(make_replace(" ", "▁"));
  } else {
    const auto scheme = dummy_prefix ? PrependScheme::first : PrependScheme::never;
    spec.pre_tokenizers.push_back(make_metaspace(scheme, false));
  }
  spec.decoders.push_back(make_replace_decoder("▁", " "));
  spec.decoders.push_back(make_byte_fallback_decoder());
  spec.decoders.push_back(make_fuse_decoder());
  if (dummy_prefix) spec.decoders.push_back(make_strip_decoder(" ", 1, 0));
}

}  // namespace fathom::data
