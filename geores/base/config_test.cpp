#include "geores/base/config.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <iostream>
#include <limits>
#include <random>

#include "geores/testing/testing.h"

namespace geores {
namespace {

struct Options {
  bool bias = true;
  int64_t streams = 4;
  double gate_bias = 2.5;
  std::string name = "run";
  std::string pooling = "mean";

  Fields fields() {
    return Fields()
        .add("bias", bias, "adds a bias")
        .add("streams", streams, "residual streams", {.min = 1, .max = 64})
        .add("gate_bias", gate_bias, "initial gate logit", {.min = -10})
        .add("name", name, "what to call it")
        .choice("pooling", pooling, {"mean", "last"}, "input of the generators");
  }
  bool operator==(const Options&) const = default;
};

Options read(std::string_view text) {
  Options options;
  options.fields().read(parse_json(text, "edelta"), "edelta");
  return options;
}

std::string refusal_of(std::string_view text) {
  return refusal([&] { read(text); });
}

const Field& field(const Fields& fields, std::string_view key) {
  for (const auto& each : fields.all()) {
    if (each.key == key) return each;
  }
  throw std::logic_error("no such field");
}

std::string refusal_of_flag(std::string_view key, std::string_view text) {
  Options options;
  const auto fields = options.fields();
  const auto line = refusal([&] { field(fields, key).set_from_text(text, "train"); });
  EXPECT_EQ(options, Options());
  return line;
}

TEST(Config, EveryOptionIsReadFromJson) {
  EXPECT_EQ(read(R"({"bias":false,"streams":8,"gate_bias":-1.5,"name":"γ","pooling":"last"})"),
            (Options{false, 8, -1.5, "γ", "last"}));
}

TEST(Config, OptionsThatAreNotNamedKeepTheirDefaults) {
  EXPECT_EQ(read("{}"), Options());
  EXPECT_EQ(read("null"), Options());
  EXPECT_EQ(read(R"({"streams":8})"), (Options{true, 8, 2.5, "run", "mean"}));
}

TEST(Config, WhatIsWrittenIsReadBackExactly) {
  Options options{false, 64, 0.1 + 0.2, "a\"\n\\", "last"};
  const auto text = options.fields().write().dump();
  EXPECT_EQ(read(text), options);
}

TEST(Config, ExtremeNumbersAreWrittenAndReadBackExactly) {
  for (const double extreme : {5e-324, -0.0, 1.7976931348623157e308}) {
    Options options;
    options.gate_bias = extreme;
    const auto again = read(options.fields().write().dump());
    EXPECT_EQ(again.gate_bias, extreme);
    EXPECT_EQ(std::signbit(again.gate_bias), std::signbit(extreme));
  }
  int64_t seed = 0;
  const auto fields = Fields().add("seed", seed, "");
  for (const int64_t extreme : {INT64_MIN, INT64_MAX}) {
    seed = extreme;
    const auto text = fields.write().dump();
    seed = 0;
    fields.read(parse_json(text, "x"), "x");
    EXPECT_EQ(seed, extreme);
  }
}

TEST(Config, ANumberOptionTakesAJsonInteger) {
  EXPECT_EQ(read(R"({"gate_bias":3})").gate_bias, 3.0);
}

TEST(Config, TheEndsOfARangeBelongToIt) {
  EXPECT_EQ(read(R"({"streams":1})").streams, 1);
  EXPECT_EQ(read(R"({"streams":64})").streams, 64);
}

TEST(Config, AnErrorChangesNoOption) {
  Options options;
  const auto json = parse_json(R"({"bias":false,"name":"other","streams":0})", "edelta");
  EXPECT_NE(refusal([&] { options.fields().read(json, "edelta"); }), "");
  EXPECT_EQ(options, Options());
}

TEST(ConfigRefuses, AnUnknownKeyAndNamesTheNearest) {
  EXPECT_EQ(refusal_of(R"({"gatebias":1})"),
            "[edelta] unknown option 'gatebias', did you mean 'gate_bias'?");
}

TEST(ConfigRefuses, AnUnknownKeyThatIsNearToNothing) {
  EXPECT_EQ(refusal_of(R"({"temperature":1})"), "[edelta] unknown option 'temperature'");
}

TEST(ConfigRefuses, AnUnknownKeyWithANewlineInOneLine) {
  EXPECT_EQ(refusal_of(R"({"a\nb":1})"), "[edelta] unknown option 'a\\nb'");
}

TEST(ConfigRefuses, OptionsThatAreNoObject) {
  EXPECT_EQ(refusal_of("[1,2]"), "[edelta] options must be a JSON object, got [1,2]");
}

TEST(ConfigRefuses, TextForAnInteger) {
  EXPECT_EQ(refusal_of(R"({"streams":"four"})"),
            "[edelta] 'streams' must be a 64-bit integer, got \"four\"");
}

TEST(ConfigRefuses, AFractionForAnInteger) {
  EXPECT_EQ(refusal_of(R"({"streams":4.0})"),
            "[edelta] 'streams' must be a 64-bit integer, got 4.0");
}

TEST(ConfigRefuses, ABoolForAnInteger) {
  EXPECT_EQ(refusal_of(R"({"streams":true})"),
            "[edelta] 'streams' must be a 64-bit integer, got true");
}

TEST(ConfigRefuses, IntegersPastSixtyFourBits) {
  EXPECT_EQ(refusal_of(R"({"streams":1e30})"),
            "[edelta] 'streams' must be a 64-bit integer, got 1e+30");
  EXPECT_EQ(refusal_of(R"({"streams":9223372036854775808})"),
            "[edelta] 'streams' must be a 64-bit integer, got 9223372036854775808");
  EXPECT_EQ(refusal_of(R"({"streams":18446744073709551617})"),
            "[edelta] 'streams' must be a 64-bit integer, got 1.8446744073709552e+19");
}

TEST(ConfigRefuses, AnIntegerOutOfRange) {
  EXPECT_EQ(refusal_of(R"({"streams":0})"), "[edelta] 'streams' must be between 1 and 64, got 0");
  EXPECT_EQ(refusal_of(R"({"streams":65})"), "[edelta] 'streams' must be between 1 and 64, got 65");
}

TEST(ConfigRefuses, ANumberOutOfAOneSidedRange) {
  EXPECT_EQ(refusal_of(R"({"gate_bias":-10.5})"), "[edelta] 'gate_bias' must be >= -10, got -10.5");
}

TEST(ConfigRefuses, TextForANumber) {
  EXPECT_EQ(refusal_of(R"({"gate_bias":"1"})"),
            "[edelta] 'gate_bias' must be a finite number, got \"1\"");
}

TEST(ConfigRefuses, NumbersThatAreNotFinite) {
  Options options;
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    const nlohmann::json json = {{"gate_bias", value}};
    EXPECT_EQ(refusal([&] { options.fields().read(json, "edelta"); }),
              fmt::format("[edelta] 'gate_bias' must be a finite number, got {}", value));
  }
  EXPECT_TRUE(refusal_of(R"({"gate_bias":1e400})").starts_with("[edelta] not valid JSON: "));
  EXPECT_TRUE(refusal_of(R"({"gate_bias":NaN})").starts_with("[edelta] not valid JSON: "));
}

TEST(ConfigRefuses, AnIntegerForABool) {
  EXPECT_EQ(refusal_of(R"({"bias":1})"), "[edelta] 'bias' must be true or false, got 1");
}

TEST(ConfigRefuses, ANumberForText) {
  EXPECT_EQ(refusal_of(R"({"name":1})"), "[edelta] 'name' must be UTF-8 text, got 1");
}

TEST(ConfigRefuses, NullForAnOption) {
  EXPECT_EQ(refusal_of(R"({"name":null})"), "[edelta] 'name' must be UTF-8 text, got null");
}

TEST(ConfigRefuses, AChoiceThatIsNotOffered) {
  EXPECT_EQ(refusal_of(R"({"pooling":"maen"})"),
            "[edelta] 'pooling' must be one of mean, last; got 'maen', did you mean 'mean'?");
}

TEST(ConfigRefuses, ToWriteWhatJsonCannotHold) {
  Options options;
  options.gate_bias = std::nan("");
  EXPECT_EQ(refusal([&] { options.fields().write(); }),
            "[config] 'gate_bias' must be a finite number to be written, got nan");
  options = {};
  options.name = "\xff";
  EXPECT_EQ(refusal([&] { options.fields().write(); }),
            "[config] 'name' must be UTF-8 text to be written, got \"\xEF\xBF\xBD\"");
}

TEST(ConfigRefuses, AnOptionDeclaredTwice) {
  Options options;
  EXPECT_EQ(refusal([&] { options.fields().add("bias", options.bias, ""); }),
            "[config] option 'bias' is declared twice");
}

TEST(ConfigRefuses, AChoiceOfNothing) {
  Options options;
  EXPECT_EQ(refusal([&] { Fields().choice("pooling", options.pooling, {}, ""); }),
            "[config] option 'pooling' has no choices");
}

TEST(ConfigFlags, EveryFieldDescribesItself) {
  Options options;
  const auto fields = options.fields();
  options.streams = 8;
  const auto& streams = field(fields, "streams");
  EXPECT_EQ(streams.help, "residual streams");
  EXPECT_EQ(streams.default_text, "4");
  EXPECT_EQ(streams.value_text(), "8");
  EXPECT_EQ(streams.range.max, 64);
  EXPECT_EQ(field(fields, "pooling").choices, (std::vector<std::string>{"mean", "last"}));
  std::vector<std::string> types;
  for (const auto& each : fields.all()) types.push_back(each.type);
  EXPECT_EQ(types, (std::vector<std::string>{"bool", "integer", "number", "text", "text"}));
}

TEST(ConfigFlags, TextSetsEveryTypeAndComesBack) {
  Options options;
  const auto fields = options.fields();
  for (const auto& [key, text] :
       std::vector<std::pair<std::string, std::string>>{{"bias", "false"},
                                                        {"streams", "16"},
                                                        {"gate_bias", "-0.1"},
                                                        {"name", "a b"},
                                                        {"pooling", "last"}}) {
    field(fields, key).set_from_text(text, "train");
    EXPECT_EQ(field(fields, key).value_text(), text);
  }
  EXPECT_EQ(options, (Options{false, 16, -0.1, "a b", "last"}));
}

TEST(ConfigFlags, ValueTextKeepsEveryBitOfANumber) {
  Options options, copy;
  options.gate_bias = 0.1 + 0.2;
  field(copy.fields(), "gate_bias")
      .set_from_text(field(options.fields(), "gate_bias").value_text(), "train");
  EXPECT_EQ(copy.gate_bias, options.gate_bias);
}

TEST(ConfigFlags, IntegersAreParsedStrictly) {
  for (const auto text :
       {"", " 4", "4 ", "+4", "4.0", "4e0", "0x4", "four", "9223372036854775808"}) {
    EXPECT_EQ(refusal_of_flag("streams", text),
              fmt::format("[train] 'streams' must be a 64-bit integer, got '{}'", text));
  }
}

TEST(ConfigFlags, NumbersAreParsedStrictly) {
  for (const auto text : {"", " 1", "1 ", "+1", "1,5", "nan", "inf", "-inf", "1e400", "0x1p3"}) {
    EXPECT_EQ(refusal_of_flag("gate_bias", text),
              fmt::format("[train] 'gate_bias' must be a finite number, got '{}'", text));
  }
}

TEST(ConfigFlags, BoolsAreParsedStrictly) {
  for (const auto text : {"", "1", "True", "yes"}) {
    EXPECT_EQ(refusal_of_flag("bias", text),
              fmt::format("[train] 'bias' must be true or false, got '{}'", text));
  }
}

TEST(ConfigFlags, TextMustBeUtf8) {
  EXPECT_EQ(refusal_of_flag("name", "\xff"), "[train] 'name' must be UTF-8 text, got '\\xff'");
}

TEST(ConfigFlags, RangesAndChoicesHoldForFlags) {
  EXPECT_EQ(refusal_of_flag("streams", "0"), "[train] 'streams' must be between 1 and 64, got 0");
  EXPECT_EQ(refusal_of_flag("pooling", "first"),
            "[train] 'pooling' must be one of mean, last; got 'first'");
}

TEST(ConfigFlags, NamesHaveDashes) { EXPECT_EQ(flag_name("gate_bias"), "--gate-bias"); }

TEST(Nearest, FindsInsertionsDeletionsSubstitutionsAndSwaps) {
  const std::vector<std::string> known = {"streams", "steps", "depth"};
  for (const auto word : {"stream", "streamss", "straems", "Streams", "straems"}) {
    EXPECT_EQ(nearest(word, known), "streams") << word;
  }
  EXPECT_EQ(nearest("stpes", known), "steps");
}

TEST(Nearest, ABeginningIsEnough) {
  EXPECT_EQ(nearest("gyro", {"stability", "gyroscope"}), "gyroscope");
  EXPECT_EQ(nearest("gy", {"stability", "gyroscope"}), "") << "too short to guess";
  EXPECT_EQ(nearest("scope", {"stability", "gyroscope"}), "");
}

TEST(Nearest, ReadsDashesAsUnderscores) { EXPECT_EQ(nearest("a-b-c", {"a_b_c"}), "a_b_c"); }

TEST(Nearest, OffersNothingThatIsFar) {
  EXPECT_EQ(nearest("lr", {"width", "depth"}), "");
  EXPECT_EQ(nearest("abcdef", {"abcxyz"}), "");
  EXPECT_EQ(nearest("", {"width"}), "");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Nearest, PrefersTheNearestAndThenTheFirst) {
  EXPECT_EQ(nearest("layers", {"player", "layer"}), "layer");
  EXPECT_EQ(nearest("cat", {"bat", "hat"}), "bat");
}

TEST(Json, DuplicateKeysAreRefusedAtEveryDepth) {
  EXPECT_EQ(refusal([] { parse_json(R"({"a":1,"a":2})", "x"); }),
            "[x] key 'a' appears twice in one object");
  EXPECT_EQ(refusal([] { parse_json(R"([{"b":{"a":1,"\u0061":2}}])", "x"); }),
            "[x] key 'a' appears twice in one object");
  EXPECT_EQ(refusal([] { parse_json(R"({"a":1,"b":{},"a":2})", "x"); }),
            "[x] key 'a' appears twice in one object");
  EXPECT_EQ(refusal([] { parse_json(R"([{"a":1},{"a":{"a":2},"b":[{"c":3}],"c":4}])", "x"); }), "");
}

TEST(Json, SixtyFourLevelsAreReadAndSixtyFiveAreNot) {
  const auto nested = [](int levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(refusal([&] { parse_json(nested(64), "x"); }), "");
  EXPECT_EQ(refusal([&] { parse_json(nested(65), "x"); }),
            "[x] JSON is nested deeper than 64 levels");
  EXPECT_EQ(refusal([&] { parse_json("[[],[" + nested(62) + ",{}]]", "x"); }), "");
  EXPECT_EQ(refusal([&] { parse_json(std::string(10'000'000, '['), "x"); }),
            "[x] JSON is nested deeper than 64 levels");
}

// A quadratic reader takes minutes here, a linear one less than a second.
TEST(Json, AHundredThousandObjectsAreReadInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += fmt::format("{}\"{}\":{{}}", i == 0 ? "" : ",", i);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(text + "}", "x").size(), 100'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Json, TextAfterANulByteIsNotIgnored) {
  EXPECT_EQ(refusal([] { parse_json(std::string_view("{}\0}", 4), "x"); }),
            "[x] not valid JSON: NUL byte at position 2");
}

TEST(Json, SyntaxErrorsAreOneLineThatNamesThePosition) {
  EXPECT_TRUE(refusal([] {
                parse_json("{\n\"a\": 1,\n}", "run.json");
              }).starts_with("[run.json] not valid JSON: parse error at line 3, column 1: "));
  for (const auto text :
       {"", " ", "{} {}", "{'a':1}", "{\"a\":1} // no", "01", "\"\xff\"", "\"a\nb\""}) {
    EXPECT_TRUE(
        refusal([&] { parse_json(text, "run.json"); }).starts_with("[run.json] not valid JSON: "))
        << text;
  }
}

TEST(Error, TextIsOneLineOfValidUtf8OfBoundedLength) {
  EXPECT_EQ(refusal([] { fail("a\nb", "{}", "\r\x1b\x7f\t\xc3\x28 \xed\xa0\x80 γ"); }),
            "[a\\nb] \\x0d\\x1b\\x7f\\t\\xc3( \\xed\\xa0\\x80 γ");
  EXPECT_EQ(refusal([] { fail("x", "{}", std::string(20'000, 'a')); }).size(), 8003u);
  EXPECT_EQ(quote(std::string(79, 'a') + "γ"), "'" + std::string(79, 'a') + "...'");
}

TEST(Config, TenThousandMutatedTextsAreReadOrRefused) {
  const std::string valid =
      R"({"bias": false, "streams": 8, "gate_bias": -1.25e0, "name": "γ \u00e9 \"x\"",)"
      "\n"
      R"( "pooling": "last"})";
  std::mt19937_64 random(5);
  int read_well = 0, refused = 0;
  for (int round = 0; round < 10'000; ++round) {
    const auto text = mutate(valid, valid.size(), random);
    const auto line = refusal([&] {
      auto options = read(text);
      EXPECT_EQ(read(options.fields().write().dump()), options);
    });
    ++(line.empty() ? read_well : refused);
  }
  std::cout << read_well << " read, " << refused << " refused\n";
  EXPECT_GT(read_well, 100);
  EXPECT_GT(refused, 3000);
}

TEST(ConfigFlags, TenThousandMutatedTextsAreSetOrRefused) {
  std::mt19937_64 random(6);
  int set = 0, refused = 0;
  Options options;
  const auto fields = options.fields();
  for (int round = 0; round < 10'000; ++round) {
    const auto& each = fields.all()[round % fields.all().size()];
    const auto text = mutate(each.default_text, 64, random);
    const auto line = refusal([&] {
      each.set_from_text(text, "train");
      EXPECT_NO_THROW(fields.write().dump());
    });
    ++(line.empty() ? set : refused);
  }
  std::cout << set << " set, " << refused << " refused\n";
  EXPECT_GT(set, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace geores
