#include "gpu/collective_lane.h"

namespace fathom::gpu {

class CollectiveLane::Transfer final : public DeviceCollectives::Transfer {
 public:
  Transfer(std::shared_ptr<EventPool> pool, cudaStream_t stream, cudaStream_t compute)
      : pool_(std::move(pool)), done_(pool_->take()), compute_(compute) {
    FATHOM_CUDA(cudaEventRecord(done_.get(), stream));
  }
  ~Transfer() override { pool_->give(std::move(done_)); }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  void wait() override { FATHOM_CUDA(cudaStreamWaitEvent(compute_, done_.get(), 0)); }

  bool test() override {
    const cudaError_t status = cudaEventQuery(done_.get());
    if (status == cudaErrorNotReady) return false;
    FATHOM_CUDA(status);
    return true;
  }

 private:
  std::shared_ptr<EventPool> pool_;
  Event done_;
  cudaStream_t compute_;
};

CollectiveLane::CollectiveLane(std::unique_ptr<NcclCommunicator> comm, cudaStream_t compute)
    : compute_(compute),
      stream_(make_urgent_stream()),
      begin_(make_event()),
      end_(make_event()),
      comm_(std::move(comm)) {}

void CollectiveLane::fork() {
  FATHOM_CUDA(cudaEventRecord(begin_.get(), compute_));
  FATHOM_CUDA(cudaStreamWaitEvent(stream_.get(), begin_.get(), 0));
}

// Operations of one communicator never run at the same time.
void CollectiveLane::join() {
  if (joined_) return;
  FATHOM_CUDA(cudaStreamWaitEvent(compute_, end_.get(), 0));
  joined_ = true;
}

std::unique_ptr<DeviceCollectives::Transfer> CollectiveLane::make_transfer() {
  FATHOM_CUDA(cudaEventRecord(end_.get(), stream_.get()));
  joined_ = false;
  return std::make_unique<Transfer>(events_, stream_.get(), compute_);
}

}  // namespace fathom::gpu
