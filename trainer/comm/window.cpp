#include "trainer/comm/window.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <new>

namespace muster::comm {
namespace {

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout,
                   nullptr, 0);
}

}  // namespace

Result<std::unique_ptr<Mapping>> Mapping::of(int fd, std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    return Error{Code::io, std::string("cannot map shared memory: ") + std::strerror(errno)};
  }
  return std::unique_ptr<Mapping>(new Mapping(static_cast<std::byte*>(memory), bytes));
}

Mapping::~Mapping() {
  ::munmap(data_, size_);
}

Result<std::unique_ptr<Window>> Window::create(int& fd) {
  fd = ::memfd_create("muster-window", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    return Error{Code::io, std::string("cannot make shared memory: ") + std::strerror(errno)};
  }
  MUSTER_TRY(mapping, Mapping::of(fd, bytes));
  new (mapping->data()) WindowPage();
  return std::unique_ptr<Window>(new Window(std::move(mapping)));
}

Result<std::unique_ptr<Window>> Window::open(int fd) {
  MUSTER_TRY(mapping, Mapping::of(fd, bytes));
  return std::unique_ptr<Window>(new Window(std::move(mapping)));
}

void Window::arrive(std::uint32_t count) {
  page().arrived.store(count);
  if (page().waiters.load() > 0) wake();
}

void Window::sleep(std::uint32_t seen, int milliseconds) {
  const timespec timeout{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  page().waiters.fetch_add(1);
  futex(page().arrived, FUTEX_WAIT, seen, &timeout);
  page().waiters.fetch_sub(1);
}

void Window::wake() {
  futex(page().arrived, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace muster::comm
