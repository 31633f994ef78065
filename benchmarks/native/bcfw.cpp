// Algorithm 4 of seed 003 on dense float rows: the loop of slender/solvers/bcfw.py, one_by_one.
#include "common.h"

// late and W are (C, d), beta is (n, C)
extern "C" void run(const real *X, i64 n, i64 d, i64 C, const i64 *order, const std::int32_t *y,
                    const double *U, const double *sq, real *W, real *late, double *beta) {
    std::vector<double> score(C), before(C);
    double steps = 0;
    for (i64 p = 0; p < n; p++) {
        const i64 i = order[p];
        const real *x = X + i * d;
        double *b = beta + i * C;
        for (i64 c = 0; c < C; c++) {
            score[c] = dot(x, W + c * d, d);
            before[c] = b[c];
        }
        i64 k = y[i];
        double worst = 0;
        for (i64 c = 0; c < C; c++)
            if (c != y[i] && score[c] - score[y[i]] + 1 > worst) {
                k = c;
                worst = score[c] - score[y[i]] + 1;
            }
        double slope = 0, square = 0;
        for (i64 c = 0; c < C; c++) {
            const double delta = U[i] * ((c == y[i]) - double(c == k)) - b[c];
            slope += delta * ((c == y[i]) - score[c]);
            square += delta * delta;
        }
        square *= sq[i];
        const double gamma =
            square > 0 ? std::min(1.0, std::max(0.0, slope / square)) : (slope > 0 ? 1.0 : 0.0);
        steps += 1;
        const double earlier = 0.5 * steps * (steps - 1);
        for (i64 c = 0; c < C; c++) {
            const double corner = U[i] * ((c == y[i]) - double(c == k));
            b[c] = gamma == 1.0 ? corner : b[c] + gamma * (corner - b[c]);
            const double moved = b[c] - before[c];
            if (moved == 0) continue;
            axpy(real(earlier * moved), x, late + c * d, d);
            axpy(real(moved), x, W + c * d, d);
        }
    }
}
