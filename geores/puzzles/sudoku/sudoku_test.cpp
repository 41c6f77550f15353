#include <gtest/gtest.h>

#include <set>

#include "geores/puzzles/sample_test.h"
#include "geores/puzzles/sudoku/generator.h"
#include "geores/puzzles/sudoku/shuffle.h"
#include "geores/puzzles/sudoku/solver.h"
#include "geores/testing/testing.h"

namespace geores::puzzles {
namespace {

Board board_from(const std::string& text) {
  Board board;
  for (const char c : text) board.push_back(static_cast<uint8_t>(c - '0'));
  return board;
}

TEST(SudokuSolver, FindsAllBoardsOfSizeFour) {
  const auto found = solve_sudoku(sudoku_shape(4), Board(16, 0), 1000);
  EXPECT_EQ(found.solutions, 288);
}

// Tries every value in every cell, with nothing but the rules.
int64_t brute_force(const SudokuShape& shape, Board& board, std::size_t cell) {
  while (cell < board.size() && board[cell] != 0) ++cell;
  if (cell == board.size()) return is_solved(shape, board) ? 1 : 0;
  int64_t count = 0;
  const auto n = static_cast<std::size_t>(shape.size);
  for (uint8_t value = 1; value <= shape.size; ++value) {
    bool possible = true;
    for (std::size_t k = 0; k < n && possible; ++k)
      possible = board[cell / n * n + k] != value && board[k * n + cell % n] != value;
    if (!possible) continue;
    board[cell] = value;
    count += brute_force(shape, board, cell + 1);
    board[cell] = 0;
  }
  return count;
}

TEST(SudokuSolver, CountsSolutionsAsBruteForceDoes) {
  Random random({1});
  for (const int size : {4, 6}) {
    const auto shape = sudoku_shape(size);
    for (int trial = 0; trial < 40; ++trial) {
      auto board = random_full_board(shape, random);
      EXPECT_TRUE(is_solved(shape, board));
      for (auto& value : board)
        if (random.below(size == 4 ? 3 : 2) != 0) value = 0;
      const auto counted = brute_force(shape, board, 0);
      EXPECT_EQ(solve_sudoku(shape, board, 100000).solutions, counted);
      if (counted == 1) {
        EXPECT_TRUE(has_one_solution(shape, board));
      }
    }
  }
}

TEST(SudokuSolver, SeesContradictions) {
  auto board = board_from("1100000000000000");
  EXPECT_EQ(solve_sudoku(sudoku_shape(4), board).solutions, 0);
  EXPECT_EQ(refusal([&] { solve_sudoku(sudoku_shape(4), Board(15, 0)); }),
            "[sudoku] a board of size 4 has 16 cells, got 15");
  EXPECT_EQ(refusal([&] { solve_sudoku(sudoku_shape(4), Board(16, 5)); }),
            "[sudoku] a board of size 4 cannot hold 5");
  EXPECT_EQ(refusal([&] { sudoku_shape(8); }), "[sudoku] size must be 4, 6 or 9, got 8");
}

TEST(SudokuShuffle, IsThatOfTheGolden) {
  const auto& each = golden()["sudoku_shuffle"];
  SudokuShuffle shuffle;
  shuffle.transpose = each["transpose"];
  shuffle.digit = each["digit_map"].get<std::vector<uint8_t>>();
  shuffle.rows = each["rows"].get<std::vector<uint8_t>>();
  shuffle.columns = each["columns"].get<std::vector<uint8_t>>();
  const auto board = shuffle.apply(board_from(each["board"]));
  EXPECT_EQ(board, board_from(each["new_board"]));
  EXPECT_EQ(shuffle.apply(board_from(each["solution"])), board_from(each["new_solution"]));
  const auto first = each["input_tokens_first_row"].get<std::vector<int>>();
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(sudoku_token(board[i]), first[i]);
}

TEST(SudokuShuffle, KeepsSolutionsAndRatings) {
  Random random({2});
  for (const int size : {4, 6, 9}) {
    const auto shape = sudoku_shape(size);
    for (int trial = 0; trial < 5; ++trial) {
      const auto sudoku = generate_sudoku(shape, 0, 0, random);
      const auto shuffle = SudokuShuffle::draw(shape, random);
      const auto found = solve_sudoku(shape, shuffle.apply(sudoku.board));
      EXPECT_EQ(found.solutions, 1);
      EXPECT_EQ(found.solution, shuffle.apply(sudoku.solution));
      if (size < 9) {
        EXPECT_EQ(canonical_form(shape, shuffle.apply(sudoku.board)),
                  canonical_form(shape, sudoku.board));
      }
    }
  }
}

// Exchanging the names of the digits changes nothing that the solver sees.
TEST(SudokuSolver, RatingDoesNotDependOnTheNamesOfDigits) {
  Random random({3});
  const auto shape = sudoku_shape(9);
  for (int trial = 0; trial < 10; ++trial) {
    const auto sudoku = generate_sudoku(shape, 2, 0, random);
    auto shuffle = SudokuShuffle::draw(shape, random);
    shuffle.transpose = false;
    for (std::size_t i = 0; i < 9; ++i)
      shuffle.rows[i] = shuffle.columns[i] = static_cast<uint8_t>(i);
    EXPECT_EQ(solve_sudoku(shape, shuffle.apply(sudoku.board)).rating, sudoku.rating);
  }
}

void expect_unique_and_minimal(const SudokuShape& shape, const Sudoku& sudoku) {
  const auto found = solve_sudoku(shape, sudoku.board, 3);
  EXPECT_EQ(found.solutions, 1);
  EXPECT_EQ(found.solution, sudoku.solution);
  EXPECT_EQ(found.rating, sudoku.rating);
  EXPECT_TRUE(is_solved(shape, sudoku.solution));
  for (std::size_t cell = 0; cell < sudoku.board.size(); ++cell) {
    if (sudoku.board[cell] == 0) continue;
    EXPECT_EQ(sudoku.board[cell], sudoku.solution[cell]);
    auto fewer = sudoku.board;
    fewer[cell] = 0;
    EXPECT_FALSE(has_one_solution(shape, fewer));
  }
}

TEST(SudokuGenerator, PuzzlesAreUniqueMinimalAndAllDifferent) {
  for (const int size : {4, 6, 9}) {
    const auto shape = sudoku_shape(size);
    const SudokuOptions options{.size = size, .rounds = {0, 2}, .seed = 5, .threads = 2};
    const auto set = generate_sudokus(options, 30, 10);
    ASSERT_EQ(set.train.size(), 30u);
    ASSERT_EQ(set.test.size(), 10u);
    std::set<Board> boards, forms, solutions;
    for (const auto& each : set.train) {
      expect_unique_and_minimal(shape, each);
      EXPECT_TRUE(boards.insert(each.board).second);
      if (size < 9) forms.insert(canonical_form(shape, each.board));
      solutions.insert(each.solution);
    }
    for (const auto& each : set.test) {
      expect_unique_and_minimal(shape, each);
      EXPECT_TRUE(boards.insert(each.board).second);
      if (size < 9) {
        EXPECT_FALSE(forms.contains(canonical_form(shape, each.board)));
      }
      if (size > 4) {
        EXPECT_FALSE(solutions.contains(each.solution));
      }
    }
    auto alone = options;
    alone.threads = 1;
    EXPECT_EQ(generate_sudokus(alone, 30, 10).test[3].board, set.test[3].board);
  }
}

// Statistics of such puzzles: 24.4 clues (21 to 29), rating 4.3 on average, 42 % without branching.
TEST(SudokuGenerator, NineByNineIsAsHardAsItShouldBe) {
  const auto shape = sudoku_shape(9);
  double clues = 0, rating = 0, easy = 0;
  const int count = 120;
  for (int i = 0; i < count; ++i) {
    Random random({77, static_cast<uint64_t>(i)});
    const auto sudoku = generate_sudoku(shape, 0, 0, random);
    clues += clue_count(sudoku.board);
    rating += static_cast<double>(sudoku.rating);
    easy += sudoku.rating == 0;
  }
  EXPECT_NEAR(clues / count, 24.4, 0.5);
  EXPECT_NEAR(rating / count, 4.3, 2.5);
  EXPECT_NEAR(easy / count, 0.42, 0.15);
}

TEST(SudokuGenerator, StopsAtTheWantedNumberOfClues) {
  Random random({8});
  for (const int clues : {36, 50}) {
    const auto sudoku = generate_sudoku(sudoku_shape(9), 0, clues, random);
    EXPECT_EQ(clue_count(sudoku.board), clues);
    EXPECT_TRUE(has_one_solution(sudoku_shape(9), sudoku.board));
  }
}

TEST(SudokuGenerator, RefusesMorePuzzlesThanThereAre) {
  const SudokuOptions options{.size = 4, .rounds = {0}, .clues = 15};
  EXPECT_NE(
      refusal([&] { generate_sudokus(options, 100000, 1); }).find("different puzzles of size 4"),
      std::string::npos);
  EXPECT_EQ(refusal([&] { generate_sudokus({.rounds = {-1}}, 1, 1); }),
            "[sudoku] rounds must be >= 0, got -1");
  EXPECT_EQ(refusal([&] { generate_sudokus({}, 0, 1); }),
            "[sudoku] train and test must be >= 1, got 0 and 1");
}

}  // namespace
}  // namespace geores::puzzles
