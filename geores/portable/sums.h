// The two loops in which a model spends its time: the browser's module is compiled for size but for
// these.
#pragma once

namespace geores::portable {

double dot(const double* a, const double* b, int count);
void add_scaled(double factor, const double* x, int count, double* y);  // y ← y + factor · x

}  // namespace geores::portable
