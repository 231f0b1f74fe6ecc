"""A reference verifier of proofs in format 2, written from the page docs/proof_format.md alone, in
exact rational arithmetic.

    python reference_verifier.py PROOF.npz DATA.npz        DATA has the arrays X and y, and T with
    scores of test rows

It covers the linear machines psvm and penalised psvm with p = 1 and 2, odm, conic, and m3svm with p
= 2 and the hinge loss, scores of the first three, and zero_one, ramp and l0 with their trees, also
with the kernels rbf, laplacian and polynomial with c₀ ≥ 0. numpy solves systems in doubles, whose
solutions need not be good to be valid. It also reads the arrays; numbers of a file are doubles,
hence fractions; square roots are rounded up.
"""

import hashlib
import io
import json
import math
import sys
import zipfile
import zlib
from fractions import Fraction as F
from itertools import combinations, islice

import numpy as np


def demand(condition, why):
    if not condition:
        raise ValueError(why)


def once(pairs):
    demand(len(dict(pairs)) == len(pairs), "a key of the header occurs twice")
    return dict(pairs)


def number(text):
    value = int(text) if text.lstrip("-").isdigit() else float(text)
    demand(
        abs(value) <= (2**53 if type(value) is int else sys.float_info.max),
        f"{text[:40]} is out of range",
    )
    return value


def read_proof(path, X, y, T):
    """Header and arrays of a proof; no array is read before its size is known to be right for the
    data.
    """
    with zipfile.ZipFile(path) as archive:
        members = {member.filename: member for member in archive.infolist()}
        demand(len(members) == len(archive.infolist()), "a member of the archive occurs twice")
        for name, member in members.items():
            demand(
                member.compress_type in (0, 8) and not member.flag_bits & 1,
                f"{name} is packed in another way",
            )
            demand(
                member.file_size <= max(2**20, 64 * member.compress_size),
                f"{name} is packed too tightly",
            )
        demand(
            members["header.json"].file_size <= 2**20 and members["digest.txt"].file_size == 64,
            "wrong sizes",
        )
        text = archive.read("header.json")
        numbers = dict.fromkeys(("parse_float", "parse_int", "parse_constant"), number)
        header = json.loads(text.decode(), object_pairs_hook=once, **numbers)
        told = checked(header, X, y, T)
        demand(
            members.keys() == {"header.json", "digest.txt", *(f"{name}.npy" for name in told)},
            "other members",
        )
        digest, arrays = hashlib.sha256(text), {}
        for name, (dtype, shape) in sorted(told.items()):
            size = math.prod(shape) * np.dtype(dtype).itemsize
            demand(members[f"{name}.npy"].file_size <= size + 2**16, f"{name} has another size")
            content = archive.read(f"{name}.npy")
            digest.update(content)
            stream = io.BytesIO(content)
            found = np.lib.format.read_magic(stream), *np.lib.format.read_array_header_1_0(stream)
            same = found == ((1, 0), shape, False, np.dtype(dtype)) and stream.tell() + size == len(
                content
            )
            demand(same, f"{name} is not as the header says")
            values = np.frombuffer(content, dtype, offset=stream.tell()).reshape(shape)
            arrays[name] = rational(values) if dtype == "<f8" else values.tolist()
        demand(
            archive.read("digest.txt").decode() == digest.hexdigest(),
            "the contents do not match their digest",
        )
    return header, arrays


def rational(values):
    values = np.asarray(values)
    return F(values.item()) if values.ndim == 0 else [rational(row) for row in values]


def fingerprint(X, codes):
    part = X[:: max(1, len(X) // 32)]
    crc = zlib.crc32(f"{X.shape[0]}x{X.shape[1]}".encode())
    for piece in (
        (part != 0).sum(axis=1).astype("<i8"),
        np.nonzero(part)[1].astype("<i8"),
        part[part != 0],
    ):
        crc = zlib.crc32(piece.tobytes(), crc)
    return f"{crc:08x}-{zlib.crc32(np.array(codes, '<i8').tobytes()):08x}"


def tested(test, T, columns):
    """The number of test rows, if a header names those that are given; 0 if it names none."""
    keys(test, "rows digest", "test")
    demand(
        T is not None and json.dumps(test["rows"]) == str(len(T)) and T.shape[1] == columns,
        "other test rows",
    )
    digest = hashlib.sha256(
        f"{T.shape[0]}x{T.shape[1]}".encode() + (T.astype("<f8") + 0.0).tobytes()
    ).hexdigest()
    demand(test["digest"] == digest, "these are other test rows")
    return len(T)


# The header: shapes of arrays by letters; those that the data do not tell are free. What is not <f8
# is in DTYPES.
COMMON = {"statement.weight": "n", "model.coef": "d", "model.intercept": ""}
ALPHA = {"dual.alpha": "n", "dual.code": "n", "dual.between": "b"}
CONIC = {"dual.gamma": "n", "dual.alpha": "n", "dual.lam": ""}
TREE = (
    "branch:N bounds:N upper:R price:R side:R at:R centre:d flip_count:R flip_row:F beta_count:R"
    " beta_row:V beta:V"
)
TREE = {f"tree.{entry[:-2]}": entry[-1] for entry in TREE.split()}
CLASSES = {"model.coef": "dc", "model.intercept": "c", "dual.alpha": "nc", "dual.flow": "dm"}
DTYPES = dict.fromkeys(["tree.branch", "tree.bounds", "tree.flip_count", "tree.flip_row"], "<i4")
DTYPES |= dict.fromkeys(["tree.beta_count", "tree.beta_row", "tree.side"], "<i4")
DTYPES |= {"dual.code": "|u1", "scores.label": "|u1", "model.support": "<i8"}
EXPANSION = {"model.support": "s", "model.dual_coef": "s", "model.intercept": ""}
KERNELS = {"rbf": "name gamma", "laplacian": "name gamma", "polynomial": "name degree gamma coef0"}
SCORES = {"scores.lower": "t", "scores.upper": "t", "scores.label": "t"}
NOTHING = F(sys.float_info.max)
# Intercepts, hyper-parameters of each form, and arrays.
FORMULATIONS = {
    "psvm": ("free", ["C p"], ALPHA),
    "penalised psvm": ("penalised none", ["C p"], ALPHA),
    "odm": ("penalised none", ["C1 C2 D"], {"dual.theta": "n"}),
    "conic": ("penalised none", ["lam", "kappa"], CONIC | {"model.V": "rq"}),
    "zero_one": ("penalised none", ["lam", "k"], CONIC | TREE),
    "ramp": ("free", ["C"], TREE),
    "l0": ("free", ["C"], TREE),
    "m3svm": ("penalised", ["lam p eps loss norm"], CLASSES),
}
RANGES = {
    "p": lambda x: x >= 1,
    "C C1 C2 lam eps": lambda x: x > 0,
    "D": lambda x: 0 <= x < 1,
    "k": lambda x: x >= 0,
}
RANGES |= {"kappa": lambda x: 0 <= x <= 1, "norm": lambda x: type(x) is int and x in (1, 2)}


def keys(entry, names, what):
    demand(
        isinstance(entry, dict) and entry.keys() == set(names.split()),
        f"{what} has not exactly the keys {names}",
    )


def checked(header, X, y, T):
    """dtype and shape of each array, if the header is that of a proof about these data."""
    keys(
        header, "format version statement claim arrays" + " test" * ("test" in header), "the header"
    )
    demand(
        json.dumps([header["format"], header["version"]]) == '["svmcvx-proof", 2]',
        "this is no proof of version 2",
    )
    statement, claim, told = header["statement"], header["claim"], header["arrays"]
    keys(
        statement,
        "formulation hyperparameters kernel intercept rows columns classes fingerprint",
        "the statement",
    )
    keys(claim, "lower upper kind stated", "the claim")
    name, given, intercept = (
        statement[key] for key in ("formulation", "hyperparameters", "intercept")
    )
    kernel, counting = statement["kernel"], name in ("zero_one", "ramp", "l0")
    demand(
        name in FORMULATIONS and (kernel is None or counting),
        f"{name!r}, or its kernel, is not known here",
    )
    if kernel is not None:
        demand(
            isinstance(kernel, dict) and kernel.get("name") in KERNELS,
            "the kernel is not known here",
        )
        keys(kernel, KERNELS[kernel["name"]], "the kernel")
        numbers = [kernel["gamma"], kernel.get("degree", 1), kernel.get("coef0", 0)]
        demand(
            {*map(type, numbers)} <= {int, float} and type(numbers[1]) is int,
            "a number of the kernel is none",
        )
        demand(
            numbers[0] > 0 and 1 <= numbers[1] <= 1000, "a number of the kernel is out of its range"
        )
        demand(numbers[1] <= 16, "fractions of so large a degree are not known here")
        demand(numbers[2] >= 0, "a kernel that may be indefinite is not known here")
    intercepts, forms, arrays = FORMULATIONS[name]
    demand(intercept in intercepts.split(), f"{name} has not the intercept {intercept!r}")
    known = given.get("loss", "hinge") == "hinge" and given.get("p", 2) in (
        (2,) if name == "m3svm" else (1, 2)
    )
    demand(known, "the loss, or p, is not known here")
    demand(
        any(given.keys() == set(form.split()) for form in forms),
        f"the hyper-parameters of {name} are {forms}",
    )
    for names, inside in RANGES.items():
        for key in given.keys() & set(names.split()):
            demand(
                type(given[key]) in (int, float) and inside(given[key]),
                f"{key} is out of its range",
            )
    (n, d), labels, c = X.shape, sorted(set(y)), len(set(y))
    same = json.dumps([statement["rows"], statement["columns"]]) == json.dumps([n, d])
    demand(
        same and len(y) == n and statement["classes"] == labels,
        "the data have another shape, or other labels",
    )
    demand(c == 2 or (c > 2 and name == "m3svm"), f"{name} has not {c} classes")
    demand(
        statement["fingerprint"] == fingerprint(X, [labels.index(label) for label in y]),
        "these are other data",
    )
    ends = claim["lower"], claim["upper"], claim["stated"]
    demand(
        {*map(type, ends)} <= {int, float, type(None)} and ends[:2] != (None, None),
        "the claim has no end",
    )
    demand(
        None in ends[:2] or ends[0] <= ends[1],
        "the lower end that is claimed is above the upper one",
    )
    searched = ("mixed-integer", "enumeration", "local") if counting else ("convex",)
    demand(claim["kind"] in searched, f"{name} has no proofs of the kind {claim['kind']!r}")
    demand(ends[2] is None or claim["kind"] in searched[:2] != ("convex",), "an end is stated")
    shapes, priced = (
        COMMON | arrays,
        {"dual.lam", "tree.price"} if "k" not in given and "kappa" not in given else set(),
    )
    priced |= (
        {"tree.side", "tree.at", "tree.centre"}
        if intercept != "free"
        else {"tree.centre"}
        if kernel
        else set()
    )
    scored = SCORES if "test" in header else {}
    demand(scored or T is None, "nothing is claimed of test rows")
    demand(
        not scored or name in ("psvm", "penalised psvm", "odm"),
        f"scores of {name} are not known here",
    )
    shapes |= scored
    if kernel is not None:
        del shapes["model.coef"]
        shapes |= EXPANSION
    needed = {*(EXPANSION if kernel else ("model.coef", "model.intercept")), *scored}
    demand(needed <= told.keys() <= shapes.keys() - priced, "an array is missing or strange")
    demand(
        claim["kind"] == "enumeration" or not TREE.keys() & told.keys(),
        "only an enumeration has a tree",
    )
    sizes = {"n": n, "d": d, "c": c, "r": d + (intercept == "penalised"), "m": c * (c - 1) // 2}
    sizes["t"] = tested(header["test"], T, d) if scored else 0
    most = dict.fromkeys("NRFV", 2**27) | {"s": n, "q": max(n, sizes["r"])}
    for key, entry in told.items():
        keys(entry, "dtype shape", key)
        demand(entry["dtype"] == DTYPES.get(key, "<f8"), f"{key} has another dtype")
        for size, letter in zip(entry["shape"], shapes[key], strict=True):
            fits = type(size) is int and 0 <= size == sizes.setdefault(letter, size) <= most.get(
                letter, size
            )
            demand(fits, f"{key} has another shape")
    return {key: (entry["dtype"], tuple(entry["shape"])) for key, entry in told.items()}


def dot(a, b):
    return sum(map(F.__mul__, a, b), F(0))


def columns(matrix):
    return [list(column) for column in zip(*matrix)]


def combined(coefficients, rows):
    """Σ vᵢ rowᵢ."""
    return [dot(coefficients, column) for column in columns(rows)]


def digits(x, count, rounded):
    """x ≥ 0 rounded to so many significant binary digits, up by math.ceil and down by math.floor."""
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    unit = F(2) ** (exponent + (x >= F(2) ** exponent) - count)
    return rounded(x / unit) * unit


def root(x):
    """At least √x."""
    shift = 128 + max(0, x.denominator.bit_length() - x.numerator.bit_length())
    return F(math.isqrt((x.numerator << 2 * shift) // x.denominator) + (x > 0), 2**shift)


def exponential(x):
    """exp(−x) for x ≥ 0, off by less than 2⁻¹⁰⁰."""
    unit, found = 2**300, F(x <= 128)
    step, term = F(round(-min(x, 128) * unit), 2**8 * unit), found
    for i in range(1, 64):
        term = F(round(term * step / i * unit), unit)
        found += term
    for _ in range(8):
        found = F(round(found * found * unit), unit)
    return found


def inverse_form(Q, c):
    """c'Q⁻¹c by elimination, which proves that the symmetric matrix Q is positive definite."""
    A = [[*row, x] for row, x in zip([*Q, c], [*c, F(0)])]
    for k in range(len(c)):
        demand(A[k][k] > 0, "I − Σ γᵢxᵢxᵢ' is not positive definite")
        for i in range(k + 1, len(A)):
            A[i] = [a - A[i][k] / A[k][k] * b for a, b in zip(A[i], A[k])]
    return -A[-1][-1]


OFF = F(1, 2**100)  # what an entry of a kernel with exp may be off by
BY_ROW = {"dual.alpha", "dual.code", "dual.theta", "dual.gamma"}
# the share of its bound by which a multiplier may be outside; it is put inside then
ROUNDING = F(1, 2**40)


class Problem:
    """The rows that take part, with the constant 1 where it is penalised and there are two classes;
    numbers by their names.
    """

    def __init__(self, statement, arrays, X, y):
        self.arrays, self.family, self.intercept = (
            arrays,
            statement["formulation"].split()[-1],
            statement["intercept"],
        )
        given = {
            key: F(value) for key, value in statement["hyperparameters"].items() if key != "loss"
        }
        self.__dict__ |= given
        self.kernel, self.every = statement["kernel"], rational(X)
        self.off = OFF if self.kernel and self.kernel["name"] != "polynomial" else F(0)
        weight = arrays.get("statement.weight", [F(1)] * len(y))
        demand(min(weight) >= 0 and max(weight) > 0, "a weight is negative, or all are zero")
        self.index = [i for i, s in enumerate(weight) if s > 0]
        constant = [F(1)] if self.intercept == "penalised" and self.family != "m3svm" else []
        self.rows = [[*row, *constant] for row in self.taken(self.every)]
        self.s, self.codes = (
            self.taken(weight),
            self.taken([statement["classes"].index(label) for label in y]),
        )
        self.y = [F(2 * code - 1) for code in self.codes]
        self.dual = {name[5:]: self.taken(arrays[name]) for name in BY_ROW & arrays.keys()}
        # The weight that may have a margin below 1, where it has no price.
        self.budget = (
            F(float(self.kappa) * math.fsum(self.s)) if "kappa" in given else given.get("k")
        )

    def taken(self, entries):
        return [entries[i] for i in self.index]

    def signed(self, v):
        """Σ vᵢyᵢxᵢ and its squared length."""
        w = combined(list(map(F.__mul__, v, self.y)), self.rows)
        return w, dot(w, w)

    def model(self):
        """The margins u of a model of two classes, and ‖w‖² with b² where the intercept is
        penalised.
        """
        b = self.arrays["model.intercept"]
        demand(
            b == 0 or self.intercept != "none", "the model has an intercept, the formulation none"
        )
        if self.kernel:
            support, v = self.arrays["model.support"], self.arrays["model.dual_coef"]
            demand(
                len({*support} & {*range(len(self.every))}) == len(support),
                "the support are no different rows",
            )
            rows, size = [self.every[j] for j in support], self.off * sum(map(abs, v))
            f = [
                sum(x * self.inner(row, other) for x, other in zip(v, rows))
                for row in [*self.taken(self.every), *rows]
            ]
            square = dot(v, f[len(self.y) :]) + size * sum(map(abs, v))
            return [y * (x + b) - size for y, x in zip(self.y, f)], square + b * b * (
                self.intercept == "penalised"
            )
        w = self.arrays["model.coef"]
        u = [y * (sum(map(F.__mul__, w, row)) + b) for y, row in zip(self.y, self.rows)]
        return u, dot(w, w) + b * b * (self.intercept == "penalised")

    def inner(self, a, b):
        """The kernel of two rows of the data, without a constant."""
        if self.kernel is None or self.kernel["name"] == "polynomial":
            product, kernel = dot(a, b), self.kernel or {"gamma": 1, "coef0": 0, "degree": 1}
            return (F(kernel["gamma"]) * product + F(kernel["coef0"])) ** kernel["degree"]
        power = 2 if self.kernel["name"] == "rbf" else 1
        return exponential(F(self.kernel["gamma"]) * sum(abs(x - z) ** power for x, z in zip(a, b)))

    def upper_psvm(self):
        u, square = self.model()
        return square / 2 + self.C * dot(self.s, [max(F(0), 1 - m) ** int(self.p) for m in u])

    def multipliers_psvm(self):
        caps, alpha = [self.C * s for s in self.s], self.dual.get("alpha")
        if "code" in self.dual:
            between, code = iter(self.arrays["dual.between"]), self.dual["code"]
            proper = self.p == 1 and alpha is None and sum(code) == sum(self.arrays["dual.code"])
            alpha = [next(between) if k == 2 else k * cap for k, cap in zip(code, caps)]
            demand(proper and not [*between], "there are too many multipliers")
        of_the_model = alpha is None and self.p == 2
        if of_the_model:
            alpha = [2 * cap * max(F(0), 1 - m) for m, cap in zip(self.model()[0], caps)]
        for i, a, cap in zip(self.index, alpha, caps):
            demand(
                a >= 0 and (self.p > 1 or a <= cap * (1 + ROUNDING)),
                f"the multiplier of row {i} is out of bounds",
            )
        alpha = alpha if self.p > 1 else list(map(min, alpha, caps))
        if self.intercept == "free":
            sums = [sum(a for a, y in zip(alpha, self.y) if y == sign) for sign in (-1, 1)]
            balanced = of_the_model or max(sums) - min(sums) <= ROUNDING * max(sums)
            demand(balanced, "the multipliers do not satisfy y'α = 0")
            alpha = [a * min(sums) / (sums[y > 0] or 1) for a, y in zip(alpha, self.y)]
        return alpha

    def gain_psvm(self, i, a):
        return a - (a * a / (4 * self.C * self.s[i]) if self.p == 2 else 0)

    def lower_psvm(self):
        alpha = self.multipliers_psvm()
        return sum(self.gain_psvm(i, a) for i, a in enumerate(alpha)) - self.signed(alpha)[1] / 2

    def upper_odm(self):
        u, square = self.model()
        losses = [(self.C1 if m < 1 else self.C2) * max(F(0), abs(1 - m) - self.D) ** 2 for m in u]
        return square / 2 + dot(self.s, losses) / sum(self.s)

    def multipliers_odm(self):
        u, shares = self.model()[0], [s / sum(self.s) for s in self.s]
        slopes = ((self.C1 if m < 1 else -self.C2) * max(F(0), abs(1 - m) - self.D) for m in u)
        return self.dual.get("theta") or [2 * c * slope for c, slope in zip(shares, slopes)]

    def gain_odm(self, i, t):
        return (
            t
            - self.D * abs(t)
            - t * t * sum(self.s) / (4 * (self.C1 if t > 0 else self.C2) * self.s[i])
        )

    def lower_odm(self):
        theta = self.multipliers_odm()
        return sum(self.gain_odm(i, t) for i, t in enumerate(theta)) - self.signed(theta)[1] / 2

    def scores(self, T, lower, upper):
        """Both ends of the score of every optimal machine on each test row."""
        gain, a = (
            getattr(self, f"gain_{self.family}"),
            getattr(self, f"multipliers_{self.family}")(),
        )
        v, free, n = self.signed(a)[0], self.intercept == "free", len(a)
        constant = [F(1)] if self.intercept == "penalised" else []
        w = [*self.arrays["model.coef"], *([self.arrays["model.intercept"]] if constant else [])]
        apart, centre = (
            dot(*[[x - z for x, z in zip(v, w)]] * 2),
            [(x + z) / 2 for x, z in zip(v, w)],
        )
        base = lower - upper + apart / 4
        square, price = max(float(-base), 2.0**-200), self.family == "odm" or self.p == 2
        up = [
            self.C * s - x if self.family == "psvm" and self.p == 1 else math.inf
            for x, s in zip(a, self.s)
        ]
        down = a if self.family == "psvm" else [math.inf] * n
        cost = [
            s
            * (self.C if self.family == "psvm" else (self.C1 if x >= 0 else self.C2) / sum(self.s))
            for x, s in zip(a, self.s)
        ]
        bend = np.array([float(1 / (2 * c)) if price else 0.0 for c in cost])
        room = np.array([float(min(*ends)) for ends in zip(up, down)])
        with np.errstate(divide="ignore"):
            added = 2 * bend + square / room**2
        E = sorted(np.flatnonzero(np.isfinite(added)).tolist(), key=lambda i: added[i])[:400]
        middle = (
            [sum(column) / len(E) for column in columns([self.rows[i] for i in E])]
            if free and E
            else [F(0)] * len(v)
        )
        near = np.array([[float(x - z) for x, z in zip(self.rows[i], middle)] for i in E]).reshape(
            len(E), len(v)
        )
        K = near @ near.T
        K += np.diag(added[E] + 1e-14 * np.abs(np.diag(K)).max(initial=0.0))
        found = []
        for row in T:
            t = [*row, *constant]
            c = (
                np.linalg.solve(K, near @ np.array([float(x - z) for x, z in zip(t, middle)]))
                if E
                else []
            )
            if free and E:
                ones = np.linalg.solve(K, np.ones(len(E)))
                c = c + ones * (1 - c.sum()) / ones.sum()
            c = {i: F(x) for i, x in zip(E, c)}
            if free and E:
                c[E[0]] += 1 - sum(c.values())
            tried, ends = [c] * (not free or bool(E)) + [{}] * (not free), {}
            for s in (1, -1):
                single = [
                    {i: F(1)}
                    for i in range(n)
                    if free and (up if s * self.y[i] > 0 else down)[i] > 0
                ]
                ends[s] = max(
                    (
                        self.end(s, t, one, base, centre, a, gain, (up, down), bend)
                        for one in tried + single
                    ),
                    default=-math.inf,
                )
            found.append((ends[1], -ends[-1]))
        return found

    def end(self, s, t, c, base, centre, a, gain, rooms, bend):
        """What one choice of coefficients says of s times the score; the step is any that is within
        the bounds.
        """
        h = [x - z for x, z in zip(t, combined(c.values(), [self.rows[i] for i in c]))] if c else t
        most = [
            abs((rooms[0] if s * self.y[i] * x > 0 else rooms[1])[i] / x) for i, x in c.items() if x
        ]
        curve = float(dot(h, h)) / 4 + sum(bend[i] * float(x) ** 2 for i, x in c.items()) / 2
        wanted = math.sqrt(max(float(-base), 2.0**-200) / curve) if curve > 0 else 2.0**500
        eta = min(F(wanted), *(F(m) * (1 - F(1, 2**30)) for m in most if m < math.inf), F(2) ** 500)
        if eta <= 0:
            return -math.inf
        gained = sum(gain(i, a[i] + s * eta * self.y[i] * x) - gain(i, a[i]) for i, x in c.items())
        return (base + gained) / eta - eta * dot(h, h) / 4 + s * dot(centre, h)

    def priced(self, square, count):
        """The objective where a weight is inside the margin; infinite where this is more than is
        allowed.
        """
        if self.budget is None:
            return square + self.lam * count
        return square if count <= self.budget else math.inf

    def upper_ramp(self):
        u, square = self.model()
        return square / 2 + self.C * dot(self.s, [min(F(2), max(F(0), 1 - m)) for m in u])

    def upper_l0(self):
        # The objective over ½ is that of the 0-1 loss with λ = 2C.
        self.lam = 2 * self.C
        return self.upper_zero_one() / 2

    def upper_zero_one(self):
        """The least objective of the model as it is, and divided such that margins just below 1 are
        1.
        """
        (u, square), found = self.model(), []
        for shortfall in (0.0, 1e-12, 1e-9, 1e-6, 1e-3):
            t = min([F(1), *(m for m in u if m >= F(1 - shortfall))])
            found.append(self.priced(square / t**2, sum(s for s, m in zip(self.s, u) if m < t)))
        return min(found)

    def upper_conic(self):
        V, (u, square) = columns(self.arrays.get("model.V", [])), self.model()
        spread = [sum(dot(v, row) ** 2 for v in V) for row in self.rows]
        if not any(spread):
            return self.upper_zero_one()
        z = [
            max(F(0), 1 - m) ** 2 / (v + (1 - m) ** 2) if m < 1 else F(0) for m, v in zip(u, spread)
        ]
        return self.priced(square + sum(dot(v, v) for v in V), dot(self.s, z))

    def lower_conic(self):
        gamma, lam = (
            self.dual["gamma"],
            self.lam if self.budget is None else self.arrays["dual.lam"],
        )
        alpha = self.dual.get("alpha", [F(0)] * len(gamma))
        demand(lam >= 0 and min(gamma) >= 0, "λ or a γ is negative")
        demand(all(g > 0 or a == 0 for g, a in zip(gamma, alpha)), "an α is not 0 where its γ is 0")
        value = sum(alpha) - sum(gamma) - (0 if self.budget is None else lam * self.budget)
        for g, a, s in zip(gamma, alpha, self.s):
            value -= (
                0 if g == 0 else max(0, a * a / (4 * g) - lam * s) if a > 0 else a * a / (4 * g)
            )
        outer = [
            combined(list(map(F.__mul__, gamma, column)), self.rows)
            for column in columns(self.rows)
        ]
        Q = [[(i == j) - x for j, x in enumerate(row)] for i, row in enumerate(outer)]
        c, _ = self.signed([a - 2 * g for a, g in zip(alpha, gamma)])
        return value - inverse_form(Q, c) / 4

    lower_zero_one = lower_conic

    def upper_m3svm(self):
        W, b, loss = columns(self.arrays["model.coef"]), self.arrays["model.intercept"], F(0)
        for s, own, row in zip(self.s, self.codes, self.rows):
            scores = [dot(w, row) + bias for w, bias in zip(W, b)]
            loss += s * (sum(max(F(0), 1 - scores[own] + score) for score in scores) - 1)
        pairs = [[a - b for a, b in zip(*pair)] for pair in combinations(W, 2)]
        lengths = (sum(map(abs, v)) ** 2 if self.norm == 1 else dot(v, v) for v in pairs)
        return loss + self.lam * sum(lengths) + self.eps * sum(dot(v, v) for v in [*W, b])

    def lower_m3svm(self):
        B, gain, S = [], F(0), columns(self.arrays["dual.flow"])
        for i, own, s, row in zip(self.index, self.codes, self.s, self.dual["alpha"]):
            inside = row[own] == 0 == min(row) and max(row) <= s * (1 + ROUNDING)
            demand(inside, f"a multiplier of row {i} is out of bounds")
            alpha = [min(a, s) for a in row]
            gain += sum(alpha)
            B.append([sum(alpha) if k == own else -a for k, a in enumerate(alpha)])
        G, g = [combined(b, self.rows) for b in columns(B)], list(map(sum, columns(B)))
        sizes = (max(map(abs, v)) ** 2 if self.norm == 1 else dot(v, v) for v in S)
        for (k, other), flow in zip(combinations(range(len(G)), 2), S):
            G[k] = [a - x for a, x in zip(G[k], flow)]
            G[other] = [a + x for a, x in zip(G[other], flow)]
        return gain - sum(sizes) / (4 * self.lam) - sum(dot(v, v) for v in [*G, g]) / (4 * self.eps)

    def lower_tree(self):
        """The least U of a bound, or bound of a leaf, of a branch and bound whose multipliers are
        evaluated again.
        """
        A, rows = {key[5:]: values for key, values in self.arrays.items() if key[:5] == "tree."}, {}
        free, half, cut = (
            self.intercept == "free",
            1 if self.family == "zero_one" else 2,
            2 if self.family == "ramp" else 0,
        )
        t = 0 if self.budget is not None else self.C * half * max(cut, 1) if free else self.lam
        for y, row, own, s in zip(self.y, self.taken(self.every), self.rows, self.s):
            # Without a constant, a row and its negative of the other class are the same signed row.
            key = (y, *row) if self.kernel or free else tuple(y * x for x in own)
            rows.setdefault(key, [y, row, own, 0])[3] += s
        signs, g, own, weight = zip(*rows.values())
        if free and not self.kernel:
            g = [[x - z for x, z in zip(row, A["centre"])] for row in g]
        g, plus = (
            g if self.kernel or free else own,
            int(self.intercept == "penalised" and self.kernel is not None),
        )
        n, off, budget = len(g), self.off, self.budget or 0
        Q = [
            [a * b * (self.inner(x, z) + plus) for b, z in zip(signs, g)] for a, x in zip(signs, g)
        ]
        length, counts = (
            [root(Q[i][i] + off) for i in range(n)],
            [*A["bounds"], *A["flip_count"], *A["beta_count"]],
        )
        prices = A.get("price", [F(t)] * len(A["upper"]))
        named = {*A["flip_row"], *A["beta_row"]} <= {*range(n)} and {*A.get("side", [])} <= {
            -1,
            0,
            1,
        }
        demand(
            named and A["bounds"][0] > 0 <= min(*counts, *A["upper"], *prices),
            "a number of the tree is out of range",
        )
        flips, listed = iter(A["flip_row"]), iter(zip(A["beta_row"], A["beta"]))
        cuts = [A.get(name, [0] * len(prices)) for name in ("side", "at")]
        steps = iter([*zip(A["upper"], prices, A["flip_count"], A["beta_count"], *cuts)])
        R = root(A["upper"][0])
        B = max(length) * R + (1 if cut else -1) if free else F(0)
        M = [digits(1 + size * R + max(B, 0), 12, math.ceil) for size in length]
        least, stack = min(A["upper"]), [({}, M, F(0), frozenset(), -B, B)]
        if free:
            least = min(
                least, *(t * sum(s for y, s in zip(signs, weight) if y == sign) for sign in (-1, 1))
            )
        for branch, bounds in zip(A["branch"], A["bounds"]):
            state, M, bound, marked, low, high, passed = *stack.pop(), False
            for _ in range(bounds):
                U, price, flipped, own, side, at = next(steps)
                flipped, beta = [*islice(flips, flipped)], {}
                demand(
                    flipped == sorted({*flipped}), "marks of a bound are not in increasing order"
                )
                for i, b in islice(listed, own):
                    beta[i] = beta.get(i, 0) + b
                bound = math.inf if low > high else bound
                passed = passed or bound >= U
                if passed:
                    continue
                marked = marked ^ {*flipped}
                caps = {
                    i: digits(price * weight[i] / max(M[i], cut), 128, math.floor)
                    for i in {*range(n)} - state.keys()
                }
                put = {i: caps[i] for i in marked & caps.keys()}
                for i, b in beta.items():
                    put[i] = max(F(0), min(b, caps[i])) if i in caps else b * ((b > 0) == state[i])
                put = {i: b for i, b in put.items() if b}
                size, delta = sum(map(abs, put.values())), sum(b * signs[i] for i, b in put.items())
                product = [sum((b * Q[i][j] for j, b in put.items()), F(0)) / 2 for i in range(n)]
                gain = sum(put.values()) - (
                    0
                    if not cut
                    else cut
                    * sum(
                        b if not state[i] else max(0, b - price * weight[i] / cut)
                        for i, b in put.items()
                        if i in state
                    )
                )
                ends = at if side > 0 else low, at if side < 0 else high
                D = gain + price * (sum(weight[i] for i in state if not state[i]) - budget)
                D -= (sum(b * product[i] for i, b in put.items()) + off * size**2 / 2) / 2 + max(
                    delta * x for x in ends
                )
                if side:
                    high = min(high, at) if side > 0 and D >= U else high
                    low = max(low, at) if side < 0 and D >= U else low
                    continue
                passed = (bound := max(bound, D)) >= U
                radius = F(0) if passed else root(U - D)
                for i in () if passed else caps:
                    centre, reach = 1 - product[i], length[i] * radius + off * size / 2
                    ends = signs[i] * low, signs[i] * high
                    most, fewest = centre + reach - min(ends), centre - reach - max(ends)
                    if most <= cut or fewest > cut:
                        state[i] = most <= cut
                    else:
                        M[i] = min(M[i], digits(most, 12, math.ceil))
            bound = math.inf if low > high else bound
            if branch >= 0:
                demand(branch < n, "a node branches on a row that there is not")
                stack += [
                    ({**state, branch: kept}, [*M], bound, marked, low, high)
                    for kept in (False, True)
                ]
                continue
            dropped = sum(weight[i] for i in state if not state[i])
            bound = max(
                bound, t * dropped if self.budget is None else math.inf if dropped > budget else 0
            )
            if bounds and bound < U and not cut and ((marked | beta.keys()) <= state.keys()):
                beta = {i: b for i, b in beta.items() if (b > 0) == state[i]}
                delta, E = sum(b * signs[i] for i, b in beta.items()), sum(beta.values())
                E, size = E - max(delta * low, delta * high), sum(map(abs, beta.values()))
                square = (
                    sum(a * b * Q[i][j] for i, a in beta.items() for j, b in beta.items())
                    + off * size**2
                )
                exact = (E**2 / square if square else math.inf) + price * (dropped - budget)
                bound = max(bound, exact) if E > 0 else bound
            least = min(least, bound)
        demand(not stack and not [*steps, *flips, *listed], "the parts of the tree do not fit")
        return max(least, F(0)) / half


def confirm(P, arrays, T, lower, upper):
    """Demand that the claims of scores are confirmed."""
    claims = [*zip(arrays["scores.lower"], arrays["scores.upper"], arrays["scores.label"])]
    demand(
        all(
            low <= high and label == (1 if low > 0 else 0 if high <= 0 else 2)
            for low, high, label in claims
        ),
        "labels",
    )
    for j, (found, claimed) in enumerate(zip(P.scores(rational(T), lower, upper), claims)):
        demand(found[0] <= found[1], "the ends of a score cross")
        demand(
            claimed[0] <= -NOTHING or found[0] >= claimed[0],
            f"the lower end of the score of test row {j} is not proved",
        )
        demand(
            claimed[1] >= NOTHING or found[1] <= claimed[1],
            f"the upper end of the score of test row {j} is not proved",
        )


def verify(proof, data):
    """The ends that a file proves about the data of another, and what fails; nothing if they
    confirm what it claims.
    """
    try:
        with np.load(data) as found:
            X, y = found["X"].astype(float), found["y"].tolist()
            T = found["T"].astype(float) if "T" in found else None
        header, arrays = read_proof(proof, X, y, T)
        P, claim = Problem(header["statement"], arrays, X, y), header["claim"]
        bounds = [P.lower_tree()] if TREE.keys() & arrays.keys() else []
        if any(name[:5] == "dual." for name in arrays) or (
            claim["lower"] is not None and not bounds
        ):
            demand(P.kernel is None, "a dual point with a kernel is not known here")
            bounds.append(getattr(P, f"lower_{P.family}")())
        lower, upper = max(bounds, default=-math.inf), math.inf
        if claim["upper"] is not None:
            upper = getattr(P, f"upper_{P.family}")()
            demand(upper <= F(claim["upper"]), "the upper end is not proved")
        demand(claim["lower"] is None or lower >= F(claim["lower"]), "the lower end is not proved")
        demand(lower <= upper, "the ends cross, so that one of them is false")
        if "test" in header:
            demand(-math.inf < lower and upper < math.inf, "scores follow from both ends")
            confirm(P, arrays, T, lower, upper)
        return lower, upper, ""
    except Exception as error:  # whatever fails, nothing is proved
        return -math.inf, math.inf, f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    *ends, why = verify(*sys.argv[1:3])
    print(f"refused: {why}" if why else f"holds: {float(ends[0])!r} to {float(ends[1])!r}")
    sys.exit(bool(why))
