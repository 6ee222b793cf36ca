#pragma once

#include <optional>
#include <string>

#include "data/spans/spans.h"
#include "launch/options/command_line.h"

namespace fathom::options {

enum class SpansAction { build, show, inspect, compare };

template <>
inline constexpr std::array enum_words<SpansAction> = {
    Word<SpansAction>{"build", SpansAction::build}, Word<SpansAction>{"show", SpansAction::show},
    Word<SpansAction>{"inspect", SpansAction::inspect},
    Word<SpansAction>{"compare", SpansAction::compare}};

enum class Colour { automatic, on, off };

template <>
inline constexpr std::array enum_words<Colour> = {Word<Colour>{"auto", Colour::automatic},
                                                  Word<Colour>{"on", Colour::on},
                                                  Word<Colour>{"off", Colour::off}};

/// `fathom spans build|show|inspect|compare`.
struct SpansRequest {
  SpansAction action = SpansAction::inspect;
  std::string first;      ///< inspect, compare: a span file
  std::string second;     ///< compare: the other
  std::string model;      ///< build, show: the extractor's model
  std::string tokenizer;  ///< build, show: folder
  std::string tokens;     ///< build: token file
  std::string output;     ///< build: span file to write
  std::string text;       ///< show
  data::spans::Options definition;
  int threads = 0;
  Colour colour = Colour::automatic;
  std::optional<std::string> reply;  ///< the --help page
};

extern const Command spans_command;

/// Throws Error(usage) or Error(config).
SpansRequest parse_spans(const Arguments& arguments);

}  // namespace fathom::options
