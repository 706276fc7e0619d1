#include "hw/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

namespace tw {
namespace {

tl::unexpected<Error> io_error(const std::string& path, const std::string& what, std::string hint = {}) {
  return fail(ErrorKind::io, fmt::format("\"{}\": {}: {}", path, what, std::strerror(errno)), {{"file", path}},
              std::move(hint));
}

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Status read_exactly(int fd, const std::string& path, std::uint64_t offset, std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error(path, "cannot read");
    if (got == 0)
      return fail(ErrorKind::io,
                  fmt::format("\"{}\" ends after {} bytes; {} bytes at offset {} are needed", path, offset + done,
                              out.size(), offset),
                  {{"file", path}}, "the file is truncated; fetch or write it again");
    done += static_cast<std::size_t>(got);
  }
  return {};
}

}  // namespace

Result<std::vector<std::byte>> read_file(const std::string& path, std::uint64_t limit_bytes) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return io_error(path, "cannot open");
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return io_error(path, "cannot stat");
  if (!S_ISREG(info.st_mode))
    return fail(ErrorKind::io, fmt::format("\"{}\" is not a regular file", path), {{"file", path}});
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > limit_bytes)
    return fail(ErrorKind::io, fmt::format("\"{}\" has {} bytes; at most {} are read", path, size, limit_bytes),
                {{"file", path}});
  std::vector<std::byte> bytes(size);
  TW_TRY_STATUS(read_exactly(fd.get(), path, 0, bytes));
  return bytes;
}

Result<std::string> read_text_file(const std::string& path, std::uint64_t limit_bytes) {
  TW_TRY(const std::vector<std::byte> bytes, read_file(path, limit_bytes));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Status read_file_range(const std::string& path, std::uint64_t offset, std::span<std::byte> out) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return io_error(path, "cannot open");
  return read_exactly(fd.get(), path, offset, out);
}

Status write_file(const std::string& path, const std::function<Status(const ByteSink&)>& produce) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    // A device or a pipe cannot be replaced by rename: write through.
    const Descriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (fd.get() < 0) return io_error(path, "cannot open for writing");
    return produce([&](std::span<const std::byte> bytes) -> Status {
      for (std::size_t done = 0; done < bytes.size();) {
        const ssize_t put = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return io_error(path, "cannot write");
        done += static_cast<std::size_t>(put);
      }
      return {};
    });
  }
  std::string temporary = path + ".XXXXXX";
  const Descriptor fd(::mkstemp(temporary.data()));
  if (fd.get() < 0)
    return io_error(path, "cannot create a file in its folder", "check that the folder exists and is writable");
  Status status = produce([&](std::span<const std::byte> bytes) -> Status {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t put = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return io_error(path, "cannot write", "free some disk space and try again");
      done += static_cast<std::size_t>(put);
    }
    return {};
  });
  if (status) {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(fd.get(), 0666 & ~mask) != 0 || ::fsync(fd.get()) != 0) status = io_error(path, "cannot flush");
  }
  if (status && ::rename(temporary.c_str(), path.c_str()) != 0) status = io_error(path, "cannot rename into place");
  if (!status) ::unlink(temporary.c_str());
  return status;
}

Status write_file(const std::string& path, std::span<const std::byte> bytes) {
  return write_file(path, [&](const ByteSink& sink) { return sink(bytes); });
}

Status write_file(const std::string& path, const std::string& text) {
  return write_file(path, std::as_bytes(std::span(text)));
}

}  // namespace tw
