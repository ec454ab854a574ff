// A rank's page of shared words and its staging memory, for one generation on one machine.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/result.h"

namespace muster::comm {

inline constexpr std::size_t staging_bytes = 1 << 20;
inline constexpr std::uint64_t staged = ~std::uint64_t{0};

// Lives in shared memory; written by its owner, read by all.
struct alignas(64) WindowPage {
  std::atomic<std::uint32_t> arrived{0};             // barriers that the owner has reached; a futex
  std::atomic<std::uint32_t> waiters{0};             // ranks that sleep on `arrived`
  std::atomic<std::uint32_t> broken{0};              // the owner has failed or aborted
  alignas(64) std::atomic<std::uint64_t> offset{0};  // of its buffer in its arena, or `staged`
  std::atomic<std::uint64_t> bytes{0};               // of its buffer: all ranks must agree
};

// Memory of a file descriptor, mapped.
class Mapping {
 public:
  static Result<std::unique_ptr<Mapping>> of(int fd, std::size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  Mapping(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  std::byte* data_;
  std::size_t size_;
};

class Window {
 public:
  static constexpr std::size_t bytes = sizeof(WindowPage) + staging_bytes;
  // The own one: a new memfd, whose descriptor the caller sends to the peers and closes.
  static Result<std::unique_ptr<Window>> create(int& fd);
  // A peer's.
  static Result<std::unique_ptr<Window>> open(int fd);

  WindowPage& page() const { return *reinterpret_cast<WindowPage*>(mapping_->data()); }
  std::byte* staging() const { return mapping_->data() + sizeof(WindowPage); }

  void arrive(std::uint32_t count);  // publishes and wakes who sleeps
  void sleep(std::uint32_t seen,
             int milliseconds);  // until arrived != seen, a wake-up, or the time
  void wake();

 private:
  explicit Window(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}
  std::unique_ptr<Mapping> mapping_;
};

}  // namespace muster::comm
