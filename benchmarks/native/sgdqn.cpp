// SGD-QN as corrected in 2010: src/slender/curvature/secant.py, Accumulated.
#include "common.h"

extern "C" void run(const Problem *p, Iterate *out, double t0, i64 period) {
    const Problem &q = *p;
    const i64 d = q.d;
    const double lam = q.lam;
    real *w = out->w;
    std::vector<real> D(d, (real)(1 / (lam * t0))), w1(d);
    double D_b = 1 / (lam * t0), top = D_b, b = 0, b1 = 0, total = 0;
    i64 left = period, last = 0;
    for (i64 t = 0; t < q.visits; t++) {
        i64 i = q.order[t];
        const real *x = q.X + i * d;
        double y = q.y[i], z = y * (dot(x, w, d) + b), s = slope(z);
        if ((t & q.report) == 0) total += value(z);
        if (left == period && t > 0) {
            double before = slope(y * (dot(x, w1.data(), d) + b1));
            if (before != s) {
                double change = y * (s - before), steps = t + 1 - last;
                last = t + 1;
                const real l = (real)lam, least = (real)(0.1 * lam), most = (real)(100 * lam),
                           unmoved = (real)(101 * lam), n = (real)steps, dg = (real)change;
                real largest = 0;
                for (i64 k = 0; k < d; k++) {
                    real moved = w[k] - w1[k];
                    real r = moved != 0  ? std::min(most, std::max(least, l + dg * x[k] / moved))
                             : x[k] != 0 ? unmoved
                                         : l;
                    D[k] /= 1 + n * r * D[k];
                    largest = std::max(largest, D[k]);
                }
                top = largest;
                if (q.beta != 0) {
                    double moved = b - b1, r = 101 * lam;
                    if (moved != 0) r = std::min(100 * lam, std::max(0.1 * lam, change * q.beta * q.beta / moved));
                    D_b /= 1 + steps * r * D_b;
                    top = std::max(top, D_b);
                }
            }
        }
        if (--left == 0) {
            left = period;
            b1 = b;
            real a = (real)(lam * period);
            for (i64 k = 0; k < d; k++) {
                w1[k] = w[k];
                w[k] *= std::max((real)0, 1 - a * D[k]);
            }
        }
        double e = std::min(1.0, q.cap[i] / top) * y * s;
        const real a = (real)-e;
        for (i64 k = 0; k < d; k++) w[k] += a * D[k] * x[k];
        b -= e * D_b * q.beta * q.beta;
    }
    out->b = b;
    out->total = total;
}
