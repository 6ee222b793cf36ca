#include "gpu/sim/block.h"

#include <bit>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "gpu/sim/fiber.h"
#include "gpu/sim/settings.h"
#include "gpu/sim/shared_memory.h"

namespace fathom::gpu::sim {

Position position = {};

namespace {

enum class State : std::uint8_t { fresh, running, in_warp, in_block, exited };

struct Thread {
  uint3 index = {};
  State state = State::fresh;
  Where where;  // of the wait
  FiberStack stack;
  FiberContext context;
};

struct Warp {
  std::uint32_t ready = 0;  // lanes that could run
  unsigned arrived = 0;
  unsigned first_arrived = 0;  // the thread
  unsigned turn = 0;           // which of the two sets of words the present exchange uses
  std::uint64_t words[2][kWarp] = {};
};

bool same(const Where& a, const Where& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

std::string text(const Where& where) {
  return str(where.file_name(), ":", where.line());
}

std::string text(const uint3& index) {
  return str("(", index.x, ", ", index.y, ", ", index.z, ")");
}

// A bit of a mask that is not empty, as an order has it.
class Picker {
 public:
  void start(Order order, std::uint64_t seed) {
    order_ = order;
    state_ = seed * 2 + 1;
  }
  bool random() const { return order_ == Order::random; }

  unsigned pick(std::uint32_t mask) {
    switch (order_) {
      case Order::forward:
        return static_cast<unsigned>(std::countr_zero(mask));
      case Order::reverse:
        return 31 - static_cast<unsigned>(std::countl_zero(mask));
      case Order::random:
        break;
    }
    for (auto skip = next() % static_cast<unsigned>(std::popcount(mask)); skip > 0; --skip)
      mask &= mask - 1;
    return static_cast<unsigned>(std::countr_zero(mask));
  }

  unsigned next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<unsigned>(state_ >> 33);
  }

 private:
  Order order_ = Order::forward;
  std::uint64_t state_ = 1;
};

/// The block at hand. Fibers call it from their own stacks; all else is called by run_grid().
class Block {
 public:
  void begin_grid(const Grid& grid);
  void run(const uint3& index);

  void meet_block(const Where& where);
  const std::uint64_t* meet_warp(std::uint64_t word, const Where& where);
  unsigned lane() const { return current_ % kWarp; }
  [[noreturn]] void fault(const std::string& reason);

 private:
  static constexpr unsigned kNobody = kMaxThreads;

  static void enter();
  [[noreturn]] void live();
  void leave();
  unsigned pick();
  void wait();
  FiberContext& resume(unsigned next);
  void put_in_place(unsigned next);
  void wake_warp(unsigned warp);
  void wake_all();
  void check_place(unsigned first, const Where& where, const char* what);
  std::string name(unsigned thread) const;
  std::string doing(unsigned thread) const;
  std::string stuck() const;

  const Grid* grid_ = nullptr;
  unsigned count_ = 0;
  std::vector<Thread> threads_ = std::vector<Thread>(kMaxThreads);
  Warp warps_[kMaxThreads / kWarp];
  std::uint32_t ready_warps_ = 0;
  unsigned warp_ = 0;  // whose lanes run, as long as any can
  unsigned current_ = 0;
  unsigned in_block_ = 0;        // threads at the barrier
  unsigned first_in_block_ = 0;  // the thread that came first
  unsigned exited_ = 0;
  std::string fault_;
  FiberContext outside_;
  StackPool stacks_;
  Picker picker_;
};

Block block;

void Block::begin_grid(const Grid& grid) {
  grid_ = &grid;
  const dim3& shape = grid.threads;
  count_ = shape.x * shape.y * shape.z;
  for (unsigned i = 0; i < count_; ++i)
    threads_[i].index = {i % shape.x, i / shape.x % shape.y, i / shape.x / shape.y};
  picker_.start(settings().threads, settings().thread_seed);
  position.threads = shape;
  position.blocks = grid.blocks;
}

void Block::run(const uint3& index) {
  position.block = index;
  in_block_ = exited_ = 0;
  ready_warps_ = 0;
  for (unsigned i = 0; i < count_; ++i) threads_[i].state = State::fresh;
  for (unsigned w = 0; w < count_ / kWarp; ++w) warps_[w].arrived = 0;
  wake_all();
  switch_fiber(outside_, resume(pick()));

  if (fault_.empty() && exited_ < count_) fault_ = stuck();
  if (fault_.empty()) return;
  // The fibers are given up where they are: a kernel owns nothing that would need its end.
  for (unsigned i = 0; i < count_; ++i) {
    const State state = threads_[i].state;
    if (state != State::fresh && state != State::exited) stacks_.give_back(threads_[i].stack);
  }
  const std::string reason = std::move(fault_);
  fault_.clear();
  fail(ErrorKind::internal, "block ", text(index), ": ", reason);
}

void Block::enter() {
  fiber_entered();
  block.live();
}

// A thread that ends hands its stack to one that has not begun, without a switch: in a kernel
// without barriers all threads run here like the turns of a loop.
void Block::live() {
  for (;;) {
    grid_->call(grid_->arguments);
    Thread& self = threads_[current_];
    self.state = State::exited;
    ++exited_;
    const unsigned next = pick();
    if (next != kNobody && threads_[next].state == State::fresh) {
      threads_[next].stack = self.stack;
      threads_[next].context = self.context;
      put_in_place(next);
      continue;
    }
    stacks_.give_back(self.stack);
    leave_fiber(resume(next));
  }
}

unsigned Block::pick() {
  if (ready_warps_ == 0) return kNobody;
  if (picker_.random() || !(ready_warps_ >> warp_ & 1)) warp_ = picker_.pick(ready_warps_);
  Warp& warp = warps_[warp_];
  const unsigned lane = picker_.pick(warp.ready);
  warp.ready &= ~(1u << lane);
  if (warp.ready == 0) ready_warps_ &= ~(1u << warp_);
  return warp_ * kWarp + lane;
}

void Block::put_in_place(unsigned next) {
  current_ = next;
  threads_[next].state = State::running;
  position.thread = threads_[next].index;
}

FiberContext& Block::resume(unsigned next) {
  if (next == kNobody) return outside_;
  Thread& thread = threads_[next];
  if (thread.state == State::fresh) {
    thread.stack = stacks_.take();
    thread.context = make_fiber(thread.stack, &Block::enter);
  }
  put_in_place(next);
  return thread.context;
}

void Block::wait() {
  const unsigned self = current_;
  const unsigned next = pick();
  if (next == self) {
    put_in_place(next);
  } else {
    switch_fiber(threads_[self].context, resume(next));
  }
}

void Block::wake_warp(unsigned w) {
  warps_[w].ready = ~0u;
  ready_warps_ |= 1u << w;
}

void Block::wake_all() {
  for (unsigned w = 0; w < count_ / kWarp; ++w) wake_warp(w);
  warp_ = picker_.pick(ready_warps_);
}

void Block::meet_block(const Where& where) {
  if (in_block_ == 0) {
    first_in_block_ = current_;
  } else {
    check_place(first_in_block_, where, "barrier divergence");
  }
  threads_[current_].state = State::in_block;
  threads_[current_].where = where;
  if (++in_block_ == count_) {
    in_block_ = 0;
    wake_all();
  }
  wait();
}

const std::uint64_t* Block::meet_warp(std::uint64_t word, const Where& where) {
  const unsigned w = current_ / kWarp;
  Warp& warp = warps_[w];
  if (warp.arrived == 0) {
    warp.first_arrived = current_;
  } else {
    check_place(warp.first_arrived, where, "divergence within a warp");
  }
  threads_[current_].state = State::in_warp;
  threads_[current_].where = where;
  // Two sets of words: a lane that is early for the next exchange leaves those of this one alone,
  // and cannot come to the one after it before all have read theirs.
  std::uint64_t* const words = warp.words[warp.turn];
  words[lane()] = word;
  if (++warp.arrived == kWarp) {
    warp.arrived = 0;
    warp.turn ^= 1;
    wake_warp(w);
  }
  wait();
  return words;
}

void Block::check_place(unsigned first, const Where& where, const char* what) {
  if (same(threads_[first].where, where)) return;
  fault(str(what, ": ", doing(first), ", ", name(current_), " came to ", text(where)));
}

void Block::fault(const std::string& reason) {
  fault_ = reason;
  leave_fiber(outside_);
}

std::string Block::name(unsigned thread) const {
  return "thread " + text(threads_[thread].index);
}

std::string Block::doing(unsigned thread) const {
  switch (threads_[thread].state) {
    case State::in_warp:
      return name(thread) + " waits for its warp at " + text(threads_[thread].where);
    case State::in_block:
      return name(thread) + " waits for its block at " + text(threads_[thread].where);
    case State::exited:
      return name(thread) + " has returned";
    case State::fresh:
    case State::running:
      break;
  }
  return name(thread) + " runs";
}

// Nobody can run, and not all have returned: two threads that do not wait for the same thing.
std::string Block::stuck() const {
  unsigned waiting = 0;
  while (threads_[waiting].state == State::exited) ++waiting;
  const bool warp_only = threads_[waiting].state == State::in_warp;
  const unsigned begin = warp_only ? waiting / kWarp * kWarp : 0;
  const unsigned end = warp_only ? begin + kWarp : count_;
  unsigned other = begin;
  while (other + 1 < end && threads_[other].state == threads_[waiting].state) ++other;
  return str(warp_only ? "a warp waits for lanes that never come: "
                       : "barrier divergence: the block waits for threads that never come: ",
             doing(waiting), ", ", doing(other));
}

// The blocks of a grid in their order.
std::vector<std::uint64_t> block_order(std::uint64_t count) {
  std::vector<std::uint64_t> order(count);
  for (std::uint64_t i = 0; i < count; ++i) order[i] = i;
  const Settings& chosen = settings();
  if (chosen.blocks == Order::reverse) {
    for (std::uint64_t i = 0; i < count; ++i) order[i] = count - 1 - i;
  } else if (chosen.blocks == Order::random) {
    Picker random;
    random.start(Order::random, chosen.block_seed);
    for (std::uint64_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.next() % i]);
  }
  return order;
}

}  // namespace

void run_grid(const Grid& grid) {
  begin_shared(grid.dynamic_bytes);
  block.begin_grid(grid);
  const dim3& shape = grid.blocks;
  for (const std::uint64_t i : block_order(std::uint64_t{1} * shape.x * shape.y * shape.z)) {
    poison_shared();
    block.run({static_cast<unsigned>(i % shape.x), static_cast<unsigned>(i / shape.x % shape.y),
               static_cast<unsigned>(i / shape.x / shape.y)});
  }
}

void meet_block(const Where& where) {
  block.meet_block(where);
}

const std::uint64_t* meet_warp(unsigned mask, std::uint64_t word, const Where& where) {
  if (mask != ~0u) kernel_fault("a mask that does not name all lanes of the warp", where);
  return block.meet_warp(word, where);
}

unsigned lane() {
  return block.lane();
}

void kernel_fault(const std::string& reason, const Where& where) {
  block.fault(str(reason, " (", text(where), ")"));
}

}  // namespace fathom::gpu::sim
