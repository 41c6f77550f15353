// Writes the data set folders that dataset.h describes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/puzzles/arc/recipe.h"
#include "geores/puzzles/maze/maze.h"
#include "geores/puzzles/sudoku/generator.h"

namespace geores::puzzles {

using Progress = std::function<void(int64_t done, int64_t total)>;

enum class Rows { made, stored };

// kind: "arc" or "reflect". `options` go into geores.json as they are.
void write_arc(const std::filesystem::path& folder, const std::string& kind,
               const ArcRecipe& recipe, Rows rows, const nlohmann::json& options,
               const Progress& progress = {});

// Each training puzzle with `shuffles` variants. `options` must hold the seed of the shuffles.
void write_sudokus(const std::filesystem::path& folder, int size, const SudokuSet& set,
                   int64_t shuffles, Rows rows, const nlohmann::json& options,
                   const Progress& progress = {});

// dihedral: training mazes in all eight orientations.
void write_mazes(const std::filesystem::path& folder, int size, const MazeSet& set, bool dihedral,
                 const nlohmann::json& options);

}  // namespace geores::puzzles
