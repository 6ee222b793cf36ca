#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generate/exit_options.h"
#include "train/config.h"

/// How each type of option is written as text: what it is called in messages, how it is read, and
/// the text that reads back to the same value. Independent of the locale.
namespace fathom::options {

template <typename T>
struct Codec;

/// The words of an enum; a type with such a table is an option type.
template <typename E>
inline constexpr std::array<std::pair<std::string_view, E>, 0> enum_words{};

template <typename T>
concept WordEnum = std::is_enum_v<T> && enum_words<T>
.size() > 0;

template <>
struct Codec<bool> {
  static std::string type() { return "true|false"; }
  static std::optional<bool> parse(std::string_view text);
  static std::string print(bool value) { return value ? "true" : "false"; }
};

/// The whole of `text` as a decimal number.
template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

template <std::integral T>
requires(!std::same_as<T, bool>) struct Codec<T> {
  static std::string type() { return "integer"; }
  static std::optional<T> parse(std::string_view text) { return parse_number<T>(text); }
  static std::string print(T value) { return std::to_string(value); }
};

/// Finite numbers only; printed with the fewest digits that read back to the same bits.
template <>
struct Codec<double> {
  static std::string type() { return "number"; }
  static std::optional<double> parse(std::string_view text);
  static std::string print(double value);
};

template <>
struct Codec<std::string> {
  static std::string type() { return "text"; }
  static std::optional<std::string> parse(std::string_view text) { return std::string(text); }
  static std::string print(const std::string& value) { return value; }
};

/// "3,2,3"; the empty text is the empty list.
template <>
struct Codec<std::vector<int>> {
  static std::string type() { return "list of integers"; }
  static std::optional<std::vector<int>> parse(std::string_view text);
  static std::string print(const std::vector<int>& value);
};

/// "q_proj,v_proj"; the empty text is the empty list.
template <>
struct Codec<std::vector<std::string>> {
  static std::string type() { return "list of names"; }
  static std::optional<std::vector<std::string>> parse(std::string_view text);
  static std::string print(const std::vector<std::string>& value);
};

/// "0,3,6" or "every:3".
template <>
struct Codec<train::LayerChoice> {
  static std::string type() { return "list of layers, or every:N"; }
  static std::optional<train::LayerChoice> parse(std::string_view text);
  static std::string print(const train::LayerChoice& value);
};

/// "none", "all", or patterns between commas.
template <>
struct Codec<train::NamePatterns> {
  static std::string type() { return "none|all|list of patterns"; }
  static std::optional<train::NamePatterns> parse(std::string_view text);
  static std::string print(const train::NamePatterns& value);
};

template <WordEnum E>
struct Codec<E> {
  static std::string type() {
    std::string words;
    for (const auto& [word, value] : enum_words<E>)
      words += (words.empty() ? "" : "|") + std::string(word);
    return words;
  }
  static std::optional<E> parse(std::string_view text) {
    for (const auto& [word, value] : enum_words<E>)
      if (word == text) return value;
    return std::nullopt;
  }
  static std::string print(E wanted) {
    for (const auto& [word, value] : enum_words<E>)
      if (value == wanted) return std::string(word);
    return "?";
  }
};

using generate::ExitCache;
using generate::ExitPolicy;
using kernels::DeviceKind;
using kernels::Precision;
using methods::mode::Norms;
using methods::mode::Router;
using methods::mode::RouterInit;
using methods::mode::RouterInput;
using methods::mta::Granularity;
using methods::mta::PairNormalisation;
using methods::mta::SpanRegion;
using AdapterKind = methods::adapters::Kind;
using ControlSites = methods::adapters::Sites;
using MocAggregate = methods::moc::Aggregate;
using MocBalanceScope = methods::moc::BalanceScope;
using MocGateInput = methods::moc::GateInput;
using MocGate = methods::moc::Gate;
using MocScope = methods::moc::Scope;
using MocSites = methods::moc::Sites;
using MocSoftmax = methods::moc::SoftmaxOrder;
using MocTokens = methods::moc::Tokens;
using train::Decay;
using train::DistillMethod;
using train::Divergence;
using train::FaultKind;
using train::Init;
using train::Normalise;
using train::Overlong;
using train::ProgressMode;
using train::Recompute;
using train::ReplaySchedule;
using train::Resume;
using train::SaveErrors;
using train::ScheduleKind;

template <typename E>
using Word = std::pair<std::string_view, E>;

template <>
inline constexpr std::array enum_words<data::spans::Words> = {
    Word<data::spans::Words>{"all", data::spans::Words::all},
    Word<data::spans::Words>{"in-phrases", data::spans::Words::in_phrases}};
template <>
inline constexpr std::array enum_words<data::spans::VerbPhrases> = {
    Word<data::spans::VerbPhrases>{"pattern", data::spans::VerbPhrases::pattern},
    Word<data::spans::VerbPhrases>{"group", data::spans::VerbPhrases::group}};
template <>
inline constexpr std::array enum_words<DType> = {Word<DType>{"f32", DType::f32},
                                                 Word<DType>{"bf16", DType::bf16}};
template <>
inline constexpr std::array enum_words<Resume> = {Word<Resume>{"auto", Resume::automatic},
                                                  Word<Resume>{"never", Resume::never},
                                                  Word<Resume>{"must", Resume::must}};
template <>
inline constexpr std::array enum_words<SaveErrors> = {Word<SaveErrors>{"end", SaveErrors::end},
                                                      Word<SaveErrors>{"retry", SaveErrors::retry}};
template <>
inline constexpr std::array enum_words<Init> = {Word<Init>{"path", Init::path},
                                                Word<Init>{"random", Init::random},
                                                Word<Init>{"teacher_layers", Init::teacher_layers}};
template <>
inline constexpr std::array enum_words<Overlong> = {Word<Overlong>{"refuse", Overlong::refuse},
                                                    Word<Overlong>{"truncate", Overlong::truncate},
                                                    Word<Overlong>{"skip", Overlong::skip}};
template <>
inline constexpr std::array enum_words<Decay> = {Word<Decay>{"matrices", Decay::matrices},
                                                 Word<Decay>{"all", Decay::all}};
template <>
inline constexpr std::array enum_words<ScheduleKind> = {
    Word<ScheduleKind>{"constant", ScheduleKind::constant},
    Word<ScheduleKind>{"linear", ScheduleKind::linear},
    Word<ScheduleKind>{"cosine", ScheduleKind::cosine},
    Word<ScheduleKind>{"wsd", ScheduleKind::wsd}};
template <>
inline constexpr std::array enum_words<Divergence> = {
    Word<Divergence>{"forward_kl", Divergence::forward_kl},
    Word<Divergence>{"reverse_kl", Divergence::reverse_kl},
    Word<Divergence>{"js", Divergence::js},
    Word<Divergence>{"tvd", Divergence::tvd},
    Word<Divergence>{"skew_kl", Divergence::skew_kl},
    Word<Divergence>{"skew_reverse_kl", Divergence::skew_reverse_kl}};
template <>
inline constexpr std::array enum_words<Normalise> = {
    Word<Normalise>{"tokens", Normalise::tokens},
    Word<Normalise>{"sequences", Normalise::sequences}};
template <>
inline constexpr std::array enum_words<AdapterKind> = {
    Word<AdapterKind>{"none", AdapterKind::none},
    Word<AdapterKind>{"lora", AdapterKind::lora},
    Word<AdapterKind>{"dora", AdapterKind::dora},
    Word<AdapterKind>{"vera", AdapterKind::vera},
    Word<AdapterKind>{"loreft", AdapterKind::loreft},
    Word<AdapterKind>{"parallel_control", AdapterKind::parallel_control},
    Word<AdapterKind>{"molex", AdapterKind::molex}};
template <>
inline constexpr std::array enum_words<ControlSites> = {
    Word<ControlSites>{"both", ControlSites::both},
    Word<ControlSites>{"attention", ControlSites::attention},
    Word<ControlSites>{"mlp", ControlSites::mlp}};
template <>
inline constexpr std::array enum_words<DistillMethod> = {
    Word<DistillMethod>{"off_policy", DistillMethod::off_policy},
    Word<DistillMethod>{"mixed", DistillMethod::mixed},
    Word<DistillMethod>{"adaptive", DistillMethod::adaptive},
    Word<DistillMethod>{"contrastive", DistillMethod::contrastive}};
template <>
inline constexpr std::array enum_words<ReplaySchedule> = {
    Word<ReplaySchedule>{"decreasing", ReplaySchedule::decreasing},
    Word<ReplaySchedule>{"constant", ReplaySchedule::constant},
    Word<ReplaySchedule>{"increasing", ReplaySchedule::increasing}};
template <>
inline constexpr std::array enum_words<DeviceKind> = {
    Word<DeviceKind>{"auto", DeviceKind::automatic}, Word<DeviceKind>{"cpu", DeviceKind::cpu},
    Word<DeviceKind>{"cuda", DeviceKind::cuda}, Word<DeviceKind>{"sim", DeviceKind::sim}};
template <>
inline constexpr std::array enum_words<Precision> = {Word<Precision>{"f32", Precision::f32},
                                                     Word<Precision>{"tf32", Precision::tf32},
                                                     Word<Precision>{"bf16", Precision::bf16}};
template <>
inline constexpr std::array enum_words<MocSites> = {
    Word<MocSites>{"both", MocSites::both}, Word<MocSites>{"attention", MocSites::attention},
    Word<MocSites>{"mlp", MocSites::mlp}};
template <>
inline constexpr std::array enum_words<MocGate> = {Word<MocGate>{"shared", MocGate::shared},
                                                   Word<MocGate>{"separate", MocGate::separate}};
template <>
inline constexpr std::array enum_words<MocSoftmax> = {
    Word<MocSoftmax>{"topk_softmax", MocSoftmax::topk_softmax},
    Word<MocSoftmax>{"softmax_topk", MocSoftmax::softmax_topk}};
template <>
inline constexpr std::array enum_words<MocAggregate> = {
    Word<MocAggregate>{"mean", MocAggregate::mean}, Word<MocAggregate>{"mode", MocAggregate::mode}};
template <>
inline constexpr std::array enum_words<MocScope> = {
    Word<MocScope>{"microbatch", MocScope::microbatch},
    Word<MocScope>{"sequence", MocScope::sequence}, Word<MocScope>{"global", MocScope::global}};
template <>
inline constexpr std::array enum_words<MocBalanceScope> = {
    Word<MocBalanceScope>{"microbatch", MocBalanceScope::microbatch},
    Word<MocBalanceScope>{"global", MocBalanceScope::global}};
template <>
inline constexpr std::array enum_words<MocGateInput> = {
    Word<MocGateInput>{"raw", MocGateInput::raw},
    Word<MocGateInput>{"rmsnorm", MocGateInput::rmsnorm}};
template <>
inline constexpr std::array enum_words<MocTokens> = {Word<MocTokens>{"all", MocTokens::all},
                                                     Word<MocTokens>{"prompt", MocTokens::prompt}};
template <>
inline constexpr std::array enum_words<Recompute> = {Word<Recompute>{"none", Recompute::none},
                                                     Word<Recompute>{"cheap", Recompute::cheap},
                                                     Word<Recompute>{"block", Recompute::block}};
template <>
inline constexpr std::array enum_words<Router> = {Word<Router>{"learnt", Router::learnt},
                                                  Word<Router>{"uniform", Router::uniform}};
template <>
inline constexpr std::array enum_words<RouterInput> = {Word<RouterInput>{"raw", RouterInput::raw},
                                                       Word<RouterInput>{"rms", RouterInput::rms}};
template <>
inline constexpr std::array enum_words<RouterInit> = {
    Word<RouterInit>{"last", RouterInit::last}, Word<RouterInit>{"uniform", RouterInit::uniform}};
template <>
inline constexpr std::array enum_words<Norms> = {Word<Norms>{"own", Norms::own},
                                                 Word<Norms>{"shared", Norms::shared},
                                                 Word<Norms>{"none", Norms::none}};
template <>
inline constexpr std::array enum_words<ExitPolicy> = {
    Word<ExitPolicy>{"dense", ExitPolicy::dense}, Word<ExitPolicy>{"topk", ExitPolicy::topk},
    Word<ExitPolicy>{"threshold", ExitPolicy::threshold}};
template <>
inline constexpr std::array enum_words<ExitCache> = {
    Word<ExitCache>{"deferred", ExitCache::deferred}, Word<ExitCache>{"copy", ExitCache::copy},
    Word<ExitCache>{"off", ExitCache::off}};
template <>
inline constexpr std::array enum_words<Granularity> = {
    Word<Granularity>{"adaptive", Granularity::adaptive},
    Word<Granularity>{"words", Granularity::words},
    Word<Granularity>{"phrases", Granularity::phrases}};
template <>
inline constexpr std::array enum_words<PairNormalisation> = {
    Word<PairNormalisation>{"sample", PairNormalisation::sample},
    Word<PairNormalisation>{"none", PairNormalisation::none},
    Word<PairNormalisation>{"batch", PairNormalisation::batch}};
template <>
inline constexpr std::array enum_words<SpanRegion> = {
    Word<SpanRegion>{"all", SpanRegion::all}, Word<SpanRegion>{"response", SpanRegion::response}};
template <>
inline constexpr std::array enum_words<ProgressMode> = {
    Word<ProgressMode>{"auto", ProgressMode::automatic}, Word<ProgressMode>{"on", ProgressMode::on},
    Word<ProgressMode>{"off", ProgressMode::off}};
template <>
inline constexpr std::array enum_words<FaultKind> = {
    Word<FaultKind>{"none", FaultKind::none},
    Word<FaultKind>{"freeze", FaultKind::freeze},
    Word<FaultKind>{"stall", FaultKind::stall},
    Word<FaultKind>{"kill", FaultKind::kill},
    Word<FaultKind>{"usr1", FaultKind::usr1},
    Word<FaultKind>{"term", FaultKind::term},
    Word<FaultKind>{"nan", FaultKind::nan},
    Word<FaultKind>{"failed_write", FaultKind::failed_write},
    Word<FaultKind>{"full_disk", FaultKind::full_disk},
    Word<FaultKind>{"slow_link", FaultKind::slow_link}};

}  // namespace fathom::options
