#pragma once

#include <filesystem>
#include <hdf5.h>
#include <mutex>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/h5.h"

/// What the parts of core/h5 share. Nobody else includes this.
namespace fathom::h5::detail {

/// Prepares the library on first use and holds the process-wide lock while alive.
class Session {
 public:
  Session();

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

/// The library's error stack as one line, innermost cause first; empties the stack.
std::string take_error_stack();

/// Throws Error(io): "HDF5 cannot <what> [dataset '<name>' in] file '<path>': <stack>".
[[noreturn]] void fail_h5(const char* what, const std::filesystem::path& path,
                          const std::string& name);

/// Passes a result on, or throws if it is negative.
template <typename Result>
Result check(Result result, const char* what, const std::filesystem::path& path,
             const std::string& name = {}) {
  if (result < 0) fail_h5(what, path, name);
  return result;
}

/// An identifier that closes itself. Writers call close() to see the error.
class Handle {
 public:
  using Closer = herr_t (*)(hid_t);
  Handle(hid_t id, Closer closer) : id_(id), closer_(closer) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), closer_(other.closer_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0) closer_(id_);
  }
  hid_t get() const { return id_; }
  void close(const char* what, const std::filesystem::path& path, const std::string& name) {
    const hid_t id = id_;
    id_ = -1;
    check(closer_(id), what, path, name);
  }

 private:
  hid_t id_;
  Closer closer_;
};

/// The file's (and memory's) type for an element type: little endian, as on every machine we run
/// on.
Handle make_type(Type type);
/// The element type that a stored type stands for; Error(data) if there is none.
Type classify(hid_t stored, const std::filesystem::path& path, const std::string& name);

Handle make_space(const Shape& shape, const std::filesystem::path& path, const std::string& name);
Handle open_dataset(hid_t file, const std::filesystem::path& path, const std::string& name);
Shape shape_of(hid_t dataset, const std::filesystem::path& path, const std::string& name);

}  // namespace fathom::h5::detail
