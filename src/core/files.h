#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace fathom::files {

/// Makes a write beyond the process's file-size limit fail with EFBIG instead of killing the
/// process. Idempotent; a handler that somebody installed stays.
void ignore_file_size_signal();

/// Forces a file's content to the disk. Throws Error(io) with path and errno.
void sync_file(const std::filesystem::path& path);

/// Forces the entries of a directory to the disk, so that a rename in it survives a power cut.
void sync_directory(const std::filesystem::path& path);

/// Renames, replacing an existing file; both must lie on one file system. Throws Error(io).
void rename_file(const std::filesystem::path& from, const std::filesystem::path& to);

/// Swaps the names of two files or directories in one step. False, with nothing changed, where the
/// file system cannot do that; throws Error(io) for any other failure.
bool exchange_files(const std::filesystem::path& a, const std::filesystem::path& b);

/// Whole content of a file. Throws Error(io) if it cannot be opened or read to its end.
std::string read_text(const std::filesystem::path& path);

/// Replaces `path` by `text` in one step: a reader, or a crash, sees the old file or the new one
/// and never a part. Writes `path`.tmp, syncs, renames, syncs the directory.
void write_text_atomically(const std::filesystem::path& path, std::string_view text);

/// Throws Error(io) unless a file could be written at `path` now, so that what cannot be kept is
/// known before the work for it. Leaves everything as it was.
void check_writable(const std::filesystem::path& path);

/// Writes all bytes to a file descriptor; `path` is for the message. Throws Error(io) with errno
/// and the number of bytes wanted.
void write_fully(int fd, const void* data, std::size_t bytes, const std::filesystem::path& path);

}  // namespace fathom::files
