// Whole files: read with a clear error, written so that nobody ever sees half of one.
// `where` is the tag of the error, "[where] path: ...".
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace backbeat {

int64_t file_size(const char* where, const std::string& path);  // Error unless `path` is a regular file
std::vector<uint8_t> read_file(const char* where, const std::string& path);

// Writes the pieces one after another to a temporary file beside `path`, flushes it to the disk and renames it. After a
// kill at any moment, `path` is the old file or the whole new one. A pipe or a device such as /dev/stdout is written
// directly. Error when the path cannot be written at all, RunError when the writing fails (a full disk).
void write_file_atomically(const char* where, const std::string& path,
                           const std::vector<std::span<const std::byte>>& pieces);
void write_file_atomically(const char* where, const std::string& path, std::string_view text);

}  // namespace backbeat
