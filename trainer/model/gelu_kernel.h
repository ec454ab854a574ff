// GELU in its tanh approximation, as plain loops that the compiler vectorises. PyTorch's own kernel
// spends most of its time in a precise tanh; gelu(v) = v * sigmoid(2 k (v + c v^3)) needs one
// exponential and is at least as accurate. Hendrycks and Gimpel 2016, section 2.
#pragma once

#include <cstdint>

namespace muster::model {

// outputs[r][c] = gelu(inputs[r][c] + bias[c]), for `rows` rows of `width`.
void bias_gelu_forward(const float* inputs, const float* bias, float* outputs, std::int64_t rows,
                       std::int64_t width);

// gradients[r][c] = outer[r][c] * gelu'(inputs[r][c] + bias[c]).
void bias_gelu_backward(const float* inputs, const float* bias, const float* outer,
                        float* gradients, std::int64_t rows, std::int64_t width);

}  // namespace muster::model
