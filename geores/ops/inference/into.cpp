#include "geores/ops/inference/into.h"

#include <algorithm>
#include <cmath>

#include "geores/kernels/attention/attention.h"
#include "geores/kernels/dense/linear.h"
#include "geores/kernels/pooled/operators.h"
#include "geores/kernels/sizes.h"
#include "geores/kernels/streams/streams.h"
#include "geores/ops/dense/kernel_norm.h"
#include "geores/ops/run/dispatch.h"

namespace geores::into {

using fused::for_type_of;
using fused::values;

void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& out) {
  for_type_of(x, [&]<class T>(T) {
    kernels::linear_forward(values<T>(x), values<T>(weight), values<T>(bias), values<T>(out),
                            x.size(0), x.size(1), weight.size(0));
  });
}

void perceptron(const Tensor& x, const Tensor& up, const Tensor& down, Tensor& out) {
  for_type_of(x, [&]<class T>(T) {
    kernels::perceptron_forward<T>(
        values<T>(x), values<T>(up), values<T>(down), nullptr, values<T>(out),
        {.rows = x.size(0), .in = x.size(1), .hidden = up.size(0), .out = down.size(0)});
  });
}

void gelu(Tensor& x) {
  for_type_of(x, [&]<class T>(T) { kernels::gelu_forward(values<T>(x), values<T>(x), x.numel()); });
}

void layer_norm(const Tensor& x, const Tensor& weight, Tensor& out) {
  for_type_of(x, [&]<class T>(T) {
    kernels::norm_forward<T>(values<T>(x), {.weight = values<T>(weight)}, values<T>(out), nullptr,
                             x.numel() / weight.numel(), weight.numel());
  });
}

void normalize(const Tensor& x, int64_t width, const NormSpec& norm, Tensor& out) {
  for_type_of(x, [&]<class T>(T) {
    kernels::norm_forward<T>(values<T>(x),
                             fused::state_norm<T>(norm.layer, Tensor(), Tensor(), norm.epsilon),
                             values<T>(out), nullptr, x.numel() / width, width);
  });
}

void add(Tensor& x, const Tensor& y, double factor) {
  for_type_of(x, [&]<class T>(T) {
    T* to = values<T>(x);
    const T* from = values<T>(y);
    const auto by = static_cast<T>(factor);
    for (int64_t i = 0; i < x.numel(); ++i) to[i] += by * from[i];
  });
}

void add_product(Tensor& x, const Tensor& y) {
  for_type_of(x, [&]<class T>(T) {
    T* to = values<T>(x);
    const T* factor = values<T>(y);
    for (int64_t i = 0; i < x.numel(); ++i) to[i] += to[i] * factor[i];
  });
}

void copy(const Tensor& from, Tensor& to) {
  for_type_of(from, [&]<class T>(T) { std::copy_n(values<T>(from), from.numel(), values<T>(to)); });
}

void running_mean(const Tensor& x, int64_t count, Tensor& sum, Tensor& mean) {
  add(sum, x);
  for_type_of(x, [&]<class T>(T) {
    const T* from = values<T>(sum);
    T* to = values<T>(mean);
    for (int64_t i = 0; i < x.numel(); ++i) to[i] = from[i] / T(count);
  });
}

bool has_hybrid_operator(int64_t n) { return kernels::is_compiled_size(n); }

void hybrid_operator(const Tensor& raw, const Tensor& logit, Tensor& g_operator) {
  for_type_of(raw, [&]<class T>(T) {
    kernels::hybrid_from_raw(values<T>(raw), values<T>(logit), values<T>(g_operator), raw.size(0),
                             g_operator.size(-1));
  });
}

void mix_and_norm(const Tensor& m, const Tensor& x, const Tensor& weight, Tensor& mixed,
                  Tensor& out) {
  const auto n = m.size(-1);
  for_type_of(x, [&]<class T>(T) {
    kernels::mix_norm_forward<T>(values<T>(m), values<T>(x), {.weight = values<T>(weight)},
                                 values<T>(mixed), values<T>(out), nullptr, x.size(0),
                                 {.tokens = x.size(0), .n = n, .d = x.size(1) / n});
  });
}

void collect_and_norm(const Tensor& read, const Tensor& x, const Tensor& weight, Tensor& out) {
  const auto n = read.size(1), d = x.size(1) / n;
  for_type_of(x, [&]<class T>(T) {
    kernels::collect_norm_forward<T>(values<T>(read), values<T>(x), {.weight = values<T>(weight)},
                                     weight.numel() / d, values<T>(out), nullptr,
                                     {.tokens = x.size(0), .n = n, .d = d});
  });
}

void mix_and_write(const Tensor& res, const Tensor& x, const Tensor& write, const Tensor& y,
                   Tensor& out) {
  const auto n = write.size(1);
  const auto kind = y.size(1) == x.size(1) ? kernels::Branch::per_stream : kernels::Branch::shared;
  for_type_of(x, [&]<class T>(T) {
    kernels::mix_write_forward<T>(values<T>(res), values<T>(x), values<T>(write), values<T>(y),
                                  kind, values<T>(out),
                                  {.tokens = x.size(0), .n = n, .d = x.size(1) / n});
  });
}

void gate(const Tensor& logits, Tensor& v) {
  for_type_of(v, [&]<class T>(T) {
    const T* logit = values<T>(logits);
    T* to = values<T>(v);
    for (int64_t i = 0; i < v.numel(); ++i) to[i] /= 1 + std::exp(-logit[i]);
  });
}

void delta_update(const Tensor& raw, const Tensor& v, double alpha, double scale, double offset,
                  Tensor& x) {
  for_type_of(x, [&]<class T>(T) {
    const T *logit = values<T>(raw), *from = values<T>(v);
    T* to = values<T>(x);
    for (int64_t i = 0; i < x.numel(); ++i) {
      const T beta = T(scale) * std::tanh(logit[i]) + T(offset);
      to[i] += beta * (from[i] - T(alpha) * to[i]);
    }
  });
}

void collect(const Tensor& read, const Tensor& x, Tensor& c) {
  const auto n = read.numel(), d = c.size(1);
  for_type_of(x, [&]<class T>(T) {
    for (int64_t b = 0; b < x.size(0); ++b)
      kernels::collect_forward<T>(values<T>(read), values<T>(x) + b * n * d, values<T>(c) + b * d,
                                  {.tokens = 1, .n = n, .d = d});
  });
}

void delta_write(const Tensor& raw, const Tensor& y, Tensor& x) {
  const auto n = raw.size(1) - 1, d = y.size(1);
  for_type_of(x, [&]<class T>(T) {
    const T *logit = values<T>(raw), *direction = values<T>(y);
    T* stream = values<T>(x);
    for (int64_t b = 0; b < x.size(0); ++b, logit += 1 + n, direction += d) {
      T square = 0;
      for (int64_t i = 0; i < d; ++i) square += direction[i] * direction[i];
      const T inverse = 1 / std::max(std::sqrt(square), T(1e-12));
      const T beta = 2 / (1 + std::exp(-logit[0]));
      for (int64_t j = 0; j < n; ++j, stream += d) {
        T along = 0;
        for (int64_t i = 0; i < d; ++i) along += direction[i] * stream[i];
        const T factor = beta * (logit[1 + j] - along * inverse) * inverse;
        for (int64_t i = 0; i < d; ++i) stream[i] += factor * direction[i];
      }
    }
  });
}

void repeat(const Tensor& from, Tensor& to) {
  const auto d = from.size(1);
  for_type_of(from, [&]<class T>(T) {
    T* row = values<T>(to);
    for (int64_t b = 0; b < to.size(0); ++b)
      for (int64_t i = 0; i < to.size(1) / d; ++i, row += d)
        std::copy_n(values<T>(from) + b * d, d, row);
  });
}

void sum_streams(const Tensor& from, Tensor& to) {
  const auto d = to.size(1);
  for_type_of(from, [&]<class T>(T) {
    const T* row = values<T>(from);
    for (int64_t b = 0; b < from.size(0); ++b) {
      T* sum = values<T>(to) + b * d;
      std::copy_n(row, d, sum);
      row += d;
      for (int64_t i = 1; i < from.size(1) / d; ++i, row += d)
        for (int64_t k = 0; k < d; ++k) sum[k] += row[k];
    }
  });
}

void stream_entropy(const Tensor& x, int64_t n, Tensor& out) {
  for_type_of(x, [&]<class T>(T) {
    kernels::stream_entropy_forward<T>(values<T>(x), values<T>(out),
                                       {.tokens = x.size(0), .n = n, .d = x.size(1) / n});
  });
}

void attend_next(const Tensor& qkv, int64_t length, Tensor& keys, Tensor& cached_values,
                 Tensor& out) {
  const auto batch = keys.size(0), heads = keys.size(1), capacity = keys.size(2), d = keys.size(3);
  for_type_of(qkv, [&]<class T>(T) {
    const T* from = values<T>(qkv);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h) {
        const auto offset = ((b * heads + h) * capacity + length) * d;
        const T* key = from + (b * 3 + 1) * heads * d + h * d;
        std::copy_n(key, d, values<T>(keys) + offset);
        std::copy_n(key + heads * d, d, values<T>(cached_values) + offset);
      }
    kernels::attend_one<T>(from, 3 * heads * d, values<T>(keys), values<T>(cached_values),
                           values<T>(out), capacity, length + 1,
                           {.batch = batch, .length = 1, .heads = heads, .head_width = d});
  });
}

}  // namespace geores::into
