// Plain SGD, w kept as scale * v: src/slender/curvature/metric.py, Fixed.
#include "common.h"

extern "C" void run(const Problem *p, Iterate *out, double eta0) {
    const Problem &q = *p;
    real *v = out->w;
    double scale = 1, b = 0, total = 0;
    for (i64 t = 0; t < q.visits; t++) {
        i64 i = q.order[t];
        const real *x = q.X + i * q.d;
        double z = q.y[i] * (scale * dot(x, v, q.d) + b);
        if ((t & q.report) == 0) total += value(z);
        double eta = eta0 / (1 + q.lam * eta0 * t);
        double e = std::min(eta, (double)q.cap[i]) * q.y[i] * slope(z);
        scale *= std::max(0.0, 1 - eta * q.lam);
        if (scale < 1e-6) {
            for (i64 j = 0; j < q.d; j++) v[j] *= (real)scale;
            scale = 1;
        }
        axpy((real)(-e / scale), x, v, q.d);
        b -= e * q.beta * q.beta;
    }
    for (i64 j = 0; j < q.d; j++) v[j] *= (real)scale;
    out->b = b;
    out->total = total;
}
