#include "geores/base/formats/safetensors.h"

#include <gtest/gtest.h>

#include <bit>
#include <iostream>
#include <limits>
#include <random>

#include "geores/base/file.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

std::vector<std::byte> file_of(uint64_t length, std::string_view header, std::size_t data_size) {
  auto file = to_bytes({reinterpret_cast<const char*>(&length), sizeof length});
  const auto text = to_bytes(header);
  file.insert(file.end(), text.begin(), text.end());
  file.resize(file.size() + data_size);
  return file;
}

std::vector<std::byte> file_of(std::string_view header, std::size_t data_size) {
  return file_of(header.size(), header, data_size);
}

std::string refusal_of(std::vector<std::byte> file) {
  return refusal([&] { Safetensors::parse(std::move(file), "x.safetensors"); });
}

std::string refusal_of(std::string_view header, std::size_t data_size) {
  return refusal_of(file_of(header, data_size));
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// One tensor of every dtype, filled with random bytes, a scalar, empty tensors, and metadata.
SafetensorsWriter writer_of_everything() {
  std::mt19937_64 random(7);
  SafetensorsWriter writer;
  for (const auto& info : dtypes) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(15 * info.size));
    for (auto& byte : bytes) {
      byte = static_cast<std::byte>(info.dtype == Dtype::boolean ? random() % 2 : random());
    }
    writer.add("all." + std::string(info.name), info.dtype, {3, 5}, bytes);
  }
  const std::vector<float> scalar = {1.5f};
  writer.add("scalar", Dtype::f32, {}, bytes_of(scalar));
  writer.add("empty", Dtype::f64, {0}, {});
  writer.add("empty.matrix", Dtype::i16, {4, 0, 2}, {});
  writer.metadata("format", "geores");
  writer.metadata("note", "γ \"quoted\"\n");
  return writer;
}

TEST(Safetensors, RoundTripKeepsEveryByteOfEveryDtype) {
  const auto file = writer_of_everything().serialize();
  const auto read = Safetensors::parse(file, "x");
  SafetensorsWriter again;
  for (const auto& [key, value] : read.metadata()) again.metadata(key, value);
  for (const auto& name : read.names()) {
    const auto& tensor = read.at(name);
    again.add(name, tensor.dtype, tensor.shape, tensor.bytes);
  }
  EXPECT_EQ(read.names().size(), std::size(dtypes) + 3);
  EXPECT_EQ(again.serialize(), file);
  for (const auto& info : dtypes) {
    const auto& tensor = read.at("all." + std::string(info.name));
    EXPECT_EQ(tensor.dtype, info.dtype);
    EXPECT_EQ(tensor.shape, (std::vector<int64_t>{3, 5}));
  }
}

TEST(Safetensors, RoundTripKeepsNanPayloadsAndSignedZeros) {
  const std::vector<uint64_t> bits = {0x7FF800000000BEEF, 0xFFF0000000000001, 0x8000000000000000,
                                      0x7FF0000000000000, 1};
  std::vector<double> values;
  for (const auto each : bits) values.push_back(std::bit_cast<double>(each));
  SafetensorsWriter writer;
  writer.add("nan", Dtype::f64, {5}, bytes_of(values));
  const auto read = Safetensors::parse(writer.serialize(), "x");
  EXPECT_EQ(to_text(read.at("nan").bytes), to_text(bytes_of(bits)));
}

TEST(Safetensors, ScalarsAndEmptyTensorsKeepTheirShapes) {
  const auto read = Safetensors::parse(writer_of_everything().serialize(), "x");
  EXPECT_TRUE(read.at("scalar").shape.empty());
  EXPECT_EQ(read.at("scalar").bytes.size(), 4u);
  EXPECT_EQ(read.at("empty.matrix").shape, (std::vector<int64_t>{4, 0, 2}));
  EXPECT_TRUE(read.at("empty.matrix").bytes.empty());
  EXPECT_TRUE(read.contains("empty"));
  EXPECT_FALSE(read.contains("full"));
}

TEST(Safetensors, AFileOfNoTensorsIsValid) {
  EXPECT_TRUE(Safetensors::parse(SafetensorsWriter().serialize(), "x").names().empty());
}

TEST(Safetensors, MetadataIsKept) {
  const auto read = Safetensors::parse(writer_of_everything().serialize(), "x");
  EXPECT_EQ(read.metadata(),
            (std::map<std::string, std::string>{{"format", "geores"}, {"note", "γ \"quoted\"\n"}}));
}

TEST(Safetensors, TheBytesWrittenAreExactlyThese) {
  const std::vector<uint8_t> flags = {1, 0};
  const std::vector<float> w = {1.0f, -2.0f};
  SafetensorsWriter writer;
  writer.add("flags", Dtype::boolean, {2}, bytes_of(flags));
  writer.add("w", Dtype::f32, {1, 2}, bytes_of(w));
  writer.metadata("b", "2");
  writer.metadata("a", "1");
  EXPECT_EQ(to_text(writer.serialize()),
            std::string("\x98\0\0\0\0\0\0\0", 8) +
                R"({"__metadata__":{"a":"1","b":"2"},)"
                R"("w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                R"("flags":{"dtype":"BOOL","shape":[2],"data_offsets":[8,10]}})"
                "    " +
                std::string("\0\0\x80\x3f\0\0\0\xc0\x01\0", 10));
}

TEST(Safetensors, TheOrderOfAdditionDoesNotChangeTheFile) {
  const std::vector<float> one = {1.0f}, two = {2.0f};
  SafetensorsWriter forward, backward;
  forward.add("a", Dtype::f32, {1}, bytes_of(one));
  forward.add("b", Dtype::f32, {1}, bytes_of(two));
  backward.add("b", Dtype::f32, {1}, bytes_of(two));
  backward.add("a", Dtype::f32, {1}, bytes_of(one));
  EXPECT_EQ(forward.serialize(), backward.serialize());
}

TEST(Safetensors, EveryTensorWrittenIsAligned) {
  const auto file = writer_of_everything().serialize();
  uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof header);
  EXPECT_EQ(header % 8, 0u);
  const auto read = Safetensors::parse(file, "x");
  const auto* first = read.at(read.names().front()).bytes.data();
  for (const auto& name : read.names()) {
    const auto& tensor = read.at(name);
    EXPECT_EQ((tensor.bytes.data() - first) % dtype_size(tensor.dtype), 0) << name;
  }
}

TEST(Safetensors, NamesComeInTheOrderOfTheirData) {
  const auto read =
      Safetensors::parse(file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},)"
                                 R"("b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
                                 6),
                         "x");
  EXPECT_EQ(read.names(), (std::vector<std::string>{"b", "a"}));
}

TEST(Safetensors, ViewsSurviveAMove) {
  auto read = Safetensors::parse(writer_of_everything().serialize(), "x");
  const auto before = to_text(read.at("all.F64").bytes);
  const auto moved = std::move(read);
  EXPECT_EQ(to_text(moved.at("all.F64").bytes), before);
}

TEST(Safetensors, SavedFilesLoad) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "model.safetensors";
  writer_of_everything().save(path);
  EXPECT_EQ(read_file(path), writer_of_everything().serialize());
  EXPECT_EQ(Safetensors::load(path).names().size(), std::size(dtypes) + 3);
}

TEST(Safetensors, AChecksumFindsEveryBitThatChangesWhatIsRead) {
  auto writer = writer_of_everything();
  const auto without = writer.serialize().size();
  writer.add_checksum();
  const TemporaryFolder folder;
  const auto path = folder.path() / "model.safetensors";
  writer.save(path);
  auto file = read_file(path);
  EXPECT_EQ(file, writer.serialize());
  EXPECT_EQ(refusal_of(file), "");
  EXPECT_GT(file.size(), without);
  const auto key = to_text(file).find("geores_xxh3");
  ASSERT_NE(key, std::string::npos);
  int found = 0;
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    const auto flip = std::byte{1} << (bit % 8);
    file[bit / 8] ^= flip;
    const auto text = refusal_of(file);
    // In another key's value no checksum is looked for; everything else is as it was written.
    const bool renames_key = bit / 8 >= key && bit / 8 < key + std::string("geores_xxh3").size();
    if (!renames_key) {
      EXPECT_NE(text, "") << "bit " << bit;
    }
    found += text == "[x.safetensors] was damaged after it was written: its checksum does not fit";
    file[bit / 8] ^= flip;
  }
  EXPECT_GT(found, 8 * 200) << "where nothing else finds it";
}

TEST(Safetensors, AChecksumInAnotherFormatDoesNotFit) {
  EXPECT_EQ(refusal_of(R"({"__metadata__":{"geores_xxh3": "0123456789abcdef"}})", 0),
            "[x.safetensors] was damaged after it was written: its checksum does not fit");
  EXPECT_EQ(refusal_of(R"({"__metadata__":{"geores_xxh3":"short"}})", 0),
            "[x.safetensors] was damaged after it was written: its checksum does not fit");
}

TEST(Safetensors, BytesThatComeInPiecesAreTheSameFile) {
  const auto bytes = std::as_bytes(std::span("abcdef", 6));
  SafetensorsWriter whole, pieces, short_of_one;
  whole.add("w", Dtype::u8, {2, 3}, bytes);
  pieces.add_source("w", Dtype::u8, {2, 3}, [&](const ByteSink& sink) {
    sink(bytes.first(4));
    sink(bytes.last(2));
  });
  EXPECT_EQ(pieces.serialize(), whole.serialize());
  short_of_one.add_source("w", Dtype::u8, {2, 3},
                          [&](const ByteSink& sink) { sink(bytes.first(5)); });
  EXPECT_EQ(refusal([&] { short_of_one.serialize(); }),
            "[safetensors] tensor 'w': shape [2,3] of U8 needs 6 bytes, got 5");
}

TEST(Safetensors, ErrorsOfALoadedFileNameItsPath) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "broken.safetensors";
  write_file_atomically(path, "abc");
  EXPECT_EQ(
      refusal([&] { Safetensors::load(path); }),
      "[" + path.string() + "] not a safetensors file: 3 bytes, the header length alone takes 8");
}

TEST(Safetensors, AMissingTensorIsNamedWithTheNearestOne) {
  const auto read = Safetensors::parse(writer_of_everything().serialize(), "x.safetensors");
  EXPECT_EQ(refusal([&] { read.at("scaler"); }),
            "[x.safetensors] tensor 'scaler' is missing, did you mean 'scalar'?");
  EXPECT_EQ(refusal([&] { read.at("optimizer.step"); }),
            "[x.safetensors] tensor 'optimizer.step' is missing");
}

TEST(SafetensorsRefuses, AnEmptyFile) {
  EXPECT_EQ(refusal_of(std::vector<std::byte>{}),
            "[x.safetensors] not a safetensors file: 0 bytes, the header length alone takes 8");
}

TEST(SafetensorsRefuses, AHeaderLengthOfTwoToTheSixty) {
  EXPECT_EQ(refusal_of(file_of(uint64_t{1} << 60, "{}", 0)),
            "[x.safetensors] header length 1152921504606846976 exceeds the 2 bytes that follow it");
}

TEST(SafetensorsRefuses, AHeaderLengthThatWrapsAround) {
  EXPECT_EQ(
      refusal_of(file_of(~uint64_t{0} - 7, "{}", 0)),
      "[x.safetensors] header length 18446744073709551608 exceeds the 2 bytes that follow it");
}

TEST(SafetensorsRefuses, AHeaderAboveTheLimit) {
  EXPECT_EQ(refusal_of(file_of(100'000'001, "{}", 100'000'000)),
            "[x.safetensors] header length 100000001 exceeds the limit of 100000000");
}

TEST(SafetensorsRefuses, AnEmptyHeader) {
  EXPECT_EQ(refusal_of("", 0), "[x.safetensors] header must begin with '{', got ''");
}

TEST(SafetensorsRefuses, AHeaderThatIsNoObject) {
  EXPECT_EQ(refusal_of("[1,2]", 0), "[x.safetensors] header must begin with '{', got '['");
}

TEST(SafetensorsRefuses, AHeaderThatBeginsWithABlank) {
  EXPECT_EQ(refusal_of(" {}", 0), "[x.safetensors] header must begin with '{', got ' '");
}

TEST(SafetensorsRefuses, BrokenJson) {
  EXPECT_TRUE(refusal_of(R"({"a":)", 0).starts_with("[x.safetensors] not valid JSON: parse error"));
}

TEST(SafetensorsRefuses, ANulByteAfterTheHeader) {
  EXPECT_EQ(refusal_of(std::string_view("{}\0junk", 7), 0),
            "[x.safetensors] not valid JSON: NUL byte at position 2");
}

TEST(SafetensorsRefuses, DeepNestingWithoutExhaustingTheStack) {
  const std::string deep = R"({"a":)" + std::string(5'000'000, '[');
  EXPECT_EQ(refusal_of(deep, 0), "[x.safetensors] JSON is nested deeper than 64 levels");
}

TEST(SafetensorsRefuses, InvalidUtf8WithAnErrorThatIsValidUtf8) {
  EXPECT_TRUE(refusal_of("{\"\xff\xfe\":1}", 0).starts_with("[x.safetensors] not valid JSON"));
}

TEST(SafetensorsRefuses, ATensorGivenTwice) {
  EXPECT_EQ(refusal_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                       2),
            "[x.safetensors] key 'a' appears twice in one object");
}

TEST(SafetensorsRefuses, AKeyGivenTwiceInsideAnEntry) {
  EXPECT_EQ(refusal_of(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1),
            "[x.safetensors] key 'dtype' appears twice in one object");
}

TEST(SafetensorsRefuses, MetadataThatIsNoObject) {
  EXPECT_EQ(refusal_of(R"({"__metadata__":["a"]})", 0),
            "[x.safetensors] __metadata__ must be an object of strings, got [\"a\"]");
}

TEST(SafetensorsRefuses, MetadataThatIsNoString) {
  EXPECT_EQ(refusal_of(R"({"__metadata__":{"step":3}})", 0),
            "[x.safetensors] __metadata__ 'step' must be a string, got 3");
}

TEST(SafetensorsRefuses, AnEntryThatIsNoObject) {
  EXPECT_EQ(refusal_of(R"({"a":3})", 0), "[x.safetensors] tensor 'a': must be an object, got 3");
}

TEST(SafetensorsRefuses, AnUnknownKeyInsideAnEntry) {
  EXPECT_EQ(refusal_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"stride":[1]}})", 1),
            "[x.safetensors] tensor 'a': unknown key 'stride'");
}

TEST(SafetensorsRefuses, AMissingKeyInsideAnEntry) {
  EXPECT_EQ(refusal_of(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1),
            "[x.safetensors] tensor 'a': shape is missing");
}

TEST(SafetensorsRefuses, AnUnknownDtype) {
  EXPECT_EQ(
      refusal_of(R"({"a":{"dtype":"f32","shape":[1],"data_offsets":[0,4]}})", 4),
      "[x.safetensors] tensor 'a': dtype \"f32\" is not one of I64, F64, F32, I32, BF16, F16, "
      "I16, I8, U8, BOOL");
}

TEST(SafetensorsRefuses, ADtypeThatIsNoString) {
  EXPECT_EQ(refusal_of(R"({"a":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", 4),
            "[x.safetensors] tensor 'a': dtype must be a string, got 32");
}

TEST(SafetensorsRefuses, AShapeThatIsNoList) {
  EXPECT_EQ(refusal_of(R"({"a":{"dtype":"U8","shape":4,"data_offsets":[0,4]}})", 4),
            "[x.safetensors] tensor 'a': shape must be a list of non-negative integers, got 4");
}

TEST(SafetensorsRefuses, AShapeOfFractions) {
  EXPECT_EQ(refusal_of(R"({"a":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}})", 4),
            "[x.safetensors] tensor 'a': shape must be a list of non-negative integers, got [4.0]");
}

TEST(SafetensorsRefuses, ANegativeShape) {
  EXPECT_EQ(
      refusal_of(R"({"a":{"dtype":"U8","shape":[-2,-2],"data_offsets":[0,4]}})", 4),
      "[x.safetensors] tensor 'a': shape must be a list of non-negative integers, got [-2,-2]");
}

TEST(SafetensorsRefuses, AShapeWhoseProductOverflows) {
  EXPECT_EQ(
      refusal_of(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
      "[x.safetensors] tensor 'a': shape [4294967296,4294967296] is too large");
}

TEST(SafetensorsRefuses, AShapeWhoseBytesOverflow) {
  EXPECT_EQ(
      refusal_of(R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", 0),
      "[x.safetensors] tensor 'a': shape [2305843009213693952] is too large");
}

TEST(SafetensorsRefuses, AnEmptyShapeWhoseStridesOverflow) {
  EXPECT_EQ(
      refusal_of(R"({"a":{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})",
                 0),
      "[x.safetensors] tensor 'a': shape [0,4294967296,4294967296] is too large");
}

TEST(SafetensorsRefuses, ADimensionPastSixtyThreeBits) {
  EXPECT_EQ(
      refusal_of(R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,0]}})", 0),
      "[x.safetensors] tensor 'a': shape must be a list of non-negative integers, got "
      "[9223372036854775808]");
}

TEST(SafetensorsRefuses, OffsetsThatAreNotTwo) {
  EXPECT_EQ(refusal_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 2),
            "[x.safetensors] tensor 'a': data_offsets must be two non-negative integers, got "
            "[0,1,2]");
}

TEST(SafetensorsRefuses, NegativeOffsets) {
  EXPECT_EQ(refusal_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}})", 1),
            "[x.safetensors] tensor 'a': data_offsets must be two non-negative integers, got "
            "[-1,0]");
}

TEST(SafetensorsRefuses, OffsetsThatEndBeforeTheyBegin) {
  EXPECT_EQ(refusal_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[2,1]}})", 2),
            "[x.safetensors] tensor 'a': data_offsets [2,1] end before they begin");
}

TEST(SafetensorsRefuses, TruncatedData) {
  EXPECT_EQ(refusal_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7),
            "[x.safetensors] tensor 'a': data_offsets [0,8] exceed the 7 bytes of data");
}

TEST(SafetensorsRefuses, OffsetsThatDoNotFitTheShape) {
  EXPECT_EQ(refusal_of(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}})", 24),
            "[x.safetensors] tensor 'a': shape [2,3] of F32 needs 24 bytes, data_offsets give 20");
}

TEST(SafetensorsRefuses, OverlappingTensors) {
  EXPECT_EQ(refusal_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
                       7),
            "[x.safetensors] tensor 'b': data begins at 3, inside tensor 'a' that ends at 4");
}

TEST(SafetensorsRefuses, AHoleBetweenTensors) {
  EXPECT_EQ(refusal_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}})",
                       9),
            "[x.safetensors] tensor 'b': bytes 4 to 5 before it belong to no tensor");
}

TEST(SafetensorsRefuses, BytesAfterTheLastTensor) {
  EXPECT_EQ(refusal_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 6),
            "[x.safetensors] the last 2 of 6 bytes of data belong to no tensor");
}

TEST(SafetensorsRefuses, ABooleanThatIsNeitherZeroNorOne) {
  auto file = file_of(R"({"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", 1);
  file.back() = std::byte{2};
  EXPECT_EQ(refusal_of(std::move(file)),
            "[x.safetensors] tensor 'a': BOOL data holds a byte other than 0 and 1");
}

TEST(SafetensorsRefuses, EveryTruncationOfAValidFile) {
  const auto file = writer_of_everything().serialize();
  for (std::size_t size = 0; size < file.size(); ++size) {
    const std::vector<std::byte> part(file.begin(),
                                      file.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_NE(refusal_of(part), "") << size;
  }
}

TEST(SafetensorsWriterRefuses, BytesThatDoNotFitTheShape) {
  EXPECT_EQ(refusal([] { SafetensorsWriter().add("w", Dtype::f32, {2}, {}); }),
            "[safetensors] tensor 'w': shape [2] of F32 needs 8 bytes, got 0");
}

TEST(SafetensorsWriterRefuses, ANegativeShape) {
  EXPECT_EQ(refusal([] {
              SafetensorsWriter().add("w", Dtype::f32, {-2, -2}, {});
            }),
            "[safetensors] tensor 'w': shape [-2,-2] is negative or too large");
}

TEST(SafetensorsWriterRefuses, ANameGivenTwiceWithAnyDtype) {
  SafetensorsWriter writer;
  writer.add("w", Dtype::f32, {0}, {});
  EXPECT_EQ(refusal([&] { writer.add("w", Dtype::u8, {0}, {}); }),
            "[safetensors] tensor 'w' is added twice");
}

TEST(SafetensorsWriterRefuses, TheNameOfTheMetadata) {
  EXPECT_EQ(refusal([] { SafetensorsWriter().add("__metadata__", Dtype::f32, {0}, {}); }),
            "[safetensors] a tensor cannot be named __metadata__");
}

TEST(SafetensorsWriterRefuses, NamesThatAreNotUtf8) {
  SafetensorsWriter writer;
  writer.add("\xff", Dtype::f32, {0}, {});
  EXPECT_EQ(refusal([&] { writer.serialize(); }),
            "[safetensors] a tensor name or metadata text is not valid UTF-8");
}

TEST(Safetensors, TenThousandMutatedFilesAreParsedOrRefused) {
  const auto valid = to_text(writer_of_everything().serialize());
  uint64_t length = 0;
  std::memcpy(&length, valid.data(), sizeof length);
  std::mt19937_64 random(1);
  int parsed = 0, refused = 0;
  unsigned sum = 0;
  for (int round = 0; round < 10'000; ++round) {
    const auto text = refusal([&] {
      const auto file =
          Safetensors::parse(to_bytes(mutate(valid, sizeof length + length, random)), "x");
      for (const auto& name : file.names()) {
        for (const auto byte : file.at(name).bytes) sum += static_cast<unsigned>(byte);
      }
    });
    ++(text.empty() ? parsed : refused);
  }
  RecordProperty("sum", static_cast<int>(sum % 1000));
  std::cout << parsed << " parsed, " << refused << " refused\n";
  EXPECT_GT(parsed, 100);
  EXPECT_GT(refused, 3000);
}

}  // namespace
}  // namespace geores
