// LaRank, Crammer-Singer, dense float rows: the loop of slender/solvers/larank.py, sweep, with
// every pattern's coefficients in a row of C numbers.
#include "common.h"

namespace {
enum { PROCESS, REPROCESS, OPTIMIZE };

struct Solver {
    const real *X;
    i64 d, C;
    const std::int32_t *y;
    const double *U, *sq;
    double tau, kappa;
    i64 inner;
    real *W;
    double *beta;
    std::vector<i64> listed, place;
    std::vector<std::int32_t> classes;
    std::vector<double> b, before, score;

    void list(i64 i, bool wanted) {
        if (wanted && place[i] < 0) {
            place[i] = i64(listed.size());
            listed.push_back(i);
        } else if (!wanted && place[i] >= 0) {
            const i64 last = listed.back();
            listed[place[i]] = last;
            place[last] = place[i];
            place[i] = -1;
            listed.pop_back();
        }
    }

    double visit(i64 i, bool used_only, i64 &operations) {
        const real *x = X + i * d;
        double *mine = beta + i * C;
        i64 m = 0;
        for (i64 c = 0; c < C; c++)
            if (!used_only || mine[c] != 0) {
                classes[m] = std::int32_t(c);
                b[m] = before[m] = mine[c];
                m++;
            }
        for (i64 q = 0; q < m; q++) score[q] = dot(x, W + classes[q] * d, d);
        double gain = 0;
        i64 done = 0;
        while (done < inner) {
            i64 up = -1, down = 0;
            double g_up = -std::numeric_limits<double>::infinity(), g_down = -g_up;
            for (i64 q = 0; q < m; q++) {
                const bool own = classes[q] == y[i];
                const double g = double(own) - score[q];
                if ((own ? U[i] : 0.0) - b[q] > kappa * U[i] && g > g_up + 1e-9) up = q, g_up = g;
                if (g < g_down - 1e-9) down = q, g_down = g;
            }
            if (up < 0 || g_up - g_down <= tau) break;
            const double bound = classes[up] == y[i] ? U[i] : 0.0, room = bound - b[up];
            const double slope = g_up - g_down;
            const double step = sq[i] <= 0 ? room : std::min(slope / (2 * sq[i]), room);
            b[up] = step == room ? bound : b[up] + step;
            b[down] -= step;
            score[up] += step * sq[i];
            score[down] -= step * sq[i];
            gain += step * slope - step * step * sq[i];
            done++;
        }
        operations += m;
        if (done) {
            bool support = false, corner = true;
            for (i64 q = 0; q < m; q++) {
                const double moved = b[q] - before[q];
                if (moved != 0) {
                    axpy(real(moved), x, W + classes[q] * d, d);
                    operations++;
                }
                mine[classes[q]] = b[q];
                support = support || b[q] != 0;
                corner = corner && (b[q] == 0 || std::fabs(b[q]) == U[i]);
            }
            list(i, support && !corner);
        }
        return gain;
    }
};
}  // namespace

// beta is (n, C); one pass over the order
extern "C" void run(const real *X, i64 n, i64 d, i64 C, const i64 *order, const std::int32_t *y,
                    const double *U, const double *sq, real *W, double *beta, const double *draws,
                    double tau, double kappa, i64 inner) {
    Solver s{X, d, C, y, U, sq, tau, kappa, inner, W, beta};
    s.place.assign(n, -1);
    s.classes.resize(C);
    s.b.resize(C);
    s.before.resize(C);
    s.score.resize(C);
    double rates[3] = {0, 0, 0};
    i64 position = 0, kind = PROCESS;
    while (true) {
        if (s.listed.empty()) kind = PROCESS;
        i64 i, operations = 0;
        if (kind == PROCESS) {
            if (position >= n) return;
            i = order[position++];
        } else {
            i = s.listed[i64(*draws++ * double(s.listed.size()))];
        }
        const double rate = s.visit(i, kind == OPTIMIZE, operations) / double(operations);
        rates[kind] = rates[kind] == 0 ? rate : rates[kind] + 0.05 * (rate - rates[kind]);
        const double floor = (rates[0] + rates[1] + rates[2]) / 20;
        for (double &r : rates) r = std::max(r, floor);
        const double r = *draws++ * (rates[0] + rates[1] + rates[2]);
        kind = r <= rates[0] ? PROCESS : r <= rates[0] + rates[1] ? REPROCESS : OPTIMIZE;
    }
}
