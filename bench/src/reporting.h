#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "comm/communicator.h"

namespace fathom::bench {

inline double sum_over_ranks(comm::Communicator& world, double value) {
  world.all_reduce(&value, 1, comm::ReduceOp::sum);
  return value;
}

/// Smallest and median of the seconds of some runs, and all of them.
inline nlohmann::json summary(const std::vector<double>& seconds) {
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const double median = (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  return {{"seconds", seconds}, {"min", sorted.front()}, {"median", median}};
}

/// True on every rank when rank 0 has read another line of standard input. The others look for its
/// word now and then, since a rank that waits inside MPI keeps its core busy. Collective.
inline bool asked_again(comm::Communicator& world) {
  constexpr int kTag = 1;
  char word = 'n';
  if (world.rank() == 0) {
    std::string line;
    if (std::getline(std::cin, line)) word = 'y';
    for (int rank = 1; rank < world.size(); ++rank) world.start_send(&word, 1, rank, kTag).wait();
  } else {
    comm::Request request = world.start_recv(&word, 1, 0, kTag);
    while (!request.test()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return word == 'y';
}

/// Prints one report as a line of JSON on rank 0, or with `serve` one for each line of standard
/// input, so that a driver can let several programs take turns. Collective.
inline void print_reports(comm::Communicator& world, bool serve,
                          const std::function<nlohmann::json()>& report) {
  while (!serve || asked_again(world)) {
    const nlohmann::json result = report();
    if (world.rank() == 0) std::cout << result.dump() << std::endl;
    if (!serve) return;
  }
}

}  // namespace fathom::bench
