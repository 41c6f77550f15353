// The commands of geores-lab, which study papers and measure speed. They need half of the code, so they are a
// program of their own: geores starts it for them.
#pragma once

namespace geores::cli {

struct LabCommand {
  const char *name, *about;
};

inline constexpr LabCommand kReproduce{
    "reproduce", "A paper's tables and figures, trained again, next to the published numbers."};
inline constexpr LabCommand kStudy{"study",
                                   "What does a mixer add to a recursive model on puzzles?"};
inline constexpr LabCommand kSpectrum{
    "spectrum", "What a mixer does to gradients at depth: singular values of deep Jacobians."};
inline constexpr LabCommand kSpectralGap{
    "spectral-gap", "Which permutations mix n streams best: the largest spectral gap."};
inline constexpr LabCommand kBench{
    "bench", "What a training step costs, fused against LibTorch operations."};
inline constexpr LabCommand kCompletion{
    "completion", "A script that completes commands and options in a shell, bash or zsh."};
inline constexpr LabCommand kLabCommands[] = {kReproduce,   kStudy, kSpectrum,
                                              kSpectralGap, kBench, kCompletion};

}  // namespace geores::cli
