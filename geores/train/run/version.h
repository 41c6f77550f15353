// The program that makes a run. A file of its own: each commit compiles it again.
#pragma once

namespace geores {

// "geores 0.1.0, commit 0123456789". The commit is that of the last time CMake was configured, "unknown" where
// there was no repository.
const char* version_and_commit();

}  // namespace geores
