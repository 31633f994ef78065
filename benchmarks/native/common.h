// What the loops share.  REAL is float or double.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using real = REAL;
using i64 = std::int64_t;

static inline real dot(const real *a, const real *b, i64 d) {
    real total = 0;
    for (i64 j = 0; j < d; j++) total += a[j] * b[j];
    return total;
}

static inline void axpy(real a, const real *x, real *w, i64 d) {
    for (i64 j = 0; j < d; j++) w[j] += a * x[j];
}

// F(z) = ln(1 + e^-z)
static inline double value(double z) { return std::max(0.0, -z) + std::log1p(std::exp(-std::fabs(z))); }

static inline double slope(double z) {
    double e = std::exp(-std::fabs(z));
    return z >= 0 ? -e / (1 + e) : -1 / (1 + e);
}

// A binary problem, visited in order, and where the fit stands.
struct Problem {
    const real *X;           // (n, d)
    const std::int8_t *y;    // (n,) +1 or -1
    const i64 *order;        // (visits,)
    const real *cap;         // (n,) longest step, over the metric's largest entry
    i64 visits, d, report;   // a loss is summed up when t & report is 0
    double lam, beta;
};

struct Iterate {
    real *w;  // (d,)
    double b, total;
};
