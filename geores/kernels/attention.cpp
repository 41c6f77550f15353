#include "geores/kernels/attention.h"

#include <cmath>
#include <limits>

#include "geores/kernels/parallel.h"
#include "geores/kernels/tile.h"
#include "geores/kernels/vector_math.h"

namespace geores::kernels {
namespace {

constexpr int64_t kQueries = 32;  // of a block

// One head of one sequence, its rows padded to whole tiles. Values beyond the head's width are 0.
template <class T>
class Head {
 public:
  Head(const T* values, const AttentionShape& shape, int64_t stride, T* buffer)
      : rows_(buffer), width_(padded<T>(shape.head_width, kTileColumns<T>)) {
    for (int64_t t = 0; t < shape.length; ++t) {
      T* row = rows_ + t * width_;
      std::copy_n(values + t * stride, shape.head_width, row);
      std::fill(row + shape.head_width, row + width_, T(0));
    }
  }

  const T* row(int64_t t) const { return rows_ + t * width_; }
  int64_t width() const { return width_; }

  // (head_width, padded length), so that scores are products of rows with it.
  void transpose_to(T* columns, const AttentionShape& shape, int64_t length) const {
    for (int64_t k = 0; k < shape.head_width; ++k) {
      for (int64_t t = 0; t < shape.length; ++t) columns[k * length + t] = rows_[t * width_ + k];
      std::fill(columns + k * length + shape.length, columns + (k + 1) * length, T(0));
    }
  }

 private:
  T* rows_;
  int64_t width_;
};

// Working space of one thread, cut into pieces.
template <class T>
class Space {
 public:
  explicit Space(int64_t size) : next_(scratch<AttentionShape, T>(size)) {}
  T* take(int64_t size) {
    T* piece = next_;
    next_ += size;
    return piece;
  }

 private:
  T* next_;
};

// The weights of a row before they are divided by their sum.
template <class T>
struct RowSum {
  T largest, sum;  // of the scores times scale; of the exponentials
};

// Turns the first `count` scores of a row into exp(scale · (score − largest)); the rest becomes 0.
template <class T>
RowSum<T> exponential_row(T* row, int64_t count, int64_t end, T scale) {
  std::fill(row + count, row + padded<T>(count), -std::numeric_limits<T>::infinity());
  Vec<T> most = load(row);
  for (int64_t i = kLanes<T>; i < padded<T>(count); i += kLanes<T>) {
    const auto v = load(row + i);
    most = v > most ? v : most;
  }
  T largest = most[0];
  for (int lane = 1; lane < kLanes<T>; ++lane) largest = std::max<T>(largest, most[lane]);

  Vec<T> sums{};
  const auto whole = count / kLanes<T> * kLanes<T>;
  for (int64_t i = 0; i < whole; i += kLanes<T>) {
    const auto weight = exponential((load(row + i) - largest) * scale);
    sums += weight;
    store(row + i, weight);
  }
  if (whole < count) {
    auto weight = exponential((load(row + whole) - largest) * scale);
    for (auto lane = count - whole; lane < kLanes<T>; ++lane) weight[lane] = 0;
    sums += weight;
    store(row + whole, weight);
  }
  std::fill(row + padded<T>(count), row + end, T(0));
  return {largest * scale, sum_of_lanes<T>(sums)};
}

// The same weights from the saved logarithm.
template <class T>
void weights_row(T* row, int64_t count, int64_t end, T scale, T log_sum) {
  for (int64_t i = 0; i < padded<T>(count); i += kLanes<T>)
    store(row + i, exponential(load(row + i) * scale - log_sum));
  std::fill(row + count, row + end, T(0));
}

// f(sequence, head, first value of its queries in qkv) for every head of the batch.
template <class F>
void for_each_head(const AttentionShape& s, F&& f) {
  parallel_items(s.batch * s.heads, [&](int64_t item) {
    const auto b = item / s.heads, h = item % s.heads;
    f(b, h, b * s.length * 3 * s.heads * s.head_width + h * s.head_width);
  });
}

}  // namespace

template <class T>
void causal_attention_forward(const T* qkv, T* out, T* log_sum, const AttentionShape& s) {
  const auto model = s.heads * s.head_width, stride = 3 * model;
  const auto width = padded<T>(s.head_width, kTileColumns<T>);
  const auto length = padded<T>(s.length, kTileColumns<T>);
  const T scale = T(1) / std::sqrt(T(s.head_width));
  for_each_head(s, [&](int64_t b, int64_t h, int64_t first) {
    Space<T> space(2 * s.length * width + (s.head_width + kQueries) * length + kQueries * width);
    const Head<T> keys(qkv + first + model, s, stride, space.take(s.length * width));
    const Head<T> values(qkv + first + 2 * model, s, stride, space.take(s.length * width));
    T* key_columns = space.take(s.head_width * length);
    keys.transpose_to(key_columns, s, length);
    T* weights = space.take(kQueries * length);
    T* result = space.take(kQueries * width);
    T inverse[kQueries];  // of the sums of weights

    for (int64_t begin = 0; begin < s.length; begin += kQueries) {
      const auto rows = std::min(kQueries, s.length - begin);
      const auto seen = begin + rows, columns = padded<T>(seen, kTileColumns<T>);
      multiply_small<T>({qkv + first + begin * stride, stride, 1}, key_columns, length, false,
                        weights, length, rows, columns, s.head_width);
      for (int64_t i = 0; i < rows; ++i) {
        const auto row = exponential_row(weights + i * length, begin + i + 1, columns, scale);
        inverse[i] = T(1) / row.sum;
        if (log_sum)
          log_sum[(b * s.heads + h) * s.length + begin + i] = row.largest + std::log(row.sum);
      }
      multiply_small<T>({weights, length, 1}, values.row(0), width, false, result, width, rows,
                        width, seen);
      for (int64_t i = 0; i < rows; ++i) {
        T* to = out + (b * s.length + begin + i) * model + h * s.head_width;
        for (int64_t k = 0; k < s.head_width; ++k) to[k] = result[i * width + k] * inverse[i];
      }
    }
  });
}

// With P the weights and dP = dO Vᵀ: dS = P ⊙ (dP − rowsum(dO ⊙ O)), dQ = dS K/√d, dK = dSᵀQ/√d,
// dV = PᵀdO.
template <class T>
void causal_attention_backward(const T* qkv, const T* out, const T* log_sum, const T* dout, T* dqkv,
                               const AttentionShape& s) {
  const auto model = s.heads * s.head_width, stride = 3 * model;
  const auto width = padded<T>(s.head_width, kTileColumns<T>);
  const auto length = padded<T>(s.length, kTileColumns<T>);
  const T scale = T(1) / std::sqrt(T(s.head_width));
  for_each_head(s, [&](int64_t b, int64_t h, int64_t first) {
    const auto head = s.length * width;
    Space<T> space(6 * head + 2 * s.head_width * length + 2 * kQueries * length + kQueries * width);
    const Head<T> queries(qkv + first, s, stride, space.take(head));
    const Head<T> keys(qkv + first + model, s, stride, space.take(head));
    const auto first_out = b * s.length * model + h * s.head_width;
    const Head<T> douts(dout + first_out, s, model, space.take(head));
    T* key_columns = space.take(s.head_width * length);
    keys.transpose_to(key_columns, s, length);
    T* value_columns = space.take(s.head_width * length);
    Head<T>(qkv + first + 2 * model, s, stride, space.take(head))
        .transpose_to(value_columns, s, length);
    T* dkeys = space.take(head);
    T* dvalues = space.take(head);
    std::fill_n(dkeys, head, T(0));
    std::fill_n(dvalues, head, T(0));
    T* weights = space.take(kQueries * length);
    T* dscores = space.take(kQueries * length);
    T* dqueries = space.take(kQueries * width);

    for (int64_t begin = 0; begin < s.length; begin += kQueries) {
      const auto rows = std::min(kQueries, s.length - begin);
      const auto seen = begin + rows, columns = padded<T>(seen, kTileColumns<T>);
      multiply_small<T>({queries.row(begin), width, 1}, key_columns, length, false, weights, length,
                        rows, columns, s.head_width);
      multiply_small<T>({douts.row(begin), width, 1}, value_columns, length, false, dscores, length,
                        rows, columns, s.head_width);
      for (int64_t i = 0; i < rows; ++i) {
        const auto t = begin + i;
        T* weight = weights + i * length;
        T* dscore = dscores + i * length;
        weights_row(weight, t + 1, columns, scale, log_sum[(b * s.heads + h) * s.length + t]);
        T along = 0;
        for (int64_t k = 0; k < s.head_width; ++k)
          along += dout[first_out + t * model + k] * out[first_out + t * model + k];
        for (int64_t j = 0; j < columns; j += kLanes<T>)
          store(dscore + j, load(weight + j) * (load(dscore + j) - along) * scale);
      }
      multiply_small<T>({weights, 1, length}, douts.row(begin), width, true, dvalues, width, seen,
                        width, rows);
      multiply_small<T>({dscores, 1, length}, queries.row(begin), width, true, dkeys, width, seen,
                        width, rows);
      multiply_small<T>({dscores, length, 1}, keys.row(0), width, false, dqueries, width, rows,
                        width, seen);
      for (int64_t i = 0; i < rows; ++i)
        std::copy_n(dqueries + i * width, s.head_width, dqkv + first + (begin + i) * stride);
    }
    for (int64_t t = 0; t < s.length; ++t) {
      std::copy_n(dkeys + t * width, s.head_width, dqkv + first + model + t * stride);
      std::copy_n(dvalues + t * width, s.head_width, dqkv + first + 2 * model + t * stride);
    }
  });
}

template <class T>
void attend_one(const T* q, int64_t q_stride, const T* keys, const T* values, T* out,
                int64_t capacity, int64_t length, const AttentionShape& s) {
  const T scale = T(1) / std::sqrt(T(s.head_width));
  const auto end = padded<T>(length);
  T* weights = scratch<AttentionShape, T>(padded<T>(capacity));
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h) {
      const T* query = q + b * q_stride + h * s.head_width;
      const T* key = keys + (b * s.heads + h) * capacity * s.head_width;
      for (int64_t t = 0; t < length; ++t) {
        Vec<T> sum{};
        for_each_vector<T>(s.head_width, [&](int64_t i, int64_t count) {
          sum += load_up_to(query + i, count) * load_up_to(key + t * s.head_width + i, count);
        });
        weights[t] = sum_of_lanes<T>(sum);
      }
      const T inverse = T(1) / exponential_row(weights, length, end, scale).sum;
      const T* value = values + (b * s.heads + h) * capacity * s.head_width;
      T* result = out + (b * s.heads + h) * s.head_width;
      std::fill_n(result, s.head_width, T(0));
      for (int64_t t = 0; t < length; ++t)
        for (int64_t i = 0; i < s.head_width; ++i)
          result[i] += inverse * weights[t] * value[t * s.head_width + i];
    }
}

#define GEORES_INSTANTIATE(T)                                                           \
  template void causal_attention_forward(const T*, T*, T*, const AttentionShape&);      \
  template void causal_attention_backward(const T*, const T*, const T*, const T*, T*,   \
                                          const AttentionShape&);                       \
  template void attend_one(const T*, int64_t, const T*, const T*, T*, int64_t, int64_t, \
                           const AttentionShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
