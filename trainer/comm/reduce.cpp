#include "trainer/comm/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MUSTER_ANY_VECTOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MUSTER_ANY_VECTOR
#endif

namespace muster::comm {
namespace {

constexpr std::size_t block = 1024;  // elements: the partial sums stay in the first-level cache

MUSTER_ANY_VECTOR void add_f32(float* sum, const float* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += x[i];
}

MUSTER_ANY_VECTOR void add_i64(std::uint64_t* sum, const std::uint64_t* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += x[i];  // unsigned: wraps
}

MUSTER_ANY_VECTOR void add_bf16(float* sum, const std::uint16_t* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    sum[i] += std::bit_cast<float>(static_cast<std::uint32_t>(x[i]) << 16);
  }
}

MUSTER_ANY_VECTOR void round_bf16(std::uint16_t* out, const float* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(x[i]);
    const auto rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;
    out[i] = static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40 : rounded);
  }
}

template <class T>
const T* at(const void* base, std::size_t i) {
  return static_cast<const T*>(base) + i;
}

// The sum of elements [i, i + n) as bytes of the dtype.
void sum_block(std::span<const void* const> inputs, std::size_t i, std::size_t n, DType dtype,
               std::byte* result) {
  if (dtype == DType::i64) {
    std::uint64_t sum[block];
    std::copy_n(at<std::uint64_t>(inputs[0], i), n, sum);
    for (const void* x : inputs.subspan(1)) add_i64(sum, at<std::uint64_t>(x, i), n);
    std::memcpy(result, sum, n * 8);
    return;
  }
  float sum[block];
  if (dtype == DType::f32) {
    std::copy_n(at<float>(inputs[0], i), n, sum);
    for (const void* x : inputs.subspan(1)) add_f32(sum, at<float>(x, i), n);
    std::memcpy(result, sum, n * 4);
    return;
  }
  const auto* first = at<std::uint16_t>(inputs[0], i);
  for (std::size_t k = 0; k < n; ++k) {
    sum[k] = std::bit_cast<float>(static_cast<std::uint32_t>(first[k]) << 16);
  }
  for (const void* x : inputs.subspan(1)) add_bf16(sum, at<std::uint16_t>(x, i), n);
  round_bf16(reinterpret_cast<std::uint16_t*>(result), sum, n);
}

}  // namespace

void add_in_order_to_all(std::span<const void* const> inputs, std::span<void* const> outputs,
                         std::size_t count, DType dtype) {
  alignas(64) std::byte result[block * 8];
  const auto width = size_of(dtype);
  for (std::size_t i = 0; i < count; i += block) {
    const auto n = std::min(block, count - i);
    sum_block(inputs, i, n, dtype, result);
    for (void* out : outputs) {
      std::memcpy(static_cast<std::byte*>(out) + i * width, result, n * width);
    }
  }
}

void add_in_order(std::span<const void* const> inputs, void* out, std::size_t count, DType dtype) {
  add_in_order_to_all(inputs, std::span<void* const>(&out, 1), count, dtype);
}

}  // namespace muster::comm
