#include "sample/elementary.h"

#include <cmath>
#include <numbers>

namespace quern {

double log_of(double x) {
  int exponent;
  double m = std::frexp(x, &exponent);  // exact
  if (m < std::numbers::sqrt2 / 2) {
    m *= 2;
    --exponent;
  }
  // ln(m) = 2 artanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
  double s = (m - 1) / (m + 1);
  double square = s * s;
  double sum = 0;
  for (int k = 21; k >= 3; k -= 2) sum = (sum + 1.0 / k) * square;
  return exponent * std::numbers::ln2 + (2 * s + 2 * s * sum);
}

}  // namespace quern
