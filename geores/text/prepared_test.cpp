#include "geores/text/prepared.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "geores/base/file.h"
#include "geores/base/files/folder_lock.h"
#include "geores/base/files/remove_folder.h"
#include "geores/testing/testing.h"
#include "geores/text/ngrams.h"
#include "geores/text/prepare.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlays = GEORES_DATA_DIR "/tinyshakespeare.txt";

class PreparedFolder : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) const {
    const auto path = temporary_.path() / name;
    write_file_atomically(path, text);
    return path.string();
  }
  std::string out() const { return (temporary_.path() / "out").string(); }
  PrepareOptions options(const std::string& text, const std::string& tokenizer = "bytes") const {
    return {.input = {file("a.txt", text)}, .out = out(), .tokenizer = tokenizer};
  }
  std::string refused(const PrepareOptions& options) const {
    return refusal([&] { prepare_text(options); });
  }
  std::string refused_to_open(int64_t vocabulary = 0) const {
    return refusal([&] { PreparedText::open(out(), vocabulary); });
  }

  const TemporaryFolder temporary_;
};

TEST_F(PreparedFolder, HoldsTheIdsAndTheirFacts) {
  prepare_text(options("one two\nthree four five\n"));
  const auto text = PreparedText::open(out());
  const auto& train = text.split("train");
  const auto& validation = text.split("val");
  EXPECT_EQ(text.vocabulary(), 257);
  EXPECT_EQ(train.ids().size(), 21u);  // ⌊0.9 · 24⌋
  EXPECT_EQ(train.facts->bytes, 21);
  EXPECT_EQ(train.facts->words, 2 + 1 + 3);  // "fi" is a word
  EXPECT_EQ(validation.facts->words, 1 + 1);
  EXPECT_EQ(text.tokenizer_for("decoding").decode(train.ids()), "one two\nthree four fi");
  EXPECT_EQ(text.before_first(), 256);
  EXPECT_EQ(refusal([&] { text.split("test"); }), "[" + out() + "] has no test.bin");
}

TEST_F(PreparedFolder, DocumentsEndWithAnEndOfText) {
  auto given = options("one\n<|endoftext|>\ntwo\n<|endoftext|>\nthree\n");
  given.separator = "<|endoftext|>";
  given.cut = "documents";
  given.valid_fraction = 0.5;
  prepare_text(given);
  const auto text = PreparedText::open(out());
  const auto& tokenizer = text.tokenizer_for("decoding");
  EXPECT_EQ(tokenizer.decode(text.split("train").ids()), "one\n<|endoftext|>two\n<|endoftext|>");
  EXPECT_EQ(tokenizer.decode(text.split("val").ids()), "three\n<|endoftext|>");
  EXPECT_EQ(text.split("train").facts->documents, 2);
  EXPECT_EQ(text.split("train").facts->bytes, 8);
}

// Characters 5 to 18 of these 24 are a separator with its line end.
TEST_F(PreparedFolder, ACutInsideASeparatorMovesBehindIt) {
  for (const double fraction : {0.25, 0.5, 0.75}) {
    auto given = options("one\n\n<|endoftext|>\ntwo\n\n");
    given.separator = "<|endoftext|>";
    given.valid_fraction = fraction;
    prepare_text(given);
    const auto text = PreparedText::open(out());
    const auto& tokenizer = text.tokenizer_for("decoding");
    EXPECT_EQ(tokenizer.decode(text.split("train").ids()), "one\n\n<|endoftext|>") << fraction;
    EXPECT_EQ(tokenizer.decode(text.split("val").ids()), "two\n\n<|endoftext|>") << fraction;
    fs::remove(fs::path(out()) / "data.json");
  }
}

// A cut that has reached the begin of a document is one between documents.
TEST_F(PreparedFolder, ACutBetweenDocumentsIsTheNextBegin) {
  for (const auto& [text, fraction, train] :
       {std::tuple("aaaaaaaa<sep>b", 0.2, "aaaaaaaa"),       // within the separator
        std::tuple("aaaaaaaa<sep>b", 1.0 / 14, "aaaaaaaa"),  // just behind it
        std::tuple("aa<sep>\nbb<sep>cc", 0.5, "aa"),  // just behind the first and its line end
        std::tuple("aaaa<sep>bb<sep>cc", 0.9, "aaaa"),
        std::tuple("a<sep>bbbb<sep>c", 0.4, "abbbb")}) {
    auto given = options(text);
    given.separator = "<sep>";
    given.cut = "documents";
    given.valid_fraction = fraction;
    prepare_text(given);
    const auto prepared = PreparedText::open(out());
    std::string found;
    for (const auto id : prepared.split("train").ids())
      if (id < 256) found += static_cast<char>(id);
    EXPECT_EQ(found, train) << text;
    remove_folder(out());
  }
}

TEST_F(PreparedFolder, OneProcessPreparesAtATime) {
  fs::create_directories(out());
  {
    const FolderLock other(out());
    EXPECT_NE(refused(options("abcabcabcabc")).find("is in use by process"), std::string::npos);
  }
  EXPECT_EQ(refused(options("abcabcabcabc")), "");
  EXPECT_FALSE(fs::exists(out() + "/in_use.lock"));
}

// Twenty characters in three files: the last four are the end of b.txt and c.txt.
TEST_F(PreparedFolder, OfSeveralFilesTheLastPartIsForValidation) {
  PrepareOptions given{
      .input = {file("a.txt", "0123456789"), file("b.txt", "abcdefg"), file("c.txt", "xyz")},
      .out = out(),
      .valid_fraction = 0.2};
  prepare_text(given);
  const auto text = PreparedText::open(out());
  const auto& tokenizer = text.tokenizer_for("decoding");
  EXPECT_EQ(tokenizer.decode(text.split("train").ids()),
            "0123456789<|endoftext|>abcdef<|endoftext|>");
  EXPECT_EQ(tokenizer.decode(text.split("val").ids()), "g<|endoftext|>xyz<|endoftext|>");
  // One file of three is left: its document ends like those of train.
  given.valid_fraction = 0.1;
  prepare_text(given);
  const auto less = PreparedText::open(out());
  EXPECT_EQ(tokenizer.decode(less.split("val").ids()), "yz<|endoftext|>");
  // Documents are not cut: the end of b.txt is the next boundary.
  given.valid_fraction = 0.2;
  given.cut = "documents";
  given.separator = "|";
  prepare_text(given);
  const auto whole = PreparedText::open(out());
  EXPECT_EQ(tokenizer.decode(whole.split("val").ids()), "xyz<|endoftext|>");
}

// A folder that nanoGPT wrote has no data.json.
TEST_F(PreparedFolder, IdsAloneNeedAVocabulary) {
  prepare_text(options(std::string(40, 'b')));
  fs::remove(fs::path(out()) / "data.json");
  EXPECT_EQ(refused_to_open(),
            "[" + out() + "] has no data.json; give its vocabulary with --vocabulary");
  EXPECT_EQ(refused_to_open(98),
            "[" + out() + "/train.bin] id 98 at position 0 is not below the vocabulary of 98");
  const auto text = PreparedText::open(out(), 99);
  EXPECT_EQ(refusal([&] { text.tokenizer_for("decoding"); }),
            "[" + out() + "] has no data.json and no tokeniser: decoding is not possible");
  std::ofstream(fs::path(out()) / "val.bin", std::ios::app) << 'x';
  EXPECT_EQ(refused_to_open(99), "[" + out() +
                                     "/val.bin] has 9 bytes, an odd number: ids are uint16, two "
                                     "bytes each");
}

TEST_F(PreparedFolder, OpenRefusesWhatDoesNotFit) {
  prepare_text(options(std::string(40, 'b')));
  const auto facts = out() + "/data.json", tokenizer = out() + "/tokenizer.json";
  const auto change = [](const std::string& path, const std::string& from, const std::string& to) {
    auto text = read_text_file(path);
    text.replace(text.find(from), from.size(), to);
    write_file_atomically(path, text);
  };
  PreparedText::open(out());
  const auto good = read_text_file(facts);
  EXPECT_NE(good.find("\"time\""), std::string::npos) << "the check is recorded";
  change(facts, "\"version\": 1", "\"version\": 9");
  EXPECT_EQ(refused_to_open(),
            "[" + facts + "] is of version 9; this program reads versions up to 1");
  write_file_atomically(facts, good);
  char_tokenizer("abc", "x")->save(out());
  EXPECT_EQ(refused_to_open(),
            "[" + out() + "] the tokeniser's files are not those that the text was prepared with");
  byte_tokenizer()->save(out());
  EXPECT_EQ(refused_to_open(), "");
  std::ofstream(fs::path(out()) / "val.bin", std::ios::app) << "xx";
  EXPECT_EQ(refused_to_open(),
            "[" + out() + "/val.bin] id 30840 at position 4 is not below the vocabulary of 257");
  std::ofstream(fs::path(out()) / "val.bin", std::ios::trunc);
  EXPECT_EQ(refused_to_open(), "[" + out() + "/val.bin] is empty");
  fs::remove(fs::path(out()) / "val.bin");
  EXPECT_EQ(refused_to_open(), "[" + out() + "] data.json names val.bin, which is not there");
}

TEST_F(PreparedFolder, TakesTheTokeniserOfAnotherFolder) {
  prepare_text(options("abcabc\nabcabc", "chars"));
  auto given = options("cabacaba", "bytes");
  given.tokenizer_of = out();
  given.out = (temporary_.path() / "other").string();
  EXPECT_EQ(prepare_text(given).tokenizer, "chars");
  EXPECT_EQ(Tokenizer::load(given.out)->fingerprint(), Tokenizer::load(out())->fingerprint());
  auto unseen = options("xyz", "bytes");
  unseen.tokenizer_of = out();
  unseen.out = given.out;
  EXPECT_NE(refused(unseen).find("is not among the 4 of the vocabulary"), std::string::npos);
}

TEST_F(PreparedFolder, AFileThatShrinksIsNoticed) {
  prepare_text(options(std::string(40, 'b')));
  const MappedIds ids(out() + "/train.bin");
  ids.require_unchanged();
  fs::resize_file(out() + "/train.bin", 10);
  EXPECT_EQ(
      refusal([&] { ids.require_unchanged(); }),
      "[" + out() + "/train.bin] has changed while it was in use: it had 72 bytes and now has 10");
}

int64_t sum_of(std::span<const Id> ids) {
  return std::accumulate(ids.begin(), ids.end(), int64_t{});
}

// Its pages beyond the new end cannot be read: SIGBUS, which must not be the answer.
TEST_F(PreparedFolder, ReadingBeyondTheEndOfAShrunkFileEndsWithOneLine) {
  prepare_text(options(std::string(40000, 'b')));
  const MappedIds ids(out() + "/train.bin"), kept(out() + "/val.bin");
  const auto shrink_and_read = [&] {
    fs::resize_file(out() + "/train.bin", 4096);
    _exit(static_cast<int>(sum_of(ids.ids()) & 1));
  };
  EXPECT_EXIT(shrink_and_read(), testing::ExitedWithCode(1),
              "^geores: \\[" + out() + "/train.bin\\] has become shorter while it was in use\n$");
}

// The previous handler: the system, or the address sanitizer, which ends the program with a report.
#ifdef __SANITIZE_ADDRESS__
const testing::ExitedWithCode kOthersEnd(1);
constexpr const char* kOthersWords = "ERROR: AddressSanitizer: BUS";
#else
const testing::KilledBySignal kOthersEnd(SIGBUS);
constexpr const char* kOthersWords = "^$";
#endif

TEST_F(PreparedFolder, FaultsOutsideTheIdsAreLeftToOthers) {
  prepare_text(options(std::string(40000, 'b')));
  const auto other = file("other", std::string(40000, 'x'));
  const auto fault_elsewhere = [&] {
    const MappedIds ids(out() + "/train.bin");
    const auto descriptor = open(other.c_str(), O_RDONLY);
    const auto* bytes =
        static_cast<const char*>(mmap(nullptr, 40000, PROT_READ, MAP_SHARED, descriptor, 0));
    fs::resize_file(other, 10);
    _exit(bytes[20000]);
  };
  EXPECT_EXIT(fault_elsewhere(), kOthersEnd, kOthersWords);
  const auto sent = [&] {
    const MappedIds ids(out() + "/train.bin");
    raise(SIGBUS);
    _exit(0);
  };
  EXPECT_EXIT(sent(), kOthersEnd, kOthersWords);
}

TEST_F(PreparedFolder, PrepareRefusesInOneLine) {
  const auto a = (temporary_.path() / "a.txt").string();
  EXPECT_EQ(refused(options("")), "[" + a + "] is empty");
  const std::string advice =
      " is not UTF-8; data text --lossy replaces such bytes, the tokeniser bytes takes them";
  EXPECT_EQ(refused(options("ab\xFF", "chars")), "[" + a + "] byte 255 at offset 2" + advice);
  auto given = options("ab\xFF and more of it", "chars");
  given.lossy = true;
  EXPECT_EQ(refused(given), "");
  EXPECT_EQ(refused(options("abc", "words")),
            "[data] --tokenizer must be bytes, chars, gpt2, bpe or sentencepiece, got 'words'");
  EXPECT_EQ(refused(options("abc", "gpt2")),
            "[data] the tokeniser gpt2 needs --merges FILE (vocab.bpe)");
  given = options("abc");
  given.valid_fraction = 1;
  EXPECT_EQ(refused(given), "[data] --valid-fraction must be between 0 and 1, got 1");
  given = options("abc", "chars");
  given.separator = "b";
  EXPECT_EQ(refused(given),
            "[data] the tokeniser chars has no end of text, which separated documents and several "
            "files need");
  std::string many;  // more characters than ids
  for (int b = 0x90; b < 0xA1; ++b)
    for (int c = 0x80; c < 0xC0; ++c)
      for (int d = 0x80; d < 0xC0; ++d)
        many += {'\xF0', static_cast<char>(b), static_cast<char>(c), static_cast<char>(d)};
  EXPECT_EQ(refused(options(many, "chars")),
            "[" + a + "] 69632 different characters are more than 65536 ids");
}

TEST(Words, AreSeparatedBySpaceAndLineEndsCount) {
  EXPECT_EQ(count_words(""), 0);
  EXPECT_EQ(count_words("one  two\tthree"), 3);
  EXPECT_EQ(count_words(" \n = Title = \n \n"), 3 + 3);
}

TEST(Words, OfWikiTextAreThePublishedOnes) {
  const auto valid = GEORES_DATA_DIR "/wikitext-2/valid.txt",
             test = GEORES_DATA_DIR "/wikitext-2/test.txt";
  if (!fs::exists(valid)) GTEST_SKIP() << "GEORES_DATA_DIR has no WikiText-2";
  EXPECT_EQ(count_words(read_text_file(valid)), 217646);
  EXPECT_EQ(count_words(read_text_file(test)), 245569);
}

TEST_F(PreparedFolder, TinyShakespeareIsNanoGptsAndItsNGramsAreKnown) {
  if (!fs::exists(kPlays)) GTEST_SKIP() << "GEORES_DATA_DIR has no tinyshakespeare";
  const auto made = prepare_text({.input = {kPlays}, .out = out(), .tokenizer = "chars"});
  EXPECT_EQ(made.vocabulary, 65);
  EXPECT_EQ(made.splits.at("train").ids, 1003854);
  EXPECT_EQ(made.splits.at("val").ids, 111540);
  const auto text = PreparedText::open(out());
  // nanoGPT's ids of "First Citizen"
  EXPECT_EQ(Ids(text.split("train").ids().begin(), text.split("train").ids().begin() + 13),
            (Ids{18, 47, 56, 57, 58, 1, 15, 47, 58, 47, 64, 43, 52}));
  const auto losses = ngram_losses(text.split("train").ids(), text.split("val").ids(), 65, 6);
  const double measured[] = {4.174, 3.347, 2.487, 2.056, 1.790, 1.692, 1.721};
  for (size_t n = 0; n < 7; ++n) EXPECT_NEAR(losses[n], measured[n], 1e-3) << n;
}

// By hand, D = 3/4: a b a b a fitted, "ab" scored. p1(a) = 2.25/5 + 0.75·2/5/2 = 0.6,
// p1(b) = 1.25/5 + 0.15 = 0.4, p2(b | a) = (2 − 0.75)/2 + 0.75·1/2·0.4 = 0.775.
TEST(NGrams, AreThoseComputedByHand) {
  const Ids fitted = {0, 1, 0, 1, 0}, scored = {0, 1};
  const auto losses = ngram_losses(fitted, scored, 2, 2);
  EXPECT_NEAR(losses[0], std::log(2.0), 1e-12);
  EXPECT_NEAR(losses[1], -(std::log(0.6) + std::log(0.4)) / 2, 1e-12);
  EXPECT_NEAR(losses[2], -(std::log(0.6) + std::log(0.775)) / 2, 1e-12);
  EXPECT_NEAR(unigram_entropy(fitted), -(0.6 * std::log(0.6) + 0.4 * std::log(0.4)), 1e-12);
}

}  // namespace
}  // namespace geores
