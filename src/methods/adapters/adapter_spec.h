#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fathom::methods::adapters {

enum class Kind {
  none,
  lora,              ///< W x + s B A x (Hu et al., 2022)
  dora,              ///< rows of W + s B A rescaled to learnt magnitudes (Liu et al., 2024)
  vera,              ///< W x + b * B (d * A x), A and B frozen and shared (Kopiczko et al., 2024)
  loreft,            ///< h + R^T (W h + b - R h) at prompt positions (Wu et al., 2024)
  parallel_control,  ///< x + f(x) + alpha B A x (Zhang et al., 2025)
  molex,             ///< LoRA, and alpha u_t(x) + (1 - alpha) u_l(x) (Teo and Nguyen, 2025)
};

inline const char* to_string(Kind kind) {
  switch (kind) {
    case Kind::none:
      return "none";
    case Kind::lora:
      return "lora";
    case Kind::dora:
      return "dora";
    case Kind::vera:
      return "vera";
    case Kind::loreft:
      return "loreft";
    case Kind::parallel_control:
      return "parallel_control";
    case Kind::molex:
      return "molex";
  }
  return "?";
}

/// Where Parallel Control acts.
enum class Sites { attention, mlp, both };

/// An adapter in numbers, the same for every layer that it is on.
struct AdapterSpec {
  Kind kind = Kind::none;
  int rank = 8;
  double alpha = 16;       ///< LoRA, DoRA, MoLEx: s = alpha / rank
  bool rslora = false;     ///< s = alpha / sqrt(rank) instead
  double dropout = 0;      ///< LoRA, DoRA, VeRA, MoLEx: on the adapter's input
  double d_initial = 0.1;  ///< VeRA: what the learnt scales d start from
  /// LoRA, DoRA, VeRA, MoLEx: a module is targeted if its name is an entry or ends with "." and an
  /// entry; "all-linear" stands for every linear layer of the blocks, "regex:" begins a regular
  /// expression of the whole name. Empty: what peft takes for the family.
  std::vector<std::string> targets;
  std::vector<int> layers;     ///< counted from 0; empty: all
  Sites sites = Sites::both;   ///< Parallel Control
  double control_scale = 1;    ///< Parallel Control's alpha
  int prefix = 7, suffix = 7;  ///< LoReFT: positions at both ends of the prompt
  bool tied = true;            ///< LoReFT: one edit for both ends
  double own_share = 0.95;     ///< MoLEx's alpha
  double balance = 0.01;       ///< MoLEx: weight of the balance term

  bool on_linear_layers() const {
    return kind == Kind::lora || kind == Kind::dora || kind == Kind::vera || kind == Kind::molex;
  }
  /// What B A x is multiplied by in LoRA, DoRA and MoLEx.
  double scale() const;
};

}  // namespace fathom::methods::adapters
