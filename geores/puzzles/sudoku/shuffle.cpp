#include "geores/puzzles/sudoku/shuffle.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "geores/base/error.h"

namespace geores::puzzles {
namespace {

std::vector<uint8_t> numbers(int count, int first = 0) {
  std::vector<uint8_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), static_cast<uint8_t>(first));
  return all;
}

// Bands of `band` lines in random order, lines within each in random order.
std::vector<uint8_t> shuffled_lines(int size, int band, Random& random) {
  auto bands = numbers(size / band);
  random.shuffle(std::span(bands));
  std::vector<uint8_t> lines;
  for (const auto b : bands) {
    auto within = numbers(band, b * band);
    random.shuffle(std::span(within));
    lines.insert(lines.end(), within.begin(), within.end());
  }
  return lines;
}

// All that shuffled_lines() can give.
std::vector<std::vector<uint8_t>> all_lines(int size, int band) {
  std::vector<std::vector<uint8_t>> all;
  auto lines = numbers(size);
  do {
    bool whole = true;  // every band stays together
    for (int i = 0; i < size && whole; ++i)
      whole = lines[static_cast<std::size_t>(i)] / band ==
              lines[static_cast<std::size_t>(i / band * band)] / band;
    if (whole) all.push_back(lines);
  } while (std::ranges::next_permutation(lines).found);
  return all;
}

}  // namespace

SudokuShuffle SudokuShuffle::draw(const SudokuShape& shape, Random& random) {
  SudokuShuffle shuffle;
  shuffle.size = shape.size;
  shuffle.digit = numbers(shape.size + 1);
  random.shuffle(std::span(shuffle.digit).subspan(1));
  if (shape.box_rows == shape.box_columns) shuffle.transpose = random.coin();
  shuffle.rows = shuffled_lines(shape.size, shape.box_rows, random);
  shuffle.columns = shuffled_lines(shape.size, shape.box_columns, random);
  return shuffle;
}

SudokuShuffle SudokuShuffle::draw(int size, uint64_t seed, uint64_t puzzle, uint64_t variant) {
  constexpr uint64_t use = 0x5bff1e;
  Random random({seed, use, puzzle, variant});
  return draw(sudoku_shape(size), random);
}

Board SudokuShuffle::apply(const Board& board) const {
  Board result(board.size());
  const auto n = static_cast<std::size_t>(size);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t row = rows[i], column = columns[j];
      result[i * n + j] = digit[board[transpose ? column * n + row : row * n + column]];
    }
  return result;
}

void SudokuShuffle::apply_to_tokens(std::span<uint8_t> tokens) const {
  Board board(tokens.begin(), tokens.end());
  for (auto& value : board) {
    require(value >= kSudokuBlank && value <= size + kSudokuBlank, "sudoku",
            "token {} is neither blank nor a digit", value);
    value = static_cast<uint8_t>(value - kSudokuBlank);
  }
  const auto result = apply(board);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = sudoku_token(result[i]);
}

Board canonical_form(const SudokuShape& shape, const Board& board) {
  require(shape.size <= 6, "sudoku", "there are too many shuffles of size {} to compare them all",
          shape.size);
  static const auto of_twos = all_lines(4, 2), rows_of_six = all_lines(6, 2),
                    columns_of_six = all_lines(6, 3);
  const auto& rows = shape.size == 4 ? of_twos : rows_of_six;
  const auto& columns = shape.size == 4 ? of_twos : columns_of_six;
  const auto n = static_cast<std::size_t>(shape.size);
  Board best;
  for (int transposed = 0; transposed < (shape.box_rows == shape.box_columns ? 2 : 1); ++transposed)
    for (const auto& row : rows)
      for (const auto& column : columns) {
        Board form(board.size());
        std::array<uint8_t, 10> name{};
        uint8_t used = 0;
        for (std::size_t i = 0; i < n; ++i)
          for (std::size_t j = 0; j < n; ++j) {
            const auto value =
                board[transposed != 0 ? column[j] * n + row[i] : row[i] * n + column[j]];
            if (value != 0 && name[value] == 0) name[value] = ++used;
            form[i * n + j] = name[value];
          }
        if (best.empty() || form < best) best = std::move(form);
      }
  return best;
}

}  // namespace geores::puzzles
