#include "engine/io/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "engine/error.hpp"

namespace backbeat {

namespace {

namespace fs = std::filesystem;
using Pieces = std::vector<std::span<const std::byte>>;

std::string reason(int error) { return std::generic_category().message(error); }

// A path that cannot be written is a wrong request; a write that breaks off is a failed run.
[[noreturn]] void fail_writing(const char* where, const std::string& path, int error) {
  const std::string text = concat('[', where, "] ", path, ": cannot write: ", reason(error));
  for (int request : {ENOENT, ENOTDIR, EISDIR, EACCES, EPERM, EROFS, ENAMETOOLONG, ELOOP})
    if (error == request) throw Error(text);
  throw RunError(text);
}

class OpenFile {
 public:
  explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

int write_all(int descriptor, const Pieces& pieces) {  // 0, or the error
  for (std::span<const std::byte> piece : pieces) {
    while (!piece.empty()) {
      const ssize_t written = ::write(descriptor, piece.data(), piece.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return written < 0 ? errno : EIO;
      piece = piece.subspan(static_cast<size_t>(written));
    }
  }
  return 0;
}

int sync(int descriptor) {  // 0, or the error
  while (::fsync(descriptor) != 0) {
    if (errno == EINVAL) return 0;  // a file system that has nothing to flush
    if (errno != EINTR) return errno;
  }
  return 0;
}

void write_device(const char* where, const std::string& path, const Pieces& pieces) {
  const OpenFile file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.descriptor() < 0) fail_writing(where, path, errno);
  if (const int error = write_all(file.descriptor(), pieces)) fail_writing(where, path, error);
}

// A name of its own for every writer; one left behind by a killed process of the same number is stepped over.
int open_temporary(const fs::path& folder, fs::path& temporary) {
  static std::atomic<int64_t> counter{0};
  for (;;) {
    temporary = folder / concat(".backbeat-", ::getpid(), '-', counter++, ".partial");
    const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
}

}  // namespace

int64_t file_size(const char* where, const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail(where, path, ": cannot read: ", reason(errno));
  if (!S_ISREG(status.st_mode))
    fail(where, path, ": expected a file, got a ", S_ISDIR(status.st_mode) ? "directory" : "pipe or device");
  return status.st_size;
}

std::vector<uint8_t> read_file(const char* where, const std::string& path) {
  const int64_t size = file_size(where, path);
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(where, path, ": cannot read: ", reason(errno));
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  in.read(reinterpret_cast<char*>(bytes.data()), size);
  if (in.gcount() != size) fail(where, path, ": expected ", size, " bytes, got ", in.gcount());
  return bytes;
}

void write_file_atomically(const char* where, const std::string& path, const Pieces& pieces) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail_writing(where, path, EISDIR);
  if (exists && !S_ISREG(status.st_mode)) return write_device(where, path, pieces);

  // Through a symbolic link to the file that it names, which the rename would otherwise replace.
  std::error_code unresolved;
  fs::path target = exists ? fs::canonical(path, unresolved) : fs::path(path);
  if (unresolved) fail_writing(where, path, unresolved.value());
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");

  fs::path temporary;
  const OpenFile file(open_temporary(folder, temporary));
  if (file.descriptor() < 0) fail_writing(where, path, errno);
  int error = write_all(file.descriptor(), pieces);
  if (!error) error = sync(file.descriptor());
  if (!error && ::rename(temporary.c_str(), target.c_str()) != 0) error = errno;
  if (error) {
    ::unlink(temporary.c_str());
    fail_writing(where, path, error);
  }
  const OpenFile parent(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.descriptor() >= 0) error = sync(parent.descriptor());
  if (error) fail_writing(where, path, error);
}

void write_file_atomically(const char* where, const std::string& path, std::string_view text) {
  write_file_atomically(where, path, Pieces{std::as_bytes(std::span(text.data(), text.size()))});
}

}  // namespace backbeat
