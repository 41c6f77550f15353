// Calls body.template operator()<N>() for each of the given sizes: a test over n in one line.
//   for_sizes<2, 3, 8>([]<int N>() { ... });
#pragma once

namespace geores::manifold {

template <int... Sizes, class Body>
void for_sizes(const Body& body) {
  (body.template operator()<Sizes>(), ...);
}

}  // namespace geores::manifold
