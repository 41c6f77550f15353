// The C library's reduction of huge angles (above 10⁶) costs five kilobytes a module. Angles here
// are a few turns at most, so this takes its place; a huge one becomes NaN, which no drawing hides.
extern "C" int __rem_pio2_large(double*, double* y, int, int, int) {
  y[0] = y[1] = __builtin_nan("");
  return 0;
}
