#pragma once

#include <list>

#include "comm/communicator.h"

namespace fathom::comm {

/// Proves, where FATHOM_CHECK_MESSAGES=1 asks for it, that messages which are matched by their
/// order are the ones that their receivers expect: what each should be goes ahead of it through the
/// host. The host then blocks in each receive until it has been sent.
class MessageOrder {
 public:
  /// `host` must outlive it.
  explicit MessageOrder(Communicator& host);

  void sending(int peer, int tag, std::size_t bytes);
  /// Throws Error(comm) with both messages unless the peer's next one has this tag and size.
  void receiving(int peer, int tag, std::size_t bytes);

 private:
  struct Notice {
    std::int64_t tag = 0;
    std::uint64_t bytes = 0;
    bool operator==(const Notice&) const = default;
  };
  struct Sent {
    Notice notice;
    Request request;
  };

  Communicator& host_;
  bool asked_;
  std::list<Sent> sent_;  // not yet taken
};

}  // namespace fathom::comm
