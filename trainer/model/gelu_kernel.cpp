#include "trainer/model/gelu_kernel.h"

#include <bit>

#define MUSTER_INLINE inline __attribute__((always_inline))

namespace muster::model {
namespace {

constexpr float kScale = 1.5957691216057308F;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715F;

// exp(x) to 1-2 units in the last place (Cephes' polynomial), clamped to |x| <= 60: what follows
// stays clear of denormal numbers, on which the CPU is a hundred times slower.
MUSTER_INLINE float exponential(float x) {
  x = x < -60.0F ? -60.0F : x;
  x = x > 60.0F ? 60.0F : x;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = x * 1.44269504088896341F + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const auto exponent = (std::bit_cast<std::int32_t>(shifted) - 0x4B400000 + 127) << 23;
  return p * std::bit_cast<float>(exponent);
}

MUSTER_INLINE float gate(float v) {
  const float x = -kScale * v * (1.0F + kCubic * v * v);
  const float s = 1.0F / (1.0F + exponential(x));
  return x > 60.0F ? 0.0F : s;
}

MUSTER_INLINE void forward(const float* inputs, const float* bias, float* __restrict outputs,
                           std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) {
#pragma GCC ivdep
    for (std::int64_t c = 0; c < width; ++c) {
      const float v = inputs[r * width + c] + bias[c];
      outputs[r * width + c] = v * gate(v);
    }
  }
}

MUSTER_INLINE void backward(const float* inputs, const float* bias, const float* outer,
                            float* __restrict gradients, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) {
#pragma GCC ivdep
    for (std::int64_t c = 0; c < width; ++c) {
      const float v = inputs[r * width + c] + bias[c];
      const float s = gate(v);
      const float slope = kScale * (1.0F + 3.0F * kCubic * v * v);
      gradients[r * width + c] = outer[r * width + c] * (s + v * s * (1.0F - s) * slope);
    }
  }
}

// The same bodies for each instruction set. GCC's target_clones would do for forward and backward
// what is written out here, but chooses `arch=` clones by the CPU's exact model.
#if defined(__x86_64__)
#define MUSTER_AVX2 __attribute__((target("avx2,fma")))
#define MUSTER_AVX512 __attribute__((target("avx512f,avx512dq,avx2,fma,prefer-vector-width=512")))
#else
#define MUSTER_AVX2
#define MUSTER_AVX512
#endif

MUSTER_AVX2 void forward_avx2(const float* x, const float* b, float* y, std::int64_t n,
                              std::int64_t w) {
  forward(x, b, y, n, w);
}
MUSTER_AVX512 void forward_avx512(const float* x, const float* b, float* y, std::int64_t n,
                                  std::int64_t w) {
  forward(x, b, y, n, w);
}
MUSTER_AVX2 void backward_avx2(const float* x, const float* b, const float* o, float* g,
                               std::int64_t n, std::int64_t w) {
  backward(x, b, o, g, n, w);
}
MUSTER_AVX512 void backward_avx512(const float* x, const float* b, const float* o, float* g,
                                   std::int64_t n, std::int64_t w) {
  backward(x, b, o, g, n, w);
}

enum class Vectors { baseline, avx2, avx512 };

Vectors vectors() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
    return Vectors::avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Vectors::avx2;
#endif
  return Vectors::baseline;
}

}  // namespace

void bias_gelu_forward(const float* inputs, const float* bias, float* outputs, std::int64_t rows,
                       std::int64_t width) {
  static const Vectors kVectors = vectors();
  if (kVectors == Vectors::avx512) return forward_avx512(inputs, bias, outputs, rows, width);
  if (kVectors == Vectors::avx2) return forward_avx2(inputs, bias, outputs, rows, width);
  forward(inputs, bias, outputs, rows, width);
}

void bias_gelu_backward(const float* inputs, const float* bias, const float* outer,
                        float* gradients, std::int64_t rows, std::int64_t width) {
  static const Vectors kVectors = vectors();
  if (kVectors == Vectors::avx512) {
    return backward_avx512(inputs, bias, outer, gradients, rows, width);
  }
  if (kVectors == Vectors::avx2) {
    return backward_avx2(inputs, bias, outer, gradients, rows, width);
  }
  backward(inputs, bias, outer, gradients, rows, width);
}

}  // namespace muster::model
