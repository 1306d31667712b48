; Norms rounded up and factors rounded down, in real arithmetic: a float operation whose result is in
; the normal range is the exact one times (1 + e), |e| <= u = 2^-53 (IEEE 754), and e is any such
; number here.  Each query looks for a counterexample and is to answer unsat.  A line
; "; FILE: TEXT" is text of FILE that the assertions below it say in reals.
; The procedure is named, since by default Z3 changes procedures by the clock.
(set-logic QF_NRA)
(define-fun u () Real (/ 1.0 9007199254740992.0)) ; 2^-53; DBL_EPSILON is 2 u
(define-fun rounds ((e Real)) Bool (and (<= (- u) e) (<= e u)))

(declare-const a Real) (declare-const b Real) (declare-const c Real) (declare-const e Real)
(declare-const f Real) (declare-const g Real) (declare-const h Real) (declare-const k Real)
(declare-const d Real) (declare-const norm Real) (declare-const bound Real)

; ---- Norms, rounded up

; The sum of d squares, in any order.  A square loses u of itself; a sum of two parts, which have
; lost m u and k u at most, loses (max(m, k) + 1) u.  So all of them together lose d u at most.
(push)
(assert (and (<= 0.0 a) (<= 0.0 b) (rounds e)))
(assert (and (<= 1.0 k) (<= k d) (<= d 4503599627370496.0)))
(assert (>= f (* a (- 1.0 (* k u)))))
(assert (>= g (* b (- 1.0 (* k u)))))
(assert (not (>= (* (+ f g) (+ 1.0 e)) (* (+ a b) (- 1.0 (* (+ k 1.0) u))))))
(check-sat-using qfnra-nlsat)
(pop)

; csrc/dense.c: up = 1.0 + ((double)rows->d / 2.0 + 4.0) * DBL_EPSILON;
; csrc/dense.c: norms[i] = sqrt(square) * up;
; a is the computed sum, b the exact one, f its root; 2^-144 covers squares that underflow, where the
; sum is over 1e-280.
(define-fun up () Real (* (+ 1.0 (* (+ (/ d 2.0) 4.0) (* 2.0 u))) (- 1.0 u)))
(push)
(assert (and (<= 0.0 d) (<= d 4503599627370496.0) (<= 0.0 norm) (<= 0.0 f)))
(assert (>= (* f f) (* norm norm (- 1.0 (* (+ d 1.0) u)))))
(assert (not (>= (* f (- 1.0 u) up (- 1.0 u)) norm)))
(check-sat-using qfnra-nlsat)
(pop)

; csrc/dense.c: return largest * sqrt(sum);
; Divided by the largest entry, a square loses 3 u of itself, and the product one u more; the sum is
; about 1 at least.
(push)
(assert (and (<= 0.0 d) (<= d 4503599627370496.0) (<= 0.0 norm) (<= 0.0 f)))
(assert (>= (* f f) (* norm norm (- 1.0 (* (+ d 3.0) u)))))
(assert (not (>= (* f (- 1.0 u) (- 1.0 u) up (- 1.0 u)) norm)))
(check-sat-using qfnra-nlsat)
(pop)

; csrc/csr.c: norms[i] = sqrt(stored) * (1.0 + (stored / 2.0 + 4.0) * DBL_EPSILON);
(push)
(assert (and (<= 0.0 d) (<= d 4503599627370496.0) (<= 0.0 norm) (rounds e) (rounds f)))
(assert (not (>= (* norm (+ 1.0 e) up (+ 1.0 f)) norm)))
(check-sat-using qfnra-nlsat)
(pop)

; dpfast/queries/_linear.py: return (np.sqrt(squares) + grow * reach) * (1.0 + grow)
; An upper bound of the norm of z and of what its own entries are wrong by.  b is the reach.
(define-fun grow () Real (* (+ d 8.0) u))
(push)
(assert (and (<= 0.0 d) (<= d 1073741824.0) (<= 0.0 norm) (<= 0.0 f) (<= 0.0 b)))
(assert (>= (* f f) (* norm norm (- 1.0 (* (+ d 1.0) u)))))
(assert (not (>= (* (+ (* f (- 1.0 u)) (* grow (- 1.0 u) (- 1.0 u) b)) (- 1.0 u)
                    (+ 1.0 grow) (- 1.0 u) (- 1.0 u))
                 (+ norm (* (+ d 2.0) u b)))))
(check-sat-using qfnra-nlsat)
(pop)

; ---- Factors, rounded down

; dpfast/problem.py: shrunk = (data_norm / np.maximum(norms, data_norm)) * (1.0 - 4.0 * UNIT)
; The row of the true norm ends in the ball; a is the larger of its upper bound and data_norm.
(push)
(assert (and (<= 0.0 norm) (<= norm a) (< 0.0 bound) (<= bound a) (rounds e) (rounds f)))
(assert (not (<= (* (/ bound a) (+ 1.0 e) (- 1.0 (* 4.0 u)) (+ 1.0 f) norm) bound)))
(check-sat-using qfnra-nlsat)
(pop)

; dpfast/problem.py: exact = (1.0 - 8.0 * UNIT) / whole
; dpfast/problem.py: inverse = _rounded_down((1.0 - 8.0 * UNIT) / norms)
; csrc/loss_blocks.h: const double limit = clip_norm * (double)inverse_norm[i];
; csrc/loss_blocks.h: s[i] *= weight[i];
; csrc/loss_blocks.h: s[i] *= row_scale[i];
; The norm of what a row adds is at most clip_norm times its weight: a is `whole`, wrong by two units
; at most (hypot of the C library); b the slope, within the limit; c the weight; h the factor
; in single precision; g and k are the roundings of the two products at the end.
(push)
(assert (and (< 0.0 norm) (< 0.0 bound) (rounds e) (rounds f) (rounds g) (rounds k)))
(assert (>= a (* norm (- 1.0 (* 2.0 u)))))
(assert (and (<= 0.0 h) (<= (* h a) (* (- 1.0 (* 8.0 u)) (+ 1.0 e)))))
(assert (and (<= 0.0 b) (<= b (* bound h (+ 1.0 f)))))
(assert (<= 0.0 c))
(assert (not (<= (* b c (+ 1.0 g) (+ 1.0 k) norm) (* bound c))))
(check-sat-using qfnra-nlsat)
(pop)

; dpfast/problem.py: counted = np.minimum(1.0, longest * (1.0 - 4.0 * UNIT) / np.maximum(norms, longest))
; dpfast/problem.py: weight = counted if weight is None else counted * weight
; A long row counts so much less that it is no longer than the longest; c is the weight.
(push)
(assert (and (<= 0.0 norm) (<= norm a) (< 0.0 bound) (<= bound a) (<= 0.0 c)))
(assert (and (rounds e) (rounds f) (rounds g)))
(assert (not (<= (* (/ (* bound (- 1.0 (* 4.0 u)) (+ 1.0 e)) a) (+ 1.0 f) c (+ 1.0 g) norm)
                 (* bound c))))
(check-sat-using qfnra-nlsat)
(pop)

; dpfast/problem.py: part = (1.0 - 8.0 * UNIT) / most
; The weights of `most` rows of a group, d, add up to that of one record at most.
(push)
(assert (and (<= 1.0 d) (<= 0.0 c) (rounds e) (rounds f)))
(assert (not (<= (* d (* c (/ (- 1.0 (* 8.0 u)) d) (+ 1.0 e) (+ 1.0 f))) c)))
(check-sat-using qfnra-nlsat)
(pop)

; dpfast/queries/_linear.py: norms = np.sqrt(squares) * (1.0 + (d + 8) * UNIT)
; dpfast/queries/_linear.py: return radius / np.maximum(norms, radius)
; f is the root of the computed sum of squares, a the larger of the computed norm and the radius.
(push)
(assert (and (<= 0.0 d) (<= d 1073741824.0) (<= 0.0 norm) (<= 0.0 f) (< 0.0 bound) (rounds e)))
(assert (>= (* f f) (* norm norm (- 1.0 (* (+ d 1.0) u)))))
(assert (>= a (* f (- 1.0 u) (+ 1.0 grow) (- 1.0 u) (- 1.0 u))))
(assert (>= a bound))
(assert (not (<= (* (/ bound a) (+ 1.0 e) norm) bound)))
(check-sat-using qfnra-nlsat)
(pop)

; csrc/groups.c: double factor = length > clip->norm ? clip->norm / length * DOWN : 1.0;
; csrc/groups.c: #define DOWN (1.0 - 0x1p-49)
(push)
(assert (and (< 0.0 bound) (< bound a) (rounds e) (rounds f)))
(assert (not (<= (* (/ bound a) (+ 1.0 e) (- 1.0 (* 16.0 u)) (+ 1.0 f) a) bound)))
(check-sat-using qfnra-nlsat)
(pop)

; dpfast/queries/coordinates.py: clip_norm = self.clip_norm * unit * (1.0 - 4.0 * UNIT)
; Also after a division that rounds up; c is the unit.
(push)
(assert (and (< 0.0 bound) (< 0.0 c) (rounds e) (rounds f) (rounds g)))
(assert (not (<= (/ (* bound c (+ 1.0 e) (- 1.0 (* 4.0 u)) (+ 1.0 f) (+ 1.0 g)) c) bound)))
(check-sat-using qfnra-nlsat)
(pop)

; ---- What is charged

; dpfast/mechanisms/_grid.py: return self.step * math.sqrt(dimension)
; dpfast/mechanisms/_additive.py: self.sensitivity + 2.0 * self.error + self._grid.rounding(self.dimension)
; dpfast/mechanisms/_mechanism.py: ROUND_UP = 1.0 + 2.0**-48
; dpfast/mechanisms/gaussian.py: self.charged_sensitivity *= 1.0 + _SMOOTHING_VARIANCE / self.integer_scale**2
; Not less than in exact arithmetic: a is the sensitivity, b the error, c the rounding of vectors to the
; grid, d the share 4096 / s^2.  A square of an integer s < 2^33 may be rounded: e.
(push)
(assert (and (<= 0.0 a) (<= 0.0 b) (<= 0.0 c) (<= 0.0 d) (<= d 1.0)))
(assert (and (rounds e) (rounds f) (rounds g) (rounds h) (rounds k)))
(assert (>= norm (* (+ a (* 2.0 b)) (- 1.0 u))))
(assert (>= bound (* (+ norm (* c (+ 1.0 e))) (+ 1.0 f) (+ 1.0 (* 32.0 u)) (+ 1.0 g))))
(assert (not (>= (* bound (+ 1.0 (* d (- 1.0 (* 2.0 u)))) (+ 1.0 h) (+ 1.0 k))
                 (* (+ a (* 2.0 b) c) (+ 1.0 d)))))
(check-sat-using qfnra-nlsat)
(pop)
