#include "geores/kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "geores/kernels/attention/attention_heads.h"
#include "geores/kernels/cpu/parallel.h"
#include "geores/kernels/cpu/vector_math.h"

namespace geores::kernels {
namespace {

// The number of queries that are multiplied at once.
template <class T, class P>
int64_t tile_rows() {
  return std::is_same_v<P, T> ? kTileRows : bfloat16_tile().rows;
}

// Depths of a packed factor begin at multiples of this.
template <class T, class P>
int64_t depth_group() {
  return std::is_same_v<P, T> ? 1 : bfloat16_tile().group;
}

// The number of queries whose weights the backward pass holds at once: about forty, whole tiles and
// whole groups of depths.
template <class T, class P>
int64_t queries_at_once() {
  return padded<T>(40, std::lcm(tile_rows<T, P>(), depth_group<T, P>()));
}

// The working memory of one thread; take() cuts pieces from it.
template <class Tag, class T>
class Space {
 public:
  explicit Space(int64_t size) : next_(scratch<Tag, T>(size)) {}
  T* take(int64_t size) {
    T* piece = next_;
    next_ += size;
    return piece;
  }

 private:
  T* next_;
};
struct Factors;
struct Rows;

// A row of weights before it is divided by its sum.
template <class T>
struct RowSum {
  T largest, sum;  // largest: of the scores times scale; sum: of the exponentials
};

// Turns the first `count` scores of a row into exp(scale · (score − largest)) and sets the rest up
// to `end` to 0.
template <class T>
RowSum<T> exponential_row(T* row, int64_t count, int64_t end, T scale) {
  constexpr int lanes = kLanes<T>;
  const auto size = padded<T>(count);
  std::fill(row + count, row + size, -std::numeric_limits<T>::infinity());
  // Four maxima, so that no comparison waits for the one before it.
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

// Takes a row of scores and a row of dP = dO Vᵀ. Turns the scores into P, using the saved
// logarithm, and dP into dS = P ⊙ (dP − along) · scale. It is a function of its own so that its
// constants stay in registers.
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

// The keys that queries up to the position `last` see.
int64_t seen_by(int64_t last, const AttentionShape& s) { return s.causal ? last + 1 : s.length; }

// f(sequence, head, index of the head's first query value in qkv) for every head of the batch.
template <class F>
void for_each_head(const AttentionShape& s, F&& f) {
  if (s.head_width == 0) return;
  parallel_items(s.batch * s.heads, [&](int64_t item) {
    const auto b = item / s.heads, h = item % s.heads;
    f(b, h, b * s.length * 3 * s.heads * s.head_width + h * s.head_width);
  });
}

}  // namespace

// Goes through the queries tile by tile.
template <class T, class P>
void attention_forward(const T* qkv, T* out, T* log_sum, const AttentionShape& s) {
  using Columns = HeadColumns<T, P>;
  using Sums = HeadRows<T, P>;
  const auto model = s.heads * s.head_width, stride = 3 * model;
  const auto width = Sums::padded_width(s), length = Columns::padded_length(s);
  const auto step = tile_rows<T, P>();
  const T scale = T(1) / std::sqrt(T(s.head_width));
  for_each_head(s, [&](int64_t b, int64_t h, int64_t first) {
    Space<Factors, typename Sums::Packed> factors(Sums::buffer_size(s) + Columns::buffer_size(s));
    const Sums values(qkv + first + 2 * model, s, stride, factors.take(Sums::buffer_size(s)));
    const Columns keys(qkv + first + model, s, stride, factors.take(Columns::buffer_size(s)));
    Space<Rows, T> space(step * (length + width + 1));
    T* weights = space.take(step * length);
    T* result = space.take(step * width);
    T* inverse = space.take(step);  // 1 / sum of the weights of a row

    for (int64_t begin = 0; begin < s.length; begin += step) {
      const auto rows = std::min(step, s.length - begin), seen = seen_by(begin + rows - 1, s);
      keys.multiply({qkv + first + begin * stride, stride}, weights, length, rows, seen);
      for (int64_t i = 0; i < rows; ++i) {
        const auto row = exponential_row(weights + i * length, seen_by(begin + i, s),
                                         Columns::columns(seen), scale);
        inverse[i] = T(1) / row.sum;
        if (log_sum)
          log_sum[(b * s.heads + h) * s.length + begin + i] = row.largest + std::log(row.sum);
      }
      values.multiply({weights, length}, result, rows, seen);
      for (int64_t i = 0; i < rows; ++i) {
        T* to = out + (b * s.length + begin + i) * model + h * s.head_width;
        for (int64_t k = 0; k < s.head_width; ++k) to[k] = result[i * width + k] * inverse[i];
      }
    }
  });
}

// With P the weights and dP = dO Vᵀ:
//   dS = P ⊙ (dP − rowsum(dO ⊙ O)), dQ = dS K/√d, dK = dSᵀQ/√d, dV = PᵀdO.
// For each block of queries it computes P, dS and dQ tile by tile, and then adds the whole block's
// part to dK and dV.
template <class T, class P>
void attention_backward(const T* qkv, const T* out, const T* log_sum, const T* dout, T* dqkv,
                        const AttentionShape& s) {
  using Columns = HeadColumns<T, P>;
  using Sums = HeadRows<T, P>;
  const auto model = s.heads * s.head_width, stride = 3 * model;
  const auto width = Sums::padded_width(s), length = Columns::padded_length(s);
  const auto step = tile_rows<T, P>(), group = depth_group<T, P>(), block = queries_at_once<T, P>();
  const T scale = T(1) / std::sqrt(T(s.head_width));
  for_each_head(s, [&](int64_t b, int64_t h, int64_t first) {
    const auto first_out = b * s.length * model + h * s.head_width;
    Space<Factors, typename Sums::Packed> factors(3 * Sums::buffer_size(s) +
                                                  2 * Columns::buffer_size(s));
    const Sums queries(qkv + first, s, stride, factors.take(Sums::buffer_size(s)));
    const Sums keys(qkv + first + model, s, stride, factors.take(Sums::buffer_size(s)));
    const Sums douts(dout + first_out, s, model, factors.take(Sums::buffer_size(s)));
    const Columns key_columns(qkv + first + model, s, stride,
                              factors.take(Columns::buffer_size(s)));
    const Columns value_columns(qkv + first + 2 * model, s, stride,
                                factors.take(Columns::buffer_size(s)));
    const auto head = s.length * width;
    Space<Rows, T> space(2 * head + 2 * block * length + step * width);
    T* dkeys = space.take(head);
    T* dvalues = space.take(head);
    std::fill_n(dkeys, head, T(0));
    std::fill_n(dvalues, head, T(0));
    T* weights = space.take(block * length);
    T* dscores = space.take(block * length);
    T* dqueries = space.take(step * width);

    for (int64_t begin = 0; begin < s.length; begin += block) {
      const auto end = std::min(begin + block, s.length);
      for (int64_t tile = begin; tile < end; tile += step) {
        const auto rows = std::min(step, end - tile), seen = seen_by(tile + rows - 1, s);
        T* weight = weights + (tile - begin) * length;
        T* dscore = dscores + (tile - begin) * length;
        key_columns.multiply({qkv + first + tile * stride, stride}, weight, length, rows, seen);
        value_columns.multiply({dout + first_out + tile * model, model}, dscore, length, rows,
                               seen);
        for (int64_t i = 0; i < rows; ++i) {
          const auto t = tile + i;
          const auto row = first_out + t * model;
          const T along = inner_product(dout + row, out + row, s.head_width);
          dscores_row(weight + i * length, dscore + i * length, seen_by(t, s),
                      Columns::columns(seen), scale, log_sum[(b * s.heads + h) * s.length + t],
                      along);
        }
        keys.multiply({dscore, length}, dqueries, rows, seen);
        for (int64_t i = 0; i < rows; ++i)
          std::copy_n(dqueries + i * width, s.head_width, dqkv + first + (tile + i) * stride);
      }
      // With a mask a tile of keys is seen by the queries from the tile's first position on, or from
      // a little before it, where a group of depths begins. Weights of keys that are not seen yet are 0.
      const auto keys_seen = seen_by(end - 1, s);
      for (int64_t tile = 0; tile < keys_seen; tile += step) {
        const auto rows = std::min(step, keys_seen - tile),
                   from = s.causal ? std::max(begin, tile / group * group) : begin;
        const auto at = (from - begin) * length + tile;
        douts.add_transposed({weights + at, length}, from, end - from, dvalues + tile * width,
                             rows);
        queries.add_transposed({dscores + at, length}, from, end - from, dkeys + tile * width,
                               rows);
      }
    }
    for (int64_t t = 0; t < s.length; ++t) {
      std::copy_n(dkeys + t * width, s.head_width, dqkv + first + model + t * stride);
      std::copy_n(dvalues + t * width, s.head_width, dqkv + first + 2 * model + t * stride);
    }
  });
}

namespace {

constexpr int64_t kCachedValuesOfAThread = 1 << 15;

// out (d) = scale · Σ_t weights[t] values[t], four rows at a time: `out` is loaded and stored less
// often.
template <class T>
void sum_of_rows(const T* weights, T scale, const T* values, T* out, int64_t length, int64_t d) {
  std::fill_n(out, d, T(0));
  const auto add = [&]<int rows>(std::integral_constant<int, rows>, int64_t t) {
    for_each_vector<T>(d, [&](int64_t i, int64_t count) {
      auto sum = load_up_to(out + i, count);
      for (int row = 0; row < rows; ++row)
        sum += scale * weights[t + row] * load_up_to(values + (t + row) * d + i, count);
      store_up_to(out + i, sum, count);
    });
  };
  int64_t t = 0;
  for (; t + 4 <= length; t += 4) add(std::integral_constant<int, 4>(), t);
  for (; t < length; ++t) add(std::integral_constant<int, 1>(), t);
}

}  // namespace

template <class T>
void attend_one(const T* q, int64_t q_stride, const T* keys, const T* values, T* out,
                int64_t capacity, int64_t length, const AttentionShape& s) {
  const T scale = T(1) / std::sqrt(T(s.head_width));
  const auto end = padded<T>(length);
  const auto heads = s.batch * s.heads, d = s.head_width;
  const auto threads =
      std::min<int64_t>(heads, threads_for(heads * length * d, kCachedValuesOfAThread));
  parallel_ranges(heads, static_cast<int>(threads), [&](int64_t first, int64_t last, int) {
    T* weights = scratch<AttentionShape, T>(padded<T>(capacity));
    for (auto head = first; head < last; ++head) {
      const T* query = q + head / s.heads * q_stride + head % s.heads * d;
      const T* key = keys + head * capacity * d;
      for (int64_t t = 0; t < length; ++t) weights[t] = inner_product(query, key + t * d, d);
      const T inverse = T(1) / exponential_row(weights, length, end, scale).sum;
      sum_of_rows(weights, inverse, values + head * capacity * d, out + head * d, length, d);
    }
  });
}

#define GEORES_INSTANTIATE_PRODUCTS(T, P)                                            \
  template void attention_forward<T, P>(const T*, T*, T*, const AttentionShape&);    \
  template void attention_backward<T, P>(const T*, const T*, const T*, const T*, T*, \
                                         const AttentionShape&);
GEORES_INSTANTIATE_PRODUCTS(float, float)
GEORES_INSTANTIATE_PRODUCTS(float, BFloat16)
GEORES_INSTANTIATE_PRODUCTS(double, double)
#undef GEORES_INSTANTIATE_PRODUCTS

#define GEORES_INSTANTIATE(T)                                                           \
  template void attend_one(const T*, int64_t, const T*, const T*, T*, int64_t, int64_t, \
                           const AttentionShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
