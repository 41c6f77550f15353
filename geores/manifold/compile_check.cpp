// Host C++ and freestanding wasm32: see compile_check.inc.
#include "geores/manifold/compile_check.inc"

extern "C" void geores_exercise_float(float* data) { geores::manifold::exercise_all(data); }
extern "C" void geores_exercise_double(double* data) { geores::manifold::exercise_all(data); }
