#include "geores/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "geores/kernels/parallel.h"
#include "geores/kernels/tile.h"
#include "geores/kernels/vector_math.h"

namespace geores::kernels {
namespace {

// Queries whose weights the backward pass holds at once, a multiple of a tile's rows.
constexpr int64_t kQueries = 8 * kTileRows;

// One head of one sequence, its rows padded to whole tiles. Values beyond the head's width are 0.
template <class T>
class Head {
 public:
  Head(const T* values, const AttentionShape& shape, int64_t stride, T* buffer)
      : rows_(buffer), width_(padded<T>(shape.head_width, kTileColumns<T>)) {
    for (int64_t t = 0; t < shape.length; ++t) {
      T* row = rows_ + t * width_;
      for_each_vector<T>(width_, [&](int64_t k, int64_t) {
        const auto count = std::clamp<int64_t>(shape.head_width - k, 0, kLanes<T>);
        store(row + k, load_up_to(values + t * stride + k, count));
      });
    }
  }

  const T* row(int64_t t) const { return rows_ + t * width_; }

 private:
  T* rows_;
  int64_t width_;
};

// The transpose of a head in tiles of kTileColumns positions, (head_width, kTileColumns) each, so
// that scores are products of rows with it. Positions beyond the last are 0.
template <class T>
class HeadColumns {
 public:
  static int64_t size(const AttentionShape& shape) {
    return shape.head_width * padded<T>(shape.length, kTileColumns<T>);
  }

  HeadColumns(const T* values, const AttentionShape& shape, int64_t stride, T* buffer)
      : tiles_(buffer), depth_(shape.head_width) {
    std::fill_n(buffer, size(shape), T(0));
    for (int64_t t = 0; t < shape.length; ++t) {
      const T* row = values + t * stride;
      T* column = buffer + t / kTileColumns<T> * kTileColumns<T> * depth_ + t % kTileColumns<T>;
      for (int64_t k = 0; k < depth_; ++k) column[k * kTileColumns<T>] = row[k];
    }
  }

  // scores (rows, columns) = queries · this; no more rows than a tile has.
  void multiply(const LeftRows<T>& queries, T* scores, int64_t lds, int64_t rows,
                int64_t columns) const {
    for (int64_t j = 0; j < columns; j += kTileColumns<T>)
      multiply_columns<false>(queries, tiles_ + j * depth_, kTileColumns<T>, scores + j, lds, rows,
                              depth_);
  }

 private:
  T* tiles_;
  int64_t depth_;
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

// Turns the first `count` scores of a row into exp(scale · (score − largest)); the rest up to `end`
// becomes 0.
template <class T>
RowSum<T> exponential_row(T* row, int64_t count, int64_t end, T scale) {
  constexpr int lanes = kLanes<T>;
  const auto size = padded<T>(count);
  std::fill(row + count, row + size, -std::numeric_limits<T>::infinity());
  // Four at a time, so that no comparison waits for the one before it.
  const auto larger = [](const Vec<T>& v, const Vec<T>& w) -> Vec<T> { return v > w ? v : w; };
  Vec<T> most[4] = {load(row), load(row), load(row), load(row)};
  int64_t i = lanes;
  for (; i + 4 * lanes <= size; i += 4 * lanes)
    detail::unrolled<4>([&](auto k) __attribute__((always_inline)) {
      most[k] = larger(load(row + i + k * lanes), most[k]);
    });
  for (; i < size; i += lanes) most[0] = larger(load(row + i), most[0]);
  most[0] = larger(larger(most[0], most[1]), larger(most[2], most[3]));
  T largest = most[0][0];
  for (int lane = 1; lane < lanes; ++lane) largest = std::max<T>(largest, most[0][lane]);

  const T factor = scale * T(M_LOG2E);
  Vec<T> sums{};
  for (i = 0; i < size; i += lanes) {
    const auto weight = power_of_two(Vec<T>((load(row + i) - largest) * factor));
    sums += weight;
    store(row + i, weight);
  }
  std::fill(row + count, row + end, T(0));
  return {largest * scale, sum_of_lanes<T>(sums)};
}

// A row of scores and of dP = dO Vᵀ: they become P, from the saved logarithm, and dS = P ⊙ (dP −
// along) · scale. A function of its own, so that its constants stay in registers.
template <class T>
[[gnu::noinline]] void dscores_row(T* p, T* ds, int64_t count, int64_t end, T scale, T log_sum,
                                   T along) {
  const T factor = scale * T(M_LOG2E), offset = log_sum * T(M_LOG2E);
  for (int64_t i = 0; i < padded<T>(count); i += kLanes<T>) {
    const auto weight = power_of_two(Vec<T>(load(p + i) * factor - offset));
    store(p + i, weight);
    store(ds + i, weight * ((load(ds + i) - along) * scale));
  }
  std::fill(p + count, p + end, T(0));
  std::fill(ds + count, ds + end, T(0));
}

// f(sequence, head, first value of its queries in qkv) for every head of the batch.
template <class F>
void for_each_head(const AttentionShape& s, F&& f) {
  if (s.head_width == 0) return;
  parallel_items(s.batch * s.heads, [&](int64_t item) {
    const auto b = item / s.heads, h = item % s.heads;
    f(b, h, b * s.length * 3 * s.heads * s.head_width + h * s.head_width);
  });
}

}  // namespace

// A tile of queries at a time: what it sees of the keys ends with its own last position.
template <class T>
void causal_attention_forward(const T* qkv, T* out, T* log_sum, const AttentionShape& s) {
  const auto model = s.heads * s.head_width, stride = 3 * model;
  const auto width = padded<T>(s.head_width, kTileColumns<T>);
  const auto length = padded<T>(s.length, kTileColumns<T>);
  const T scale = T(1) / std::sqrt(T(s.head_width));
  for_each_head(s, [&](int64_t b, int64_t h, int64_t first) {
    Space<T> space(s.length * width + HeadColumns<T>::size(s) + kTileRows * (length + width));
    const Head<T> values(qkv + first + 2 * model, s, stride, space.take(s.length * width));
    const HeadColumns<T> keys(qkv + first + model, s, stride, space.take(HeadColumns<T>::size(s)));
    T* weights = space.take(kTileRows * length);
    T* result = space.take(kTileRows * width);
    T inverse[kTileRows];  // of the sums of weights

    for (int64_t begin = 0; begin < s.length; begin += kTileRows) {
      const auto rows = std::min<int64_t>(kTileRows, s.length - begin), seen = begin + rows;
      const auto columns = padded<T>(seen, kTileColumns<T>);
      keys.multiply({qkv + first + begin * stride, stride}, weights, length, rows, columns);
      for (int64_t i = 0; i < rows; ++i) {
        const auto row = exponential_row(weights + i * length, begin + i + 1, columns, scale);
        inverse[i] = T(1) / row.sum;
        if (log_sum)
          log_sum[(b * s.heads + h) * s.length + begin + i] = row.largest + std::log(row.sum);
      }
      multiply_small<false>(LeftRows<T>{weights, length}, values.row(0), width, result, width, rows,
                            width, seen);
      for (int64_t i = 0; i < rows; ++i) {
        T* to = out + (b * s.length + begin + i) * model + h * s.head_width;
        for (int64_t k = 0; k < s.head_width; ++k) to[k] = result[i * width + k] * inverse[i];
      }
    }
  });
}

// With P the weights and dP = dO Vᵀ: dS = P ⊙ (dP − rowsum(dO ⊙ O)), dQ = dS K/√d, dK = dSᵀQ/√d,
// dV = PᵀdO. A block of queries at a time: tile by tile its P, dS and dQ, then what all of it adds
// to dK and dV.
template <class T>
void causal_attention_backward(const T* qkv, const T* out, const T* log_sum, const T* dout, T* dqkv,
                               const AttentionShape& s) {
  const auto model = s.heads * s.head_width, stride = 3 * model;
  const auto width = padded<T>(s.head_width, kTileColumns<T>);
  const auto length = padded<T>(s.length, kTileColumns<T>);
  const T scale = T(1) / std::sqrt(T(s.head_width));
  for_each_head(s, [&](int64_t b, int64_t h, int64_t first) {
    const auto head = s.length * width, tiles = HeadColumns<T>::size(s);
    Space<T> space(5 * head + 2 * tiles + 2 * kQueries * length + kTileRows * width);
    const Head<T> queries(qkv + first, s, stride, space.take(head));
    const Head<T> keys(qkv + first + model, s, stride, space.take(head));
    const auto first_out = b * s.length * model + h * s.head_width;
    const Head<T> douts(dout + first_out, s, model, space.take(head));
    const HeadColumns<T> key_columns(qkv + first + model, s, stride, space.take(tiles));
    const HeadColumns<T> value_columns(qkv + first + 2 * model, s, stride, space.take(tiles));
    T* dkeys = space.take(head);
    T* dvalues = space.take(head);
    std::fill_n(dkeys, head, T(0));
    std::fill_n(dvalues, head, T(0));
    T* weights = space.take(kQueries * length);
    T* dscores = space.take(kQueries * length);
    T* dqueries = space.take(kTileRows * width);

    for (int64_t begin = 0; begin < s.length; begin += kQueries) {
      const auto end = std::min(begin + kQueries, s.length);
      for (int64_t tile = begin; tile < end; tile += kTileRows) {
        const auto rows = std::min<int64_t>(kTileRows, end - tile), seen = tile + rows;
        const auto columns = padded<T>(seen, kTileColumns<T>);
        T* weight = weights + (tile - begin) * length;
        T* dscore = dscores + (tile - begin) * length;
        key_columns.multiply({queries.row(tile), width}, weight, length, rows, columns);
        value_columns.multiply({douts.row(tile), width}, dscore, length, rows, columns);
        for (int64_t i = 0; i < rows; ++i) {
          const auto t = tile + i;
          const auto row = first_out + t * model;
          const T along = inner_product(dout + row, out + row, s.head_width);
          dscores_row(weight + i * length, dscore + i * length, t + 1, columns, scale,
                      log_sum[(b * s.heads + h) * s.length + t], along);
        }
        multiply_small<false>(LeftRows<T>{dscore, length}, keys.row(0), width, dqueries, width,
                              rows, width, seen);
        for (int64_t i = 0; i < rows; ++i)
          std::copy_n(dqueries + i * width, s.head_width, dqkv + first + (tile + i) * stride);
      }
      // The keys of a tile are seen from its first position on, and by whole tiles of queries.
      for (int64_t tile = 0; tile < end; tile += kTileRows) {
        const auto rows = std::min<int64_t>(kTileRows, end - tile), from = std::max(begin, tile);
        const auto at = (from - begin) * length + tile;
        multiply_small<true>(LeftColumns<T>{weights + at, length}, douts.row(from), width,
                             dvalues + tile * width, width, rows, width, end - from);
        multiply_small<true>(LeftColumns<T>{dscores + at, length}, queries.row(from), width,
                             dkeys + tile * width, width, rows, width, end - from);
      }
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
