#include "geores/text/tokenizer.h"

#include <random>

#include "geores/base/file.h"
#include "geores/base/sha256.h"
#include "geores/testing/testing.h"
#include "geores/text/utf8.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMerges = GEORES_DATA_DIR "/gpt2/vocab.bpe";
constexpr const char* kShakespeare = GEORES_DATA_DIR "/tinyshakespeare.txt";

// Difficult inputs for one tokeniser or another; all of it is UTF-8.
const std::vector<std::string> kValidTexts = {
    "",
    "\n",
    "one\r\ntwo\r\n\r\n",
    "  runs   of    spaces  \t\ttabs ",
    std::string("NUL \0 inside", 12),
    "na\xC3\xAFve cafe\xCC\x81 \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\xA6\x8A!",
    "<|endoftext|> <0x0A> <unk> don't we'll 12,345.67",
    "no line end",
    std::string(3000, 'a'),
};

std::string random_bytes(std::mt19937_64& random, size_t count) {
  std::string bytes;
  while (bytes.size() < count) bytes += static_cast<char>(random());
  return bytes;
}

void expect_round_trip(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.encode(text, "text");
  EXPECT_TRUE(tokenizer.decode(ids) == text) << tokenizer.name() << ": " << text.substr(0, 60);
  for (const auto id : ids) {
    EXPECT_LT(id, tokenizer.vocabulary());
    EXPECT_NE(std::optional(id), tokenizer.end_of_text()) << "an end of text is never in a text";
  }
}

// Saved and loaded it is the same.
std::shared_ptr<Tokenizer> reloaded(const Tokenizer& tokenizer) {
  const TemporaryFolder folder;
  tokenizer.save(folder.path());
  auto loaded = Tokenizer::load(folder.path());
  EXPECT_EQ(loaded->fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(loaded->vocabulary(), tokenizer.vocabulary());
  return loaded;
}

TEST(Tokenizer, BytesTakeEverything) {
  const auto tokenizer = reloaded(*byte_tokenizer());
  EXPECT_EQ(tokenizer->vocabulary(), 257);
  EXPECT_EQ(tokenizer->encode("A\xFF", "text"), (Ids{65, 255}));
  for (const auto& text : kValidTexts) expect_round_trip(*tokenizer, text);
  std::mt19937_64 random(1);
  for (int i = 0; i < 20; ++i) expect_round_trip(*tokenizer, random_bytes(random, 50));
  EXPECT_EQ(tokenizer->decode(Ids{104, 256}), "h<|endoftext|>");
  EXPECT_EQ(refusal([&] { tokenizer->decode(Ids{257}); }),
            "[bytes] id 257 is not below the vocabulary of 257");
}

TEST(Tokenizer, CharsAreSortedCodePoints) {
  const auto tokenizer = reloaded(*char_tokenizer("cab\n\xC3\xA9", "text"));
  EXPECT_EQ(tokenizer->encode("\n\xC3\xA9"
                              "abc",
                              "text"),
            (Ids{0, 4, 1, 2, 3}));
  EXPECT_FALSE(tokenizer->end_of_text());
  EXPECT_EQ(refusal([&] { tokenizer->encode("ab\xC3\xA9x", "prompt"); }),
            "[prompt] the character U+0078 at byte offset 4 is not among the 5 of the vocabulary");
  EXPECT_EQ(refusal([&] { char_tokenizer("ab\xFF", "a.txt"); }),
            "[a.txt] byte 255 at offset 2 is not UTF-8; data text --lossy replaces such bytes, the "
            "tokeniser "
            "bytes takes them");
  for (const auto& text : kValidTexts)
    if (!text.empty()) expect_round_trip(*char_tokenizer(text, "text"), text);
}

class Gpt2 : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kMerges)) GTEST_SKIP() << "GEORES_DATA_DIR has no merges of GPT-2";
    const auto merges = read_text_file(kMerges);
    ASSERT_EQ(sha256(merges).substr(0, 8), "1ce16647");
    tokenizer_ = gpt2_tokenizer(merges, kMerges);
    if (refusal([&] { tokenizer_->encode("x", "text"); }).find("libpcre2-dev") != std::string::npos)
      GTEST_SKIP() << "built without PCRE2";
  }
  std::shared_ptr<Tokenizer> tokenizer_;
};

TEST_F(Gpt2, GivesTiktokensIds) {
  EXPECT_EQ(tokenizer_->vocabulary(), 50257);
  EXPECT_EQ(tokenizer_->end_of_text(), 50256);
  const std::string text =
      "Hello world!  It's 2026: na\xC3\xAFve caf\xC3\xA9 \xE2\x80\x94 \xE4\xBD\xA0\xE5\xA5\xBD\n\n "
      " x";
  EXPECT_EQ(tokenizer_->encode(text, "text"),
            (Ids{15496, 995, 0,   220,   632, 338,   1160, 2075, 25,  41492,
                 40304, 851, 220, 19526, 254, 25001, 121,  628,  220, 2124}));
}

TEST_F(Gpt2, LosesNothing) {
  const auto loaded = reloaded(*tokenizer_);
  for (const auto& text : kValidTexts) expect_round_trip(*loaded, text);
  std::mt19937_64 random(2);
  for (int i = 0; i < 50; ++i) expect_round_trip(*loaded, random_bytes(random, 1 + i % 40));
  expect_round_trip(*loaded, "good \xFF\xFE bad \xC3");
}

// nanoGPT's own counts for its cut at 90 % of the characters.
TEST_F(Gpt2, CountsTinyShakespeareAsNanoGptDoes) {
  if (!fs::exists(kShakespeare)) GTEST_SKIP() << "GEORES_DATA_DIR has no tinyshakespeare";
  const auto text = read_text_file(kShakespeare);
  const std::string_view all = text;
  EXPECT_EQ(tokenizer_->encode(all.substr(0, 1003854), "train").size(), 301966u);
  EXPECT_EQ(tokenizer_->encode(all.substr(1003854), "val").size(), 36059u);
}

class Bpe : public testing::Test {
 protected:
  void SetUp() override {
    if (refusal([] { train_bpe("x", 300, "text"); }).find("libpcre2-dev") != std::string::npos)
      GTEST_SKIP() << "built without PCRE2";
  }
};

// By hand: "aab" twice and " aab" once. The pairs aa and ab occur three times each; a's id is the
// smaller one, so aa comes first, then aa·b, then the space before it.
TEST_F(Bpe, JoinsTheMostFrequentPairFirst) {
  const auto tokenizer = train_bpe("aab\naab aab", 256 + 3 + 1, "text");
  EXPECT_EQ(tokenizer->name(), "bpe");
  EXPECT_EQ(tokenizer->vocabulary(), 260);
  EXPECT_EQ(tokenizer->end_of_text(), 259);
  EXPECT_EQ(tokenizer->piece(256), "aa");
  EXPECT_EQ(tokenizer->piece(257), "aab");
  EXPECT_EQ(tokenizer->piece(258), " aab");
  EXPECT_EQ(tokenizer->encode("aab aab", "text"), (Ids{257, 258}));
  EXPECT_EQ(refusal([] { train_bpe("aab\naab aab", 300, "a.txt"); }),
            "[a.txt] gives only 259 different pieces; ask for a --vocabulary of at most 260");
  EXPECT_EQ(refusal([] { train_bpe("aab", 257, "a.txt"); }),
            "[bpe] --vocabulary must be in 258..65536: 256 bytes, end of text and pieces; got 257");
}

// A pair that overlaps itself is joined from the left, in learning as in encoding.
TEST_F(Bpe, LosesNothingAndIsTheSameEveryTime) {
  std::string text;
  for (const auto& one : kValidTexts) text += one + " aaaa aaa the then there ";
  const auto tokenizer = reloaded(*train_bpe(text, 290, "text"));
  EXPECT_EQ(tokenizer->fingerprint(), train_bpe(text, 290, "text")->fingerprint());
  for (const auto& one : kValidTexts) expect_round_trip(*tokenizer, one);
  std::mt19937_64 random(2);
  for (int i = 0; i < 50; ++i) expect_round_trip(*tokenizer, random_bytes(random, 1 + i % 40));
}

TEST(Tokenizer, Gpt2RefusesMergesThatAreNone) {
  EXPECT_EQ(refusal([] { gpt2_tokenizer("#version: 0.2\nh e\nx yz\n", "m.bpe"); }),
            "[m.bpe] merge 2 is not two pieces that came before it");
  EXPECT_EQ(refusal([] { gpt2_tokenizer("", "m.bpe"); }), "[m.bpe] holds no merges");
}

std::string some_prose() {
  std::string text;
  for (int i = 0; i < 200; ++i)
    text +=
        "The quick brown fox " + std::to_string(i * 7919 % 1000) + " jumps over the lazy dog.\n";
  return text;
}

TEST(Tokenizer, SentencePieceLosesNothingThatItDoesNotRefuse) {
  std::shared_ptr<Tokenizer> tokenizer;
  const auto problem = refusal([&] { tokenizer = train_sentencepiece(some_prose(), 320, "text"); });
  if (problem.starts_with("[text] needs SentencePiece: install libsentencepiece-dev"))
    GTEST_SKIP() << problem;
  ASSERT_EQ(problem, "");
  const auto loaded = reloaded(*tokenizer);
  EXPECT_EQ(loaded->vocabulary(), 320);
  EXPECT_LT(loaded->encode(some_prose(), "text").size(), some_prose().size() * 3 / 5);
  for (const auto& text : kValidTexts) expect_round_trip(*loaded, text);
  EXPECT_EQ(refusal([&] { loaded->encode("a\xFFz", "p"); }),
            "[p] byte 255 at offset 1 is not UTF-8; data text --lossy replaces such bytes, the "
            "tokeniser bytes "
            "takes them");
  EXPECT_EQ(
      refusal([&] { loaded->encode("ab \xE2\x96\x81", "p"); }),
      "[p] U+2581 at byte offset 3 would come back as a space; data text --lossy accepts that");
  EXPECT_EQ(train_sentencepiece(some_prose(), 320, "text")->fingerprint(), loaded->fingerprint());
  const auto too_many = refusal([] { train_sentencepiece(some_prose(), 60000, "text"); });
  EXPECT_NE(too_many.find("60000"), std::string::npos) << too_many;
}

// Where the library is not installed, text can be generated all the same.
TEST(Tokenizer, SentencePieceDecodesWithoutItsModel) {
  const TemporaryFolder folder;
  write_file_atomically(
      folder.path() / "tokenizer.json",
      R"({"type": "sentencepiece", "pieces": ["<unk>", "<|endoftext|>", "<0x0A>", "▁a", "bc", "<0xE9>"]})");
  const auto tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer->decode(Ids{3, 4, 2, 5, 0}), " abc\n\xE9");
  EXPECT_EQ(refusal([&] { tokenizer->encode("a", "prompt"); }),
            "[prompt] cannot be encoded: tokenizer.model is missing");
}

TEST(Tokenizer, SentencePieceRefusesAModelOfOthers) {
  const TemporaryFolder folder;
  std::shared_ptr<Tokenizer> tokenizer;
  if (!refusal([&] { tokenizer = train_sentencepiece(some_prose(), 320, "text"); }).empty())
    GTEST_SKIP() << "no SentencePiece";
  tokenizer->save(folder.path());
  const auto file = folder.path() / "tokenizer.json";
  auto object = nlohmann::json::parse(read_text_file(file));
  object["pieces"].back() = "other";
  write_file_atomically(file, object.dump());
  EXPECT_EQ(refusal([&] { Tokenizer::load(folder.path())->encode("a", "p"); }),
            "[p] cannot be encoded: tokenizer.model and tokenizer.json have different pieces");
  write_file_atomically(folder.path() / "tokenizer.model", "no model");
  EXPECT_NE(refusal([&] {
              Tokenizer::load(folder.path())->encode("a", "p");
            }).find("[p] SentencePiece: "),
            std::string::npos);
}

TEST(Tokenizer, LoadRefusesWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  const auto file = (folder.path() / "tokenizer.json").string();
  write_file_atomically(file, R"({"type": "words"})");
  EXPECT_EQ(
      refusal([&] { Tokenizer::load(folder.path()); }),
      "[" + file + "] unknown type 'words', expected bytes, chars, gpt2, bpe or sentencepiece");
}

TEST(Utf8, KnowsWhatIsValid) {
  EXPECT_FALSE(first_invalid("a\xC3\xA9\xE4\xBD\xA0\xF0\x9F\xA6\x8A"));
  EXPECT_EQ(first_invalid("ab\xC0\x80"), 2u);        // overlong
  EXPECT_EQ(first_invalid("\xED\xA0\x80"), 0u);      // a surrogate
  EXPECT_EQ(first_invalid("\xF4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(first_invalid("x\xE4\xBD"), 1u);         // cut short
  EXPECT_EQ(with_invalid_replaced("a\xFFz"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(incomplete_tail("x\xE4\xBD"), 2u);
  EXPECT_EQ(incomplete_tail("x\xE4\xBD\xA0"), 0u);
  EXPECT_EQ(incomplete_tail("\xF0\x9F\xA6"), 3u);
  EXPECT_EQ(incomplete_tail("x\xFF"), 0u);
  EXPECT_EQ(incomplete_tail("\x80\x80\x80\x80"), 0u);
}

}  // namespace
}  // namespace geores
