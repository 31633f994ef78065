// oLBFGS: src/slender/curvature/lbfgs.py, Pairs.
#include "common.h"

extern "C" void run(const Problem *problem, Iterate *out, double eta0, double t0, i64 memory, double damping) {
    const Problem &q = *problem;
    const i64 d = q.d, k = d + 1, places = memory + 1;
    const double lam = q.lam, infinity = std::numeric_limits<double>::max();
    real *w = out->w;
    std::vector<real> S(places * k), Y(places * k), g(k), p(k);
    std::vector<double> rho(places), gamma(places), alpha(memory);
    double b = 0, total = 0;
    i64 held = 0, next = 0;
    for (i64 t = 0; t < q.visits; t++) {
        i64 i = q.order[t];
        const real *x = q.X + i * d;
        double y = q.y[i], z = y * (dot(x, w, d) + b), slope_z = slope(z);
        if ((t & q.report) == 0) total += value(z);
        double eta = eta0 / (1 + t / t0);

        real ww = 0, lam_r = (real)lam;
        for (i64 j = 0; j < d; j++) {
            g[j] = lam_r * w[j];
            ww += w[j] * w[j];
        }
        axpy((real)(y * slope_z), x, g.data(), d);
        g[d] = (real)(y * slope_z * q.beta);
        if (dot(g.data(), g.data(), k) == 0) continue;

        std::copy(g.begin(), g.end(), p.begin());
        i64 at = next;
        double mean = 0;
        for (i64 m = 0; m < held; m++) {
            at = at > 0 ? at - 1 : places - 1;
            alpha[m] = rho[at] * dot(&S[at * k], p.data(), k);
            axpy((real)-alpha[m], &Y[at * k], p.data(), k);
            mean += gamma[at];
        }
        if (held) {
            real factor = (real)(mean / held);
            for (i64 j = 0; j < k; j++) p[j] *= factor;
        }
        for (i64 m = held - 1; m >= 0; m--) {
            double beta = rho[at] * dot(&Y[at * k], p.data(), k);
            axpy((real)(alpha[m] - beta), &S[at * k], p.data(), k);
            at = at < places - 1 ? at + 1 : 0;
        }

        double xp = dot(x, p.data(), d) + q.beta * p[d];
        double gp = dot(g.data(), p.data(), k), pp = dot(p.data(), p.data(), k);
        double bend = 0.25 * xp * xp + (lam + damping) * pp;
        if (!(gp > 0 && bend <= infinity)) {
            held = 0;
            continue;
        }
        if (bend > 0) eta = std::min(eta, gp / bend);
        if (!(ww + eta * eta * pp < 1e30)) {
            held = 0;
            continue;
        }
        real *s = &S[next * k], *u = &Y[next * k], a = (real)-eta;
        for (i64 j = 0; j < k; j++) s[j] = a * p[j];
        for (i64 j = 0; j < d; j++) w[j] += s[j];
        b += q.beta * s[d];
        double after = slope(y * (dot(x, w, d) + b));
        if (after == slope_z) continue;
        double change = y * (after - slope_z);
        real mu = (real)(lam + damping);
        for (i64 j = 0; j < d; j++) u[j] = mu * s[j];
        axpy((real)change, x, u, d);
        u[d] = (real)(damping * s[d] + change * q.beta);
        double su = dot(s, u, k), ss = dot(s, s, k), uu = dot(u, u, k);
        if (su > 1e-4 * std::sqrt(ss) * std::sqrt(uu)) {
            rho[next] = 1 / su;
            gamma[next] = su / uu;
            next = next < places - 1 ? next + 1 : 0;
            held = std::min(held + 1, memory);
        }
    }
    out->b = b;
    out->total = total;
}
