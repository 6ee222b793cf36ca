#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "core/tensor.h"
#include "generate/sampling.h"

namespace fathom::generate {

/// What decoding moves over the pipeline: hidden states from stage to stage, and the chosen tokens
/// from the last stage back to all others. A group of sequences has at most one step on its way, so
/// that no more than one message of each kind per group is in flight between two stages.
class StageLink {
 public:
  /// `pp` must outlive the link.
  StageLink(comm::Communicator& pp, int groups);

  bool is_first() const { return pp_.rank() == 0; }
  bool is_last() const { return pp_.rank() == pp_.size() - 1; }

  /// Hidden states [rows, hidden] of the group's step from the stage before; blocks.
  Tensor receive_hidden(int group, Device& device, std::int64_t rows, std::int64_t hidden);
  /// Starts sending them to the next stage.
  void send_hidden(int group, const Tensor& hidden);

  /// The weights of late layers that decide on the group's step, from the stage before, which sends
  /// them in front of the states whose number they settle; and to the next.
  std::vector<float> receive_weights(int group, std::size_t count);
  void send_weights(int group, std::vector<float> weights);

  /// On the last stage: starts sending the tokens of the group's step to all other stages.
  void send_choices(int group, std::vector<Choice> choices);
  /// The tokens of the group's step, `count` of them; blocks, except on the last stage.
  std::vector<Choice> take_choices(int group, std::size_t count);

 private:
  // Members are destroyed in reverse: the request ends before the memory goes.
  struct Group {
    Tensor hidden;
    std::unique_ptr<KernelScope> scope;
    comm::Request hidden_sent;
    std::vector<float> weights;
    comm::Request weights_sent;
    std::vector<Choice> choices;
    std::vector<comm::Request> choices_sent;
  };
  int hidden_tag(int group) const { return group; }
  int choices_tag(int group) const { return static_cast<int>(groups_.size()) + group; }
  int weights_tag(int group) const { return 2 * static_cast<int>(groups_.size()) + group; }
  Group& at(int group) { return groups_[static_cast<std::size_t>(group)]; }

  comm::Communicator& pp_;
  std::vector<Group> groups_;
};

}  // namespace fathom::generate
