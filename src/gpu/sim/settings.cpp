#include "gpu/sim/settings.h"

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/error.h"

namespace fathom::gpu::sim {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::uint64_t number(const char* name, std::string_view text, std::uint64_t least,
                     std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(
      code == std::errc{} && end == text.data() + text.size() && value >= least && value <= most,
      ErrorKind::config, name, ": \"", text, "\" is not a number from ", least, " to ", most);
  return value;
}

void read_order(const char* name, Order& order, std::uint64_t& seed) {
  const std::string_view text = variable(name);
  if (text.empty() || text == "forward") return;
  constexpr std::string_view kRandom = "random";
  if (text == "reverse") {
    order = Order::reverse;
  } else if (text.substr(0, kRandom.size()) == kRandom) {
    order = Order::random;
    const std::string_view rest = text.substr(kRandom.size());
    if (!rest.empty()) {
      require(rest.front() == ':', ErrorKind::config, name, ": \"", text, "\" is not random:SEED");
      seed = number(name, rest.substr(1), 0, UINT64_MAX);
    }
  } else {
    fail(ErrorKind::config, name, ": \"", text, "\" is not forward, reverse or random[:SEED]");
  }
}

// Whether a variable has the second of two values; unset means the first.
bool read_choice(const char* name, std::string_view first, std::string_view second) {
  const std::string_view text = variable(name);
  require(text.empty() || text == first || text == second, ErrorKind::config, name, ": \"", text,
          "\" is not ", first, " or ", second);
  return text == second;
}

}  // namespace

std::size_t Settings::shared_bytes() const {
  constexpr std::size_t kKiB = 1024;
  switch (capability) {
    case 80:
    case 87:
      return 163 * kKiB;
    case 86:
    case 89:
    case 120:
    case 121:
      return 99 * kKiB;
    default:
      return capability < 80 ? 64 * kKiB : 227 * kKiB;
  }
}

Settings settings_of_environment() {
  Settings s;
  read_order("FATHOM_SIM_THREADS", s.threads, s.thread_seed);
  read_order("FATHOM_SIM_BLOCKS", s.blocks, s.block_seed);
  s.lazy_streams = read_choice("FATHOM_SIM_STREAMS", "eager", "lazy");
  s.record = variable("FATHOM_SIM_RECORD");
  s.protect = read_choice("FATHOM_SIM_PROTECT", "0", "1");
  if (const auto text = variable("FATHOM_SIM_DEVICES"); !text.empty())
    s.devices = static_cast<int>(number("FATHOM_SIM_DEVICES", text, 0, 64));
  if (const auto text = variable("FATHOM_SIM_MEMORY"); !text.empty())
    s.device_bytes = number("FATHOM_SIM_MEMORY", text, 1, std::uint64_t{1} << 22) << 20;
  if (const auto text = variable("FATHOM_SIM_CAPABILITY"); !text.empty())
    s.capability = static_cast<int>(number("FATHOM_SIM_CAPABILITY", text, 75, 129));
  if (const auto text = variable("FATHOM_SIM_NCCL_FAILS"); !text.empty())
    s.nccl_fails = number("FATHOM_SIM_NCCL_FAILS", text, 0, UINT64_MAX);
  return s;
}

Settings& settings() {
  static Settings chosen = settings_of_environment();
  return chosen;
}

}  // namespace fathom::gpu::sim
