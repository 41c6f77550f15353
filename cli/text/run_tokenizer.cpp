#include "cli/text/run_tokenizer.h"

#include <nlohmann/json.hpp>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"

namespace geores::cli {

std::shared_ptr<Tokenizer> tokenizer_of_run(const std::string& run) {
  const auto tokenizer = Tokenizer::load(run);
  const auto file = run + "/model.json";
  const auto origin =
      parse_json(read_text_file(file), file).value("origin", nlohmann::json::object());
  const auto trained_with = origin.value("tokenizer_sha256", tokenizer->fingerprint());
  require(tokenizer->fingerprint() == trained_with, run,
          "its tokeniser has changed since the run began: it had the sha256 {:.12} and now has "
          "{:.12}",
          trained_with, tokenizer->fingerprint());
  return tokenizer;
}

}  // namespace geores::cli
