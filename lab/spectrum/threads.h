// Runs jobs on up to `threads` threads (0: one per core), each taking the next number as it gets
// free. The first exception stops the rest and is thrown again here.
#pragma once

#include "geores/spectral/resolvent.h"

namespace geores::spectral {

RunJobs on_threads(int threads);

}  // namespace geores::spectral
