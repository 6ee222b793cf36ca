#include "launch/options/spans.h"

namespace fathom::options {
namespace {

void describe(OptionTable& t, SpansRequest& r) {
  t.section("", "What to do:");
  t.add("action", r.action,
        {.help = "Find the spans of a token file; print a text with its spans; say what a span "
                 "file holds; or compare two (exit code 0 if they are equal, 1 if not).",
         .required = true,
         .position = 0});
  t.add("file", r.first,
        {.help = "inspect, compare: the span file.", .unit = "spans.h5 file", .position = 1});
  t.add("other", r.second,
        {.help = "compare: the second span file.", .unit = "spans.h5 file", .position = 2});
  t.section("", "build and show:");
  t.add(
      "span-model", r.model,
      {.help = "Model of the extractor; data_tools/fetch_span_model.sh makes it.", .unit = "file"});
  t.add("tokenizer", r.tokenizer,
        {.help = "build: the tokenizer that made the token file. show: prints its tokens as well.",
         .unit = "folder"});
  t.add("vp", r.definition.verb,
        {.help = "Verb phrases: AUX* ADV* VERB+ ADV* (pattern), or the verb with its auxiliaries "
                 "in the dependency tree (group)."});
  t.add("words", r.definition.words,
        {.help = "Words of the whole text, or only those inside phrases."});
  t.section("", "build:");
  t.add("tokens", r.tokens, {.help = "Token file to read.", .unit = "tokens.h5 file"});
  t.add("output", r.output, {.help = "Span file to write.", .unit = "spans.h5 file"});
  t.add("threads", r.threads,
        {.help = "Threads to work on; 0 takes one a core.", .range = within(0, 4096)});
  t.section("", "show:");
  t.add("text", r.text, {.help = "The text.", .unit = "text"});
  t.add("color", r.colour,
        {.help = "Colours instead of brackets: on a terminal (auto), always, or never."});
}

/// Each action's options, given and complete.
void check(const SpansRequest& r) {
  const bool builds = r.action == SpansAction::build, shows = r.action == SpansAction::show;
  const bool compares = r.action == SpansAction::compare;
  const auto needs = [&](bool wanted, const std::string& value, const char* message) {
    require(!wanted || !value.empty(), ErrorKind::usage, "spans ",
            Codec<SpansAction>::print(r.action), " needs ", message);
  };
  needs(builds, r.tokens, "--tokens=<tokens.h5 file>");
  needs(builds, r.tokenizer, "--tokenizer=<folder>");
  needs(builds, r.output, "--output=<spans.h5 file>");
  needs(builds || shows, r.model,
        "--span-model=<file>; data_tools/fetch_span_model.sh makes that file");
  needs(shows, r.text, "--text=<text>");
  needs(!builds && !shows, r.first, "a span file");
  needs(compares, r.second, "two span files");
  const bool files = !builds && !shows;
  require(files || r.first.empty(), ErrorKind::usage, "'", r.first,
          "': spans build and show take options only");
  require(compares || r.second.empty(), ErrorKind::usage, "'", r.second,
          "': only spans compare takes a second file");
  require(shows || r.text.empty(), ErrorKind::usage, "--text belongs to spans show");
  require(builds || r.output.empty(), ErrorKind::usage, "--output belongs to spans build");
  require(builds || r.tokens.empty(), ErrorKind::usage, "--tokens belongs to spans build");
}

}  // namespace

const Command spans_command = {
    .name = "spans",
    .usage = "fathom spans build|show|inspect|compare [FILE [FILE]] [options]",
    .summary = "Find the words and phrases of a token file, or look at them.",
    .example =
        "fathom spans build --tokens=train.h5 --tokenizer=smollm2 "
        "--span-model=data/spans/en_core_web_sm.h5 --output=spans.h5"};

SpansRequest parse_spans(const Arguments& arguments) {
  auto request = parse_request<SpansRequest>(spans_command, arguments, describe);
  if (!request.reply) check(request);
  return request;
}

}  // namespace fathom::options
