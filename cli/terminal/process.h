// Process setup: standard descriptors, detection of lost output, a clear final message.
#pragma once

#include <exception>
#include <string>

namespace geores::cli {

// Opens /dev/null for those of stdin, stdout and stderr that are closed. The next file to be opened
// would get such a descriptor, and messages would be written into it.
void occupy_standard_descriptors();

// The exit code of a program that wanted to end with `code`: an error if results on stdout were lost.
int after_output(int code);

// One line that says what happened, for any exception.
std::string last_words(const std::exception& error);

// The write failed because the reader of our output is gone, as with `geores list | head`.
bool reader_is_gone(const std::exception& error);

}  // namespace geores::cli
