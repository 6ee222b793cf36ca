#include "methods/moc/spec_json.h"

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace fathom::methods::routing {

NLOHMANN_JSON_SERIALIZE_ENUM(SoftmaxOrder, {{SoftmaxOrder::topk_softmax, "topk_softmax"},
                                            {SoftmaxOrder::softmax_topk, "softmax_topk"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Aggregate, {{Aggregate::mean, "mean"}, {Aggregate::mode, "mode"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Scope, {{Scope::sequence, "sequence"},
                                     {Scope::microbatch, "microbatch"},
                                     {Scope::global, "global"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Tokens, {{Tokens::all, "all"}, {Tokens::prompt, "prompt"}})

}  // namespace fathom::methods::routing

namespace fathom::methods::moc {

NLOHMANN_JSON_SERIALIZE_ENUM(Sites, {{Sites::attention, "attention"},
                                     {Sites::mlp, "mlp"},
                                     {Sites::both, "both"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Gate, {{Gate::shared, "shared"}, {Gate::separate, "separate"}})
NLOHMANN_JSON_SERIALIZE_ENUM(GateInput, {{GateInput::raw, "raw"}, {GateInput::rmsnorm, "rmsnorm"}})

std::string to_json(const Spec& spec) {
  const nlohmann::json json = {{"rank", spec.rank},           {"alpha", spec.alpha},
                               {"top_k", spec.top_k},         {"sites", spec.sites},
                               {"gate", spec.gate},           {"softmax", spec.softmax},
                               {"scope", spec.scope},         {"eval_scope", spec.eval_scope},
                               {"aggregate", spec.aggregate}, {"tokens", spec.tokens},
                               {"balance", spec.balance},     {"gate_input", spec.gate_input}};
  return json.dump();
}

Spec parse_spec(const std::string& text, const std::string& origin) {
  try {
    const auto json = nlohmann::json::parse(text);
    return {.enabled = true,
            .rank = json.at("rank"),
            .alpha = json.at("alpha"),
            .top_k = json.at("top_k"),
            .sites = json.at("sites"),
            .gate = json.at("gate"),
            .softmax = json.at("softmax"),
            .aggregate = json.at("aggregate"),
            .scope = json.at("scope"),
            .eval_scope = json.at("eval_scope"),
            .tokens = json.at("tokens"),
            .gate_input = json.value("gate_input", GateInput::raw),
            .balance = json.at("balance")};
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::io, origin, ": its mixture of control cannot be read: ", error.what());
  }
}

}  // namespace fathom::methods::moc
