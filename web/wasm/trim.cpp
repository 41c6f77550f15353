// The C library reduces an angle of any size to a quarter turn; the general case costs six kilobytes a
// module. Angles here are some turns at most, so the usual case replaces it (as in fdlibm's
// e_rem_pio2.c: π/2 in two parts, the first short enough for an exact product). A huge angle becomes
// NaN, which no drawing hides.
extern "C" int __rem_pio2(double x, double* y) {
  constexpr double first = 0x1.921fb544p0, rest = 0x1.0b4611a626331p-34;
  const double turns = __builtin_rint(x * 0.63661977236758134308);
  if (!(__builtin_fabs(turns) < 1 << 20)) {
    y[0] = y[1] = __builtin_nan("");
    return 0;
  }
  const double near = x - turns * first, correction = turns * rest;
  y[0] = near - correction;
  y[1] = (near - y[0]) - correction;
  return static_cast<int>(turns);
}
