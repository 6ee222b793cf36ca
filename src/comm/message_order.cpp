#include "comm/message_order.h"

#include <cstdlib>
#include <string_view>

#include "core/error.h"

namespace fathom::comm {
namespace {

constexpr int kNoticeTag = 1 << 20;  // beyond those of pipelines and decoding

bool asked_for() {
  const char* value = std::getenv("FATHOM_CHECK_MESSAGES");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

MessageOrder::MessageOrder(Communicator& host) : host_(host), asked_(asked_for()) {}

void MessageOrder::sending(int peer, int tag, std::size_t bytes) {
  if (!asked_) return;
  std::erase_if(sent_, [](Sent& sent) { return sent.request.test(); });
  Sent& sent = sent_.emplace_back();
  sent.notice = {tag, bytes};
  sent.request = host_.start_send(&sent.notice, sizeof sent.notice, peer, kNoticeTag);
}

void MessageOrder::receiving(int peer, int tag, std::size_t bytes) {
  if (!asked_) return;
  Notice sent;
  host_.start_recv(&sent, sizeof sent, peer, kNoticeTag).wait();
  require(sent == Notice{tag, bytes}, ErrorKind::comm, "rank ", host_.rank(),
          " of its group expects a message with tag ", tag, " of ", bytes, " bytes from rank ",
          peer, ", but the next one has tag ", sent.tag, " and ", sent.bytes,
          " bytes: messages between devices are taken in the order in which they were sent");
}

}  // namespace fathom::comm
