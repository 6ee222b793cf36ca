#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "core/arena.h"
#include "core/device.h"
#include "core/error.h"

namespace fathom {
namespace {

std::size_t physical_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
}

class CpuDevice : public Device {
 public:
  explicit CpuDevice(std::size_t limit) : arena_(limit == 0 ? physical_memory() : limit) {}

  void* allocate(std::size_t bytes) override { return arena_.allocate(bytes); }
  void free(void* memory) noexcept override { arena_.free(memory); }

  bool owns(const void* memory) const noexcept override { return arena_.owns(memory); }

  void copy_from_host(void* device_memory, const void* host, std::size_t bytes) override {
    KernelScope scope(*this);
    if (bytes > 0) std::memcpy(device_memory, host, bytes);
  }
  void copy_to_host(void* host, const void* device_memory, std::size_t bytes) override {
    KernelScope scope(*this);
    if (bytes > 0) std::memcpy(host, device_memory, bytes);
  }

  void fill_zero(void* device_memory, std::size_t bytes) override {
    KernelScope scope(*this);
    if (bytes > 0) std::memset(device_memory, 0, bytes);
  }

  void open() noexcept override {}
  void close() noexcept override {}

  MemoryStats memory() const override { return arena_.stats(); }
  void reset_peak() override { arena_.reset_peak(); }

 protected:
  Arena arena_;
};

class GuardedDevice final : public CpuDevice {
 public:
  explicit GuardedDevice(std::size_t limit) : CpuDevice(limit) { protect(PROT_NONE); }
  ~GuardedDevice() override { protect(PROT_READ | PROT_WRITE); }

  void open() noexcept override {
    if (depth_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void close() noexcept override {
    if (--depth_ == 0) protect(PROT_NONE);
  }

 private:
  void protect(int access) noexcept { mprotect(arena_.base(), arena_.size(), access); }
  int depth_ = 0;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(std::size_t limit_bytes) {
  return std::make_unique<CpuDevice>(limit_bytes);
}

std::unique_ptr<Device> make_guarded_device(std::size_t limit_bytes) {
  return std::make_unique<GuardedDevice>(limit_bytes);
}

}  // namespace fathom
