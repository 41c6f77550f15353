// The tables of an ARC data set in its files.
//   made:       tasks.json [{"task", "subset", "label", "train": [pair, …], "test": […]}, …] with a
//               pair as two texts of rows ("077|707"), variants.npy uint8 (variants, 11): t and π,
//               train/all__group_indices.npy, train/offsets.npy uint8 (rows, 2)
//   published:  identifiers.json [name, …], test_puzzles.json {task: {"train": …, "test": …}, …}
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "geores/puzzles/dataset.h"

namespace geores::puzzles {

ArcTables read_made_tables(const std::filesystem::path& folder);
ArcTables read_published_tables(const std::filesystem::path& folder);
std::vector<std::array<uint8_t, 2>> read_offsets(const std::filesystem::path& path, int64_t rows);

std::string tasks_text(const std::vector<Group>& groups);         // tasks.json
std::string test_puzzles_text(const std::vector<Group>& groups);  // test_puzzles.json

}  // namespace geores::puzzles
