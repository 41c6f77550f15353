#include <gtest/gtest.h>

#include "geores/puzzles/view/page.h"
#include "geores/puzzles/view/terminal.h"
#include "geores/testing/testing.h"

namespace geores::puzzles {
namespace {

TEST(Terminal, DrawsAGridWithAndWithoutColour) {
  const Grid grid{2, 2, {0, 1, 9, 3}};
  EXPECT_EQ(draw(grid, false), "0 1 \n9 3 \n");
  const auto colored = draw(grid, true);
  EXPECT_NE(colored.find("\x1b[48;2;0;116;217m"), std::string::npos);  // 1 is blue
  EXPECT_EQ(std::count(colored.begin(), colored.end(), '\n'), 2);
  EXPECT_TRUE(colored.ends_with("\x1b[0m\n"));
  EXPECT_EQ(draw(Grid{}, false), "(no grid)\n");
}

TEST(Terminal, DrawsEveryKindOfToken) {
  const DatasetInfo sudoku{.kind = "sudoku", .height = 1, .width = 3};
  EXPECT_EQ(draw(sudoku, std::vector<int32_t>{1, 2, 10}, false), ". 1 9 \n");
  const DatasetInfo maze{.kind = "maze", .height = 1, .width = 5};
  EXPECT_EQ(draw(maze, std::vector<int32_t>{1, 2, 3, 4, 5}, false), "##  S G o \n");
  const DatasetInfo arc{.kind = "arc", .height = 1, .width = 4};
  EXPECT_EQ(draw(arc, std::vector<int32_t>{2, 1, 0, kNotScored}, false), "0 ··    \n");
}

TEST(Terminal, PutsBlocksNextToEachOther) {
  EXPECT_EQ(side_by_side({{"in", "1 2 \n3 4 \n"}, {"out", "\x1b[1m5\x1b[0m\n"}}),
            "in     out\n1 2    \x1b[1m5\x1b[0m\n3 4\n");
}

TEST(Page, ShowsHowAnAnswerForms) {
  const DatasetInfo info{.kind = "arc", .height = 2, .width = 2, .vocabulary = 12};
  Solving solving{.title = "task <1>",
                  .input = {2, 3, 1, 0},
                  .label = {4, 4, kNotScored, kNotScored},
                  .steps = {{4, 5, 0, 0}, {4, 4, 7, 7}},
                  .q_halt = {-2, 3},
                  .demonstrations = {{{1, 1, {1}}, {1, 1, {2}}}}};
  const auto page = page_of(info, "Puzzles", std::vector{solving});
  EXPECT_NE(page.find("task &lt;1&gt;"), std::string::npos);
  EXPECT_NE(page.find("step 1: 1 wrong, halt 0.12"), std::string::npos);
  EXPECT_NE(page.find("step 2: right, halt 0.95"), std::string::npos);
  EXPECT_NE(page.find("output 1"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  solving.label.assign(4, kNotScored);  // the answer is unknown
  const auto asked = page_of(info, "Puzzles", std::vector{solving});
  EXPECT_EQ(asked.find(": right,"), std::string::npos);
  EXPECT_EQ(asked.find(">answer<"), std::string::npos);
  solving.steps[0].pop_back();
  EXPECT_EQ(refusal([&] { page_of(info, "Puzzles", std::vector{solving}); }),
            "[page] 'task <1>' does not fit a canvas of 2 x 2");
}

}  // namespace
}  // namespace geores::puzzles
