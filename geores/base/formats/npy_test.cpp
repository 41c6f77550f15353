#include "geores/base/formats/npy.h"

#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "geores/base/file.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

using namespace std::string_view_literals;

std::string file_of(std::string_view header, std::string_view data, char version = 1) {
  std::string file = "\x93NUMPY";
  file += {version, '\0'};
  const auto length = static_cast<uint32_t>(header.size());
  file.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
  return file.append(header).append(data);
}

std::string header_of(std::string_view descr, std::string_view shape,
                      std::string_view fortran_order = "False") {
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}\n", descr,
                     fortran_order, shape);
}

NpyArray parse(std::string_view file) { return parse_npy(std::as_bytes(std::span(file)), "x.npy"); }

std::string refusal_of_file(std::string_view file) {
  return refusal([&] { parse(file); });
}

TEST(Npy, RoundTripKeepsEveryByteOfEveryDtype) {
  std::mt19937_64 random(3);
  for (const auto& info : dtypes) {
    if (info.dtype == Dtype::bf16) continue;
    NpyArray array{
        info.dtype, {3, 7}, std::vector<std::byte>(static_cast<std::size_t>(21 * info.size))};
    for (auto& byte : array.bytes) {
      byte = static_cast<std::byte>(info.dtype == Dtype::boolean ? random() % 2 : random());
    }
    const auto read = parse_npy(serialize_npy(array), "x.npy");
    EXPECT_EQ(read.dtype, array.dtype);
    EXPECT_EQ(read.shape, array.shape);
    EXPECT_EQ(read.bytes, array.bytes);
  }
}

TEST(Npy, RoundTripKeepsNanPayloads) {
  const auto bits = to_bytes(std::vector<uint64_t>{0x7FF800000000BEEF, 0xFFF0000000000001, 1});
  EXPECT_EQ(parse_npy(serialize_npy({Dtype::f64, {3}, bits}), "x.npy").bytes, bits);
}

TEST(Npy, RoundTripKeepsScalarsAndEmptyArrays) {
  for (const auto& shape : std::vector<std::vector<int64_t>>{{}, {0}, {1}, {4, 0, 2}, {1, 1, 1}}) {
    const auto size = static_cast<std::size_t>(*byte_count(Dtype::f32, shape));
    const auto read =
        parse_npy(serialize_npy({Dtype::f32, shape, std::vector<std::byte>(size)}), "x.npy");
    EXPECT_EQ(read.shape, shape);
    EXPECT_EQ(read.bytes.size(), size);
  }
}

// np.save(f, np.array([[1, -2]], dtype='<f4')) writes 128 bytes of header, because NumPy pads to
// 64.
TEST(Npy, TheBytesWrittenAreThoseOfNumPy) {
  const auto file = serialize_npy({Dtype::f32, {1, 2}, to_bytes(std::vector<float>{1.0f, -2.0f})});
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }";
  EXPECT_EQ(to_text(file), std::string("\x93NUMPY\x01\0\x76\0", 10) + dictionary +
                               std::string(117 - dictionary.size(), ' ') + "\n" +
                               std::string("\0\0\x80\x3f\0\0\0\xc0", 8));
}

TEST(Npy, OneDimensionIsWrittenAsATupleWithAComma) {
  const auto file = to_text(serialize_npy({Dtype::u8, {2}, to_bytes("ab")}));
  EXPECT_NE(file.find("'shape': (2,), }"), file.npos);
}

TEST(Npy, VersionsOneTwoAndThreeAreRead) {
  for (const char version : {1, 2, 3}) {
    const auto array = parse(file_of(header_of("<i2", "(2,)"), "abcd", version));
    EXPECT_EQ(array.dtype, Dtype::i16);
    EXPECT_EQ(to_text(array.bytes), "abcd");
  }
}

TEST(Npy, KeysMayComeInAnyOrderAndInEitherQuotes) {
  const auto array =
      parse(file_of(R"({"shape":(1,3),'fortran_order':False,"descr":'|u1'})", "abc"));
  EXPECT_EQ(array.shape, (std::vector<int64_t>{1, 3}));
}

TEST(Npy, FortranOrderIsTransposed) {
  // x[i, j] = 10 i + j, stored column by column
  const auto array =
      parse(file_of(header_of("|u1", "(2, 3)", "True"), "\x00\x0a\x01\x0b\x02\x0c"sv));
  EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(to_text(array.bytes), "\x00\x01\x02\x0a\x0b\x0c"sv);
}

TEST(Npy, FortranOrderOfThreeAxesMovesWholeElements) {
  // x[i, j, k] = 100 i + 10 j + k of shape (2, 3, 4): the first index runs fastest in the file
  std::vector<int32_t> stored, expected;
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) stored.push_back(100 * i + 10 * j + k);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) expected.push_back(100 * i + 10 * j + k);
  const auto array =
      parse(file_of(header_of("<i4", "(2, 3, 4)", "True"), to_text(to_bytes(stored))));
  EXPECT_EQ(array.bytes, to_bytes(expected));
}

TEST(Npy, FortranOrderOfScalarsAndEmptyArraysChangesNothing) {
  EXPECT_EQ(to_text(parse(file_of(header_of("|u1", "()", "True"), "a")).bytes), "a");
  EXPECT_TRUE(parse(file_of(header_of("|u1", "(3, 0)", "True"), "")).bytes.empty());
}

TEST(Npy, SavedFilesLoad) {
  const TemporaryFolder folder;
  save_npy(folder.path() / "x.npy", {Dtype::u8, {3}, to_bytes("abc")});
  EXPECT_EQ(to_text(load_npy(folder.path() / "x.npy").bytes), "abc");
}

TEST(Npy, ErrorsOfALoadedFileNameItsPath) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.npy";
  EXPECT_EQ(refusal([&] { load_npy(path); }),
            "[" + path.string() + "] cannot be read: No such file or directory");
}

TEST(NpyRefuses, AnEmptyFile) {
  EXPECT_EQ(refusal_of_file(""),
            "[x.npy] not an .npy file: it must begin with \\x93NUMPY and a version");
}

TEST(NpyRefuses, AFileOfAnotherKind) {
  EXPECT_EQ(refusal_of_file("PK\x03\x04 an .npz archive"),
            "[x.npy] not an .npy file: it must begin with \\x93NUMPY and a version");
}

TEST(NpyRefuses, AnUnknownVersion) {
  EXPECT_EQ(refusal_of_file(file_of(header_of("|u1", "()"), "a", 4)),
            "[x.npy] version 4.0 of the .npy format is not one of 1.0, 2.0, 3.0");
}

TEST(NpyRefuses, AFileThatEndsInsideTheHeaderLength) {
  EXPECT_EQ(refusal_of_file("\x93NUMPY\x02\0\x10\0\0"sv), "[x.npy] ends inside the header length");
}

TEST(NpyRefuses, AHeaderLongerThanTheFile) {
  EXPECT_EQ(refusal_of_file("\x93NUMPY\x02\0\xff\xff\xff\xff{}"sv),
            "[x.npy] header length 4294967295 exceeds the 2 bytes that follow it");
}

TEST(NpyRefuses, BigEndianData) {
  EXPECT_EQ(refusal_of_file(file_of(header_of(">f4", "(1,)"), "abcd")),
            "[x.npy] descr '>f4' is big-endian; save it as little-endian, e.g. with "
            "x.astype('<f4')");
}

TEST(NpyRefuses, AnUnknownType) {
  EXPECT_EQ(refusal_of_file(file_of(header_of("<c8", "(1,)"), "abcdefgh")),
            "[x.npy] descr '<c8' is not one of <i8, <f8, <f4, <i4, <f2, <i2, |i1, |u1, |b1");
}

TEST(NpyRefuses, StructuredTypes) {
  EXPECT_EQ(refusal_of_file(file_of("{'descr': [('a', '<f4')], }", "abcd")),
            "[x.npy] header must have a string before '[('a', '<f4')], }'");
}

TEST(NpyRefuses, TruncatedData) {
  EXPECT_EQ(refusal_of_file(file_of(header_of("<f4", "(2, 3)"), "abcd")),
            "[x.npy] shape (2, 3) of <f4 needs 24 bytes of data, the file holds 4");
}

TEST(NpyRefuses, SurplusData) {
  EXPECT_EQ(refusal_of_file(file_of(header_of("|u1", "(3,)"), "abcd")),
            "[x.npy] shape (3,) of |u1 needs 3 bytes of data, the file holds 4");
}

TEST(NpyRefuses, AShapeWhoseProductOverflows) {
  EXPECT_EQ(refusal_of_file(file_of(header_of("|u1", "(4294967296, 4294967296)"), "")),
            "[x.npy] shape (4294967296, 4294967296) is too large");
}

TEST(NpyRefuses, ANegativeShape) {
  EXPECT_EQ(refusal_of_file(file_of(header_of("|u1", "(-1,)"), "")),
            "[x.npy] shape must be a tuple of non-negative 64-bit integers, got '-1,), }'");
}

TEST(NpyRefuses, ADimensionPastSixtyFourBits) {
  EXPECT_EQ(refusal_of_file(file_of(header_of("|u1", "(18446744073709551616,)"), "")),
            "[x.npy] shape must be a tuple of non-negative 64-bit integers, got "
            "'18446744073709551616,), }'");
}

TEST(NpyRefuses, AShapeThatIsANumber) {
  EXPECT_EQ(refusal_of_file(file_of(header_of("|u1", "(3)"), "abc")),
            "[x.npy] shape (3) is a number, not a tuple");
}

TEST(NpyRefuses, MoreDimensionsThanNumPyHas) {
  std::string shape = "(";
  for (int i = 0; i < 65; ++i) shape += "1, ";
  EXPECT_EQ(refusal_of_file(file_of(header_of("|u1", shape + ")"), "a")),
            "[x.npy] shape has 65 dimensions, more than 64");
}

TEST(NpyRefuses, AFortranOrderThatIsNoBool) {
  EXPECT_EQ(refusal_of_file(file_of(header_of("|u1", "()", "1"), "a")),
            "[x.npy] fortran_order must be True or False, got '1, 'shape': (), }'");
}

TEST(NpyRefuses, AnUnknownKey) {
  EXPECT_EQ(refusal_of_file(file_of("{'order': 'C'}", "")),
            "[x.npy] unknown key 'order' in the header");
}

TEST(NpyRefuses, AKeyGivenTwice) {
  EXPECT_EQ(refusal_of_file(file_of("{'descr': '|u1', 'descr': '|u1'}", "")),
            "[x.npy] key 'descr' appears twice in the header");
}

TEST(NpyRefuses, AMissingKey) {
  EXPECT_EQ(refusal_of_file(file_of("{'descr': '|u1', 'fortran_order': False}", "")),
            "[x.npy] shape is missing in the header");
}

TEST(NpyRefuses, TextAfterTheDictionary) {
  EXPECT_EQ(
      refusal_of_file(file_of("{'descr': '|u1', 'fortran_order': False, 'shape': ()} + 1\n", "a")),
      "[x.npy] header goes on after its end: '+ 1'");
}

TEST(NpyRefuses, AHeaderThatIsNoDictionary) {
  EXPECT_EQ(refusal_of_file(file_of("\xff\n", "")), "[x.npy] header must have '{' before '\\xff'");
}

TEST(NpyRefuses, ABooleanThatIsNeitherZeroNorOne) {
  EXPECT_EQ(refusal_of_file(file_of(header_of("|b1", "(2,)"), "\x01\x02")),
            "[x.npy] |b1 data holds a byte other than 0 and 1");
}

TEST(NpyRefuses, EveryTruncationOfAValidFile) {
  const auto file = to_text(serialize_npy({Dtype::u8, {3}, to_bytes("abc")}));
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_NE(refusal_of_file(file.substr(0, size)), "") << size;
  }
}

TEST(NpyWriterRefuses, Bfloat16) {
  EXPECT_EQ(refusal([] {
              serialize_npy({Dtype::bf16, {0}, {}});
            }),
            "[npy] BF16 cannot be stored in an .npy file");
}

TEST(NpyWriterRefuses, BytesThatDoNotFitTheShape) {
  EXPECT_EQ(refusal([] {
              serialize_npy({Dtype::f32, {2}, {}});
            }),
            "[npy] shape (2,) of <f4 needs 8 bytes of data, got 0");
}

TEST(NpyWriterRefuses, ANegativeShape) {
  EXPECT_EQ(refusal([] {
              serialize_npy({Dtype::f32, {-1}, {}});
            }),
            "[npy] shape (-1,) is negative or too large");
}

TEST(Npy, TenThousandMutatedFilesAreParsedOrRefused) {
  std::mt19937_64 random(2);
  int parsed = 0, refused = 0;
  for (int round = 0; round < 10'000; ++round) {
    const auto header = header_of("<f4", "(2, 5, 3)", round % 2 == 0 ? "True" : "False");
    const auto valid = file_of(header, std::string(120, 'x'), static_cast<char>(1 + round % 3));
    const auto text = refusal([&] {
      const auto array = parse(mutate(valid, valid.size() - 120, random));
      EXPECT_EQ(parse_npy(serialize_npy(array), "again").bytes, array.bytes);
    });
    ++(text.empty() ? parsed : refused);
  }
  std::cout << parsed << " parsed, " << refused << " refused\n";
  EXPECT_GT(parsed, 100);
  EXPECT_GT(refused, 3000);
}

}  // namespace
}  // namespace geores
