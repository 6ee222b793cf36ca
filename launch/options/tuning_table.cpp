#include <limits>

#include "launch/options/codec.h"
#include "launch/options/train_tables.h"

namespace fathom::options {
namespace {

constexpr double any_int = std::numeric_limits<int>::max();

}  // namespace

void describe_adapter(OptionTable& t, train::AdapterConfig& c) {
  methods::adapters::AdapterSpec& spec = c.spec;
  t.section("adapter", "What is trained instead of the model, which is frozen then");
  t.add(
      "kind", spec.kind,
      {.help = "Low-rank products beside linear layers (lora, dora, vera), edits of prompt states "
               "(loreft), controls beside whole blocks (parallel_control), or lora whose layers "
               "are mixed with each other (molex)."});
  t.add("path", c.path,
        {.help = "Adapter folder to start from, as peft writes it; it says what the adapter is.",
         .unit = "folder",
         .on_resume = OnResume::free});
  t.add("rank", spec.rank, {.help = "Rank of each product.", .range = within(1, any_int)});
  t.add(
      "alpha", spec.alpha,
      {.help = "lora, dora, molex: the product is multiplied by alpha / rank.", .range = above(0)});
  t.add("rslora", spec.rslora, {.help = "lora, dora, molex: by alpha / sqrt(rank) instead."});
  t.add("dropout", spec.dropout,
        {.help = "lora, dora, vera, molex: probability on the product's input.",
         .range = from_below(0, 1)});
  t.add("targets", spec.targets,
        {.help = "lora, dora, vera, molex: linear layers by the end of their names, such as "
                 "q_proj,v_proj; "
                 "all-linear for all of them; regex:... for whole names. Empty takes what peft "
                 "takes for the family."});
  t.add("layers", spec.layers,
        {.help = "Layers that get an adapter, counted from 0; empty means all.",
         .range = at_least(0)});
  t.add("d_initial", spec.d_initial, {.help = "vera: start of the scales between the products."});
  t.add("sites", spec.sites, {.help = "parallel_control: beside attention, the MLP, or both."});
  t.add("control_scale", spec.control_scale,
        {.help = "parallel_control: the control is multiplied by this."});
  t.add("prefix", spec.prefix,
        {.help = "loreft: positions edited at the start of each prompt.",
         .unit = "tokens",
         .range = at_least(0)});
  t.add("suffix", spec.suffix,
        {.help = "loreft: positions edited at its end.", .unit = "tokens", .range = at_least(0)});
  t.add("tied", spec.tied, {.help = "loreft: one edit for both ends of the prompt."});
  t.add("own_share", spec.own_share,
        {.help = "molex: share of the layer's own output; the chosen layer's gets the rest.",
         .range = within(0, 1)});
  t.add("balance", spec.balance,
        {.help = "molex: weight of the term that keeps layers in equal use; 0 leaves it out.",
         .range = at_least(0)});
  t.add(
      "train", c.train,
      {.help = "Parameters of the model that are trained beside the adapter, by shell patterns."});
}

void describe_moc(OptionTable& t, methods::moc::Spec& c) {
  t.section("moc",
            "Mixture of control: beside each block its own control and, routed, those of others");
  t.add("enabled", c.enabled, {.help = "Freeze the model and train controls and their gates."});
  t.add("rank", c.rank, {.help = "Rank of each control.", .range = within(1, any_int)});
  t.add("alpha", c.alpha,
        {.help = "Share of the layer's own control; the routed ones get the rest.",
         .range = within(0, 1)});
  t.add("top_k", c.top_k,
        {.help = "Layers whose controls are taken.", .range = within(1, any_int)});
  t.add("sites", c.sites, {.help = "Beside attention, the MLP, or both."});
  t.add("gate", c.gate, {.help = "One gate for both sites, or one each."});
  t.add("softmax", c.softmax,
        {.help = "Weights from the softmax over the kept scores, or over all of them, of which the "
                 "kept ones stay; with top_k = 1 the first is the constant 1."});
  t.add("aggregate", c.aggregate,
        {.help = "The best by mean scores, or those that most tokens pick."});
  t.add("scope", c.scope,
        {.help = "What decides together in training; global is a whole step, of which each replica "
                 "then has one micro-batch."});
  t.add("eval_scope", c.eval_scope,
        {.help = "And in evaluation, where microbatch makes results depend on the batches."});
  t.add("tokens", c.tokens, {.help = "Tokens that decide: all, or only those of the prompt."});
  t.add("balance", c.balance,
        {.help = "Weight of the term that keeps experts in equal use; 0 leaves it out.",
         .range = at_least(0)});
  t.add("balance_scope", c.balance_scope,
        {.help = "In equal use over each micro-batch, or over a step, as for scope."});
  t.add("gate_input", c.gate_input,
        {.help = "What gates score: states as they are, or divided by their root mean square, so "
                 "that no token outweighs the others."});
  t.add("gate_decay", c.gate_decay, {.help = "optim.weight_decay applies to gates as well."});
}

}  // namespace fathom::options
