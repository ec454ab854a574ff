#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trainer/comm/communicator.h"

namespace muster::comm {

Result<std::shared_ptr<Arena>> Arena::create(std::size_t bytes) {
  constexpr std::size_t page = 2 << 20;
  auto arena = std::shared_ptr<Arena>(new Arena());
  arena->size_ = (bytes + page - 1) / page * page;
  arena->fd_ = ::memfd_create("muster-arena", MFD_CLOEXEC);
  if (arena->fd_ < 0 || ::ftruncate(arena->fd_, static_cast<off_t>(arena->size_)) != 0) {
    return Error{Code::io, "cannot make " + std::to_string(arena->size_) +
                               " bytes of shared memory: " + std::strerror(errno)};
  }
  void* memory = ::mmap(nullptr, arena->size_, PROT_READ | PROT_WRITE, MAP_SHARED, arena->fd_, 0);
  if (memory == MAP_FAILED) {
    return Error{Code::io, std::string("cannot map shared memory: ") + std::strerror(errno)};
  }
  arena->data_ = static_cast<std::byte*>(memory);
  ::madvise(memory, arena->size_, MADV_HUGEPAGE);
  return arena;
}

Arena::~Arena() {
  if (data_ != nullptr) ::munmap(data_, size_);
  if (fd_ >= 0) ::close(fd_);
}

Result<void*> Arena::allocate(std::size_t bytes) {
  const auto rounded = (bytes + 63) / 64 * 64;
  if (rounded < bytes || rounded > size_ - used_) {
    return Error{Code::internal, "the arena of " + std::to_string(size_) + " bytes is full"};
  }
  void* memory = data_ + used_;
  used_ += rounded;
  return memory;
}

bool Arena::contains(const void* p, std::size_t bytes) const {
  const auto* at = static_cast<const std::byte*>(p);
  return at >= data_ && at <= data_ + size_ &&
         bytes <= static_cast<std::size_t>(data_ + size_ - at);
}

}  // namespace muster::comm
