#include "cli/text/run_tokenizer.h"

#include <filesystem>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"

namespace geores::cli {

nlohmann::json origin_of_run(const std::string& run) {
  const auto file = run + "/model.json";
  const auto none = nlohmann::json::object();
  if (!std::filesystem::exists(file)) return none;
  const auto built = parse_json(read_text_file(file), file);
  const auto origin = built.is_object() ? built.value("origin", none) : none;
  require(origin.is_object(), file, "'origin' must be an object, got {}", origin.dump());
  return origin;
}

std::shared_ptr<Tokenizer> tokenizer_of_run(const std::string& run) {
  const auto tokenizer = Tokenizer::load(run);
  const auto trained_with = origin_of_run(run).value("tokenizer_sha256", tokenizer->fingerprint());
  require(tokenizer->fingerprint() == trained_with, run,
          "its tokeniser has changed since the run began: it had the sha256 {:.12} and now has "
          "{:.12}",
          trained_with, tokenizer->fingerprint());
  return tokenizer;
}

}  // namespace geores::cli
